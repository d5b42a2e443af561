"""Quantities of tokens through time, and the default pictures of flows and descents.

Every token has its own colour and dash by its rank, the winner (the largest at the end) a thick solid blue. More tokens
than colours are thin and grey, and more than can be told apart a grey band.
"""

from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import DASHES, label
from softmaxlab.polarization import Descent, Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED, GREY = COLOURS[:-1], COLOURS[-1]
LINES = 60  # more grey lines than this become a band
WIDE = 20.0  # largest over smallest weight from which on a logarithmic axis shows more


def ranked(final: np.ndarray) -> np.ndarray:
    """Tokens from the largest to the smallest."""
    return np.argsort(-final, kind="stable")


def draw_tokens(ax: "Axes", x: np.ndarray, values: np.ndarray, order: np.ndarray | None = None) -> None:
    """One line per token of `values` [x, token], in the order of rank (that of the last values if not given)."""
    order = ranked(last(values)) if order is None else order
    rest = order[len(NAMED) :]
    if len(rest) > LINES:
        low, high = values[:, rest].min(axis=1), values[:, rest].max(axis=1)
        ax.fill_between(x, low, high, color=GREY, alpha=0.4, label=f"other {len(rest)} tokens")
    else:
        name = f"other {len(rest)} tokens" if len(rest) > 1 else f"token {order[-1]}"
        for i, token in enumerate(rest):
            ax.plot(x, values[:, token], color=GREY, lw=0.7, label=name if i == 0 else None)
    for rank in reversed(range(min(len(NAMED), len(order)))):  # the winner last, on top
        token, width = order[rank], 2.4 if rank == 0 else 1.2
        ax.plot(x, values[:, token], color=NAMED[rank], ls=DASHES[rank], lw=width, label=f"token {token}")


def legend(figure: "Figure", ax: "Axes") -> None:
    """The tokens of one panel, the winner first, beside all panels."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", fontsize=8, frameon=False)


def log_time(ax: "Axes", t: np.ndarray, part: float = 0.0) -> None:
    """A logarithmic time axis over the times after 0, or after a part of the last one."""
    ax.set_xscale("log")
    ax.set_xlim(t[t > part * t[-1]][0], t[-1])


def log_weights(ax: "Axes", weights: np.ndarray) -> None:
    """A logarithmic weight axis where it shows more: all weights positive, and far apart."""
    known = weights[np.isfinite(weights)]
    if known.size and known.min() > 0 and known.max() > WIDE * known.min():
        ax.set_yscale("log")


def draw_flow(result: Result) -> "Figure":
    """Weights, u, loss and strength of a flow against time."""
    return _panels(result, "t", "time t", "Flow", "strength", "strength Γ")


def draw_descent(result: Result) -> "Figure":
    """Weights, u, loss and strength of a descent against t = lr · step."""
    spec = result.spec
    title = f"Descent ({spec.optimizer}, lr {spec.lr:g})" if isinstance(spec, Descent) else "Descent"
    return _panels(result, "t", "t = lr · step", title, "strength", "strength Γ")


def draw_strength_flow(result: Result) -> "Figure":
    """Weights, u, loss and log t of a flow against strength."""
    figure = _panels(result, "strength", "strength Γ", "Flow in the clock Γ", "log_t", "log t")
    # u and log t grow like Γ; u may start below 0
    figure.axes[1].set(yscale="symlog", ylim=(result["u"].min() - 1.0, 2.0 * result["u"].max() + 1.0))
    figure.axes[-1].set_yscale("log")
    return figure


def _panels(result: Result, clock: str, clock_label: str, title: str, other: str, other_label: str) -> "Figure":
    """Four panels, or fewer: u is not known for every loss, nor `other` for every run."""
    from matplotlib.figure import Figure

    # a loss below the smallest float has no place on a logarithmic axis
    absent = [name for name in ("u", other) if name not in result] + ["loss"] * bool((result["loss"] <= 0).any())
    shown = [name for name in ("weights", "u", "loss", other) if name not in absent]
    figure = Figure(figsize=(3.1 * len(shown) + 1.0, 3.2), layout="constrained")
    axes = dict(zip(shown, figure.subplots(1, len(shown), squeeze=False)[0]))
    x, rows = result[clock], result["weights"].ndim > 2
    weights = result["weights"].mean(axis=1) if rows else result["weights"]
    draw_tokens(axes["weights"], x, weights)
    log_weights(axes["weights"], weights)
    label(axes["weights"], clock_label, "weights s", "weights, mean over queries" if rows else "weights")
    legend(figure, axes["weights"])
    if "u" in axes:
        draw_tokens(axes["u"], x, result["u"], ranked(last(weights)))
        label(axes["u"], clock_label, "u = Vᵀβ*", "value projections")
    for name, text in (("loss", "loss"), (other, other_label)):
        if name in axes:
            axes[name].plot(x, result[name], color=COLOURS[0])
            label(axes[name], clock_label, text, text)
    if "loss" in axes:
        axes["loss"].set_yscale("log")
    for ax in axes.values():
        log_time(ax, x)
    figure.suptitle(f"{title}{_setting(result)}", fontsize=10)
    return figure


def _setting(result: Result) -> str:
    """The problem in words, and how the run ended if it did not end well."""
    spec = result.spec
    problem = f": {spec.loss} loss, {spec.map}, {spec.model} model" if isinstance(spec, Problem) else ""
    return problem if result.status.ok else f"{problem}\n{result.status}"


def last(values: np.ndarray) -> np.ndarray:
    """The last row without a NaN."""
    known = np.isfinite(values).all(axis=-1)
    return values[np.flatnonzero(known)[-1]]
