"""Order parameters of heads through time τ, and the default pictures of flows and of SGD.

Every head has its own colour and dash; SGD is drawn with dots. Overlaps of a head with itself have its colour, those of
two heads are grey.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import DASHES, label
from softmaxlab.plotting.map_styles import CALLED
from softmaxlab.specialization import SGD, Flow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = COLOURS[-1]
SHOWN_FEATURES = 4  # panels of m; more features than that are left to the result
BAND = 2.0  # standard errors of the loss on each side


def draw_of_heads(ax: "Axes", tau: np.ndarray, values: np.ndarray, **look: Any) -> None:
    """One line per head of `values` [tau, head]."""
    for h, column in enumerate(values.T):
        own = {"color": COLOURS[h % len(COLOURS)], "ls": DASHES[h % len(DASHES)], "lw": 1.5, "label": f"head {h + 1}"}
        ax.plot(tau, column, **(own | look))


def draw_overlaps(ax: "Axes", tau: np.ndarray, q: np.ndarray, **look: Any) -> None:
    """Overlaps q [tau, head, head] of all pairs of heads."""
    H = q.shape[-1]
    for i, (h, other) in enumerate(zip(*np.triu_indices(H, 1))):
        name = "two heads" if i == 0 else None
        ax.plot(tau, q[:, h, other], **({"color": GREY, "lw": 1.2, "ls": "-", "label": name} | look))
    draw_of_heads(ax, tau, np.diagonal(q, axis1=1, axis2=2), **look)


def draw_loss(ax: "Axes", tau: np.ndarray, loss: np.ndarray, error: np.ndarray | None = None, **look: Any) -> None:
    """The loss, and if known a band of `BAND` standard errors around it."""
    ax.plot(tau, loss, **({"color": "k", "lw": 1.5} | look))
    if error is not None:
        ax.fill_between(tau, loss - BAND * error, loss + BAND * error, color="k", alpha=0.12, lw=0)


def feature_name(f: int) -> str:
    return f"$m_{{h{f + 1}}} = k_h \\cdot k^*_{f + 1}$"


def draw_flow(result: Result) -> "Figure":
    """Loss, m and q of a flow through τ."""
    return _panels(result, "Flow")


def draw_sgd(result: Result) -> "Figure":
    """Loss, m and q of SGD through τ."""
    spec = result.spec
    how = (
        f"SGD ({spec.method}), D = {spec.dim:g}, batch {spec.batch:g}, lr {spec.lr:g}"
        if isinstance(spec, SGD)
        else "SGD"
    )
    return _panels(result, how, ls="none", marker="o", ms=2.5)


def _panels(result: Result, title: str, **look: Any) -> "Figure":
    from matplotlib.figure import Figure

    tau, features = result["tau"], range(min(result["m"].shape[-1], SHOWN_FEATURES))
    learned = np.ptp(result["b"]) > 0  # of the maps only some have biases
    count = 2 + len(features) + learned
    figure = Figure(figsize=(3.1 * count + 0.9, 3.3), layout="constrained")
    loss, *of_features, overlaps, biases = [*figure.subplots(1, count, squeeze=False)[0], *[None] * (not learned)]
    draw_loss(loss, tau, result["loss"], result.arrays.get("loss_error"), **look)
    label(loss, "τ", "loss", "loss")
    for f, ax in zip(features, of_features):
        draw_of_heads(ax, tau, result["m"][:, :, f], **look)
        label(ax, "τ", feature_name(f), f"alignment with spike {f + 1}")
    draw_overlaps(overlaps, tau, result["q"], **look)
    label(overlaps, "τ", "$q_{hh'} = k_h \\cdot k_{h'}$", "overlaps of heads")
    if biases is not None:
        draw_of_heads(biases, tau, result["b"], **look)
        label(biases, "τ", "$b_h$", f"biases (gain v = {result['v'][-1]:.3g} at the end)")
    handles, names = overlaps.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", fontsize=8, frameon=False)
    end = "" if result.status.ok else f"\n{result.status}"
    figure.suptitle(f"{title}{_of_model(result)}{end}", fontsize=11)
    return figure


def _of_model(result: Result) -> str:
    spec = result.spec
    if not isinstance(spec, Flow | SGD):
        return ""
    model = spec.model
    return (
        f": {CALLED.get(model.map, model.map)}, {type(model.prior).__name__}, "
        f"F = {model.features}, H = {model.heads}, L = {model.length}"
    )
