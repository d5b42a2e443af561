"""The panels of the optimizers figure: who wins above, how clearly below."""

from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.decay import decay_at, uniform_decay
from softmaxlab.plotting import lines
from softmaxlab.plotting.journal import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = {"right": "share of seeds won by argmax u(0)", "largest": "median largest weight"}
AXES = {"lr": "learning rate", "scale": "scale of V(0)", "eps": "eps", "decay": "weight decay λ"}
MARKS = {"gd": ("o", "GD"), "momentum": ("s", "momentum"), "adam": ("^", "Adam"), "adamw": ("D", "AdamW")}


def draw_panels(result: Result) -> "Figure":
    """Slices of the grid through scale 0.1 (or the nearest), the smallest eps and no decay, and the other surveys."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17, 7.6), layout="constrained")
    axes = figure.subplots(2, 4)
    base = {"scale": _nearest(result, 0.1), "eps": result["eps"].min(), "decay": 0.0}
    panels = {axes[0, 0]: ("scale", "right"), axes[0, 1]: ("eps", "right"), axes[0, 2]: ("decay", "right")}
    panels |= {axes[1, 0]: ("scale", "largest"), axes[1, 1]: ("eps", "largest")}
    for ax, (other, name) in panels.items():
        through = {name: value for name, value in base.items() if name != other}
        cells = _cells(result, study="grid", optimizer="adamw", **through)
        image = _draw_heat(ax, result, cells, other, name)
        rest = ", ".join(f"{AXES[name]} {value:g}" for name, value in through.items())
        lines.label(ax, AXES["lr"], AXES[other], f"AdamW: {SHOWN[name]}\n({rest})")
    figure.colorbar(image, ax=axes[0, 2], pad=0.02)
    _draw_winners(axes[1, 2], result, _cells(result, study="grid", optimizer="adamw", **base))
    _draw_memory(axes[0, 3], result)
    _draw_decay(axes[1, 3], result, base)
    return figure


def _cells(result: Result, **at: Any) -> np.ndarray:
    """The indices of the cells with these settings."""
    chosen = np.ones(len(result["lr"]), dtype=bool)
    for name, value in at.items():
        chosen &= result[name] == value
    return np.flatnonzero(chosen)


def _nearest(result: Result, scale: float) -> float:
    return float(min(np.unique(result["scale"]), key=lambda s: abs(np.log(s / scale))))


def _draw_heat(ax: "Axes", result: Result, cells: np.ndarray, other: str, name: str) -> Any:
    x, y = np.unique(result["lr"][cells]), np.unique(result[other][cells])
    heat = np.full((len(y), len(x)), np.nan)
    place = np.searchsorted(y, result[other][cells]), np.searchsorted(x, result["lr"][cells])
    heat[place] = result[name][cells].mean(axis=1) if name == "right" else np.median(result[name][cells], axis=1)
    image = ax.imshow(heat, origin="lower", aspect="auto", cmap="cividis", vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(heat):
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color="w" if value < 0.6 else "k")
    ax.set_xticks(range(len(x)), [f"{v:g}" for v in x])
    ax.set_yticks(range(len(y)), [f"{v:g}" for v in y])
    return image


def _draw_winners(ax: "Axes", result: Result, cells: np.ndarray) -> None:
    """Draw which token in the order of u(0) wins, at a learning rate below, in and above the window."""
    rates = np.unique(result["lr"][cells])
    shown = [rates[0], rates[len(rates) // 2], rates[-1]]
    ranks = np.arange(int(result["p"]))
    for k, lr in enumerate(shown):
        (cell,) = cells[result["lr"][cells] == lr]
        share = (result["winner"][cell][:, None] == ranks).mean(axis=0)
        above = result["just_above"][cell].mean()
        label = f"lr {lr:g}: {above:.0%} the last above the mean"
        ax.bar(ranks + 0.27 * (k - 1), share, 0.27, color=COLOURS[k], hatch=("", "//", "..")[k], ec="w", label=label)
    ax.legend(fontsize=8, frameon=False)
    ax.set_ylim(0, 1.03)
    lines.label(ax, "winner's place in the order of u(0)", "share of seeds", "AdamW: who wins")


def _draw_memory(ax: "Axes", result: Result) -> None:
    """The share of right winners against lr over 1 − β, for either memory."""
    cells = _cells(result, study="memory")
    # each sweep moves one of the two betas; the other stands at its most frequent value
    for k, (name, symbol) in enumerate((("beta2", "β₂"), ("beta1", "β₁"))):
        other = "beta1" if name == "beta2" else "beta2"
        values, counts = np.unique(result[other][cells], return_counts=True)
        still = cells[result[other][cells] == values[counts.argmax()]]
        for i, lr in enumerate(np.unique(result["lr"][still])):
            one = still[result["lr"][still] == lr]
            x = lr / (1.0 - result[name][one])
            order = np.argsort(x)
            share = result["right"][one].mean(axis=1)[order]
            style = {"color": COLOURS[k], "ls": ("-", "--", ":")[i % 3], "marker": "os^D"[i % 4], "ms": 4}
            ax.plot(x[order], share, **style, label=f"{symbol} varied, lr {lr:g}")
    ax.axvline(0.2, color=COLOURS[0], lw=0.8, ls=":")
    ax.axvline(0.5, color=COLOURS[1], lw=0.8, ls=":")
    ax.set(xscale="log", ylim=(-0.03, 1.03))
    ax.legend(fontsize=8, frameon=False)
    lines.label(ax, "lr / (1 − β)", "share right", "Adam: order is lost between two boundaries")


def _draw_decay(ax: "Axes", result: Result, base: dict[str, float]) -> None:
    """Largest weight against weight decay for each optimizer, and the fixed points of decay.py."""
    p = int(result["p"])
    x = 1.0 - np.geomspace(1e-2, 1.0 - 1.0 / p, 400)[:-1]
    ax.plot(decay_at(x, 1.0, p), x, color="k", lw=1.2, label="fixed points")
    ax.axvline(uniform_decay(1.0, p), color=COLOURS[-1], ls=":", lw=1.2, label="uniform is stable beyond")
    for k, (optimizer, (marker, name)) in enumerate(MARKS.items()):
        cells = _cells(result, optimizer=optimizer, scale=base["scale"], eps=base["eps"])
        cells = cells[(result["decay"][cells] > 0) & (result["study"][cells] != "memory")]
        cells = cells[result["lr"][cells] == _farthest(result, cells)]
        largest = np.median(result["largest"][cells], axis=1)
        ax.plot(result["decay"][cells], largest, marker, color=COLOURS[k], mfc="none", ms=8 - k, mew=1.5, label=name)
    ax.set(xscale="log", ylim=(0, 1.03), xlim=(5e-5, 0.3))
    ax.legend(fontsize=8, frameon=False, loc="lower left")
    lines.label(ax, AXES["decay"], "median largest weight", "weight decay stops all but AdamW")


def _farthest(result: Result, cells: np.ndarray) -> float:
    """Return the learning rate nearest to its end: GD's largest at equal steps, Adam's smallest at most steps."""
    rates = result["lr"][cells]
    return float(rates.min() if result["study"][cells[0]] == "grid" else rates.max())
