"""Figure 13: six maps under the square and the logistic loss, and a seventh, the elementwise relu.

The paper says that relu does not polarize and points here, where its relu is relu/Σrelu, which becomes one-hot under
the logistic loss. The elementwise relu, drawn beside it, stays dense.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.attention import MAPS
from softmaxlab.core.registry import Named
from softmaxlab.core.result import Result
from softmaxlab.measure import effective_keys
from softmaxlab.papers import lines
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather
from softmaxlab.papers.polarization import curves, problems
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
COLUMNS = 4
ROUNDING = 1e-16  # losses below are noise


class Fig13a(FigureSpec):
    """Descent of the square loss under each of `maps` from one start. At ‖β*‖ = 10, several do become one-hot."""

    id: ClassVar[str] = "polarization/fig13a"
    title: ClassVar[str] = "Square loss: no map becomes one-hot"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 13a"
    reports: ClassVar[str] = "The square loss does not give rise to sparse solutions under any of the maps"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "2 s"}

    maps: Maps = tuple(FORMULAS)
    p: Annotated[int, Field(ge=2, le=500)] = 10
    norm: Annotated[float, Field(gt=0)] = 1.0  # of β*
    seed: Annotated[int, Field(ge=0)] = 42
    lr: Annotated[float, Field(gt=0)] = 0.1
    steps: Annotated[int, Field(ge=1)] = 5000

    def _run(self, device: str) -> Result:
        start = problems.normalisation(self.p, self.seed, self.norm)
        return _descents(self.maps, loss="square", **start, lr=self.lr, steps=self.steps)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        return _draw(result, Fig13a.title)


class Fig13b(FigureSpec):
    """Descent of the logistic loss under each of `maps` from the same start."""

    id: ClassVar[str] = "polarization/fig13b"
    title: ClassVar[str] = "Logistic loss: which maps become one-hot"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 13b"
    reports: ClassVar[str] = "Sum and sigmoid do not converge to sparse solutions"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "2 s"}

    maps: Maps = tuple(FORMULAS)
    p: Annotated[int, Field(ge=2, le=500)] = 10
    norm: Annotated[float, Field(gt=0)] = 1.0  # of β*
    seed: Annotated[int, Field(ge=0)] = 42
    lr: Annotated[float, Field(gt=0)] = 0.5
    steps: Annotated[int, Field(ge=1)] = 100_000

    def _run(self, device: str) -> Result:
        start = problems.normalisation(self.p, self.seed, self.norm)
        return _descents(self.maps, loss="logistic", **start, lr=self.lr, steps=self.steps)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        return _draw(result, Fig13b.title)


def _descents(maps: tuple[str, ...], **descent: Any) -> Result:
    """Weights, u and loss for each map, and the effective number of tokens at the end, 1/Σq² with q = |s|/Σ|s|."""
    runs = descend_many(Descent(map=map, **descent) for map in maps)
    family = gather(runs, maps, "map", ("scores", "u", "loss"))
    effective = [effective_keys(run["scores"][-1][None, None])[0] for run in runs]
    b = np.square(descent["beta"]).sum()
    arrays = {**family.arrays, "effective": effective, "b": b}
    return Result(arrays, {**family.axes, "effective": ("map",)}, family.status)


def _draw(result: Result, title: str) -> "matplotlib.figure.Figure":
    from matplotlib.figure import Figure

    maps, t, p = [str(map) for map in result["map"]], result["t"], result["scores"].shape[-1]
    rows = -(-(1 + len(maps)) // COLUMNS)
    figure = Figure(figsize=(3.3 * COLUMNS + 1, 2.8 * rows + 0.4), layout="constrained")
    first, *panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    lines.draw_lines(first, t, result["loss"], maps)
    first.set(yscale="log", ylim=(max(np.nanmin(result["loss"]), ROUNDING) / 2, None))
    first.legend(fontsize=7, frameon=False)
    lines.label(first, "t = lr · step", "loss", "loss")
    order = curves.ranked(curves.last(result["u"][0]))
    for ax, map, s, effective in zip(panels, maps, result["scores"], result["effective"]):
        curves.draw_tokens(ax, t, s, order)
        name = FORMULAS.get(map, map)
        lines.label(ax, "t = lr · step", "weights s", f"{name}\neffective tokens {effective:.2f} of {p}")
    for ax in (first, *panels[: len(maps)]):
        curves.log_time(ax, t)
    for ax in panels[len(maps) :]:
        ax.set_visible(False)
    curves.legend(figure, panels[0])
    end = "" if result.status.ok else f"\n{result.status}"
    figure.suptitle(f"{title} (descent, ‖β*‖² = {result['b']:g}){end}", fontsize=11)
    return figure
