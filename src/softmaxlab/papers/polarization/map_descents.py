"""Descents from one start under several maps: the base of Figure 13's two halves."""

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from softmaxlab.attention import MAPS
from softmaxlab.core.registry import Named
from softmaxlab.core.result import Result
from softmaxlab.measure import effective_keys
from softmaxlab.papers.gather import gather
from softmaxlab.papers.polarization import problems
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import Descent, descend_many

if TYPE_CHECKING:
    import matplotlib.figure


FORMULAS = {
    "abs_norm": "|a|/Σ|a|",
    "sum": "a/Σa",
    "square_norm": "a²/Σa²",
    "softmax": "softmax",
    "relu_norm": "relu(a)/Σrelu(a)",
    "relu": "relu(a), elementwise",
    "sigmoid": "sigmoid(a), elementwise",
}


Maps = Annotated[tuple[Annotated[str, Named(MAPS)], ...], Field(min_length=1, max_length=11)]


ROUNDING = 1e-16  # losses below are noise


def descents(maps: tuple[str, ...], seed: int | None, **descent: Any) -> Result:
    """Weights, scores, u and loss for each map; effective tokens at the end, 1/Σq² with q = |s|/Σ|s|."""
    runs = descend_many(Descent(map=map, **descent) for map in maps)
    family = gather(runs, maps, "map", ("weights", "a", "u", "loss"))
    effective = [effective_keys(run["weights"][-1][None, None])[0] for run in runs]
    b = np.square(descent["beta"]).sum()
    arrays = {**family.arrays, "effective": effective, "b": b}
    notes = {"instance": problems.instance(seed)}
    return Result(arrays, {**family.axes, "effective": ("map",)}, family.status, notes)


def draw(result: Result, title: str) -> "matplotlib.figure.Figure":
    from matplotlib.figure import Figure

    maps, t, p = [str(map) for map in result["map"]], result["t"], result["weights"].shape[-1]
    figure = Figure(figsize=(11, 2.3 * len(maps) + 0.6), layout="constrained")
    grid = figure.subplots(len(maps), 3, squeeze=False)
    order = curves.ranked(curves.last(result["u"][0]))
    for i, ((weights, scores, loss), map) in enumerate(zip(grid, maps)):
        curves.draw_tokens(weights, t, result["weights"][i], order)
        curves.draw_tokens(scores, t, result["a"][i], order)
        loss.plot(t, result["loss"][i], color=COLOURS[0])
        loss.set(yscale="log", ylim=(max(np.nanmin(result["loss"][i]), ROUNDING) / 2, None))
        effective = f"effective tokens {result['effective'][i]:.2f} of {p}"
        lines.label(weights, "t = lr · step", "weights s", f"{FORMULAS.get(map, map)}\n{effective}")
        lines.label(scores, "t = lr · step", "scores a", f"{map}: scores")
        lines.label(loss, "t = lr · step", "loss", f"{map}: loss")
        for ax in (weights, scores, loss):
            curves.log_time(ax, t)
    curves.legend(figure, grid[0, 0])
    end = "" if result.status.ok else f"\n{result.status}"
    about = f"descent, ‖β*‖² = {result['b']:g}, {result.notes['instance']}"
    figure.suptitle(f"{title} ({about}){end}", fontsize=11)
    return figure
