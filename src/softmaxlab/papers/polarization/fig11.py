"""Figure 11: the tied model U σ(U a) in four dimensions: loss, weights, and the norm of the winner's column of U.

U^(m) is the column of the largest weight at the end; the caption's "largest element of a" is another one at the start.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers import lines
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather
from softmaxlab.papers.polarization import curves, problems
from softmaxlab.polarization import Descent, descend_many

if TYPE_CHECKING:
    import matplotlib.figure

Dimension = Annotated[int, Field(ge=2, le=500)]


class Fig11(FigureSpec):
    """Descent of the logistic loss from U = I in each dimension D; weights from the largest at the end on."""

    id: ClassVar[str] = "polarization/fig11"
    title: ClassVar[str] = "Tied values and scores: one-hot weights, one diverging column"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 11"
    reports: ClassVar[str] = (
        "In all dimensions a sparse solution is found, and the norm of the winner's column diverges"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "1 s", "paper": "1 s"}

    dims: Annotated[tuple[Dimension, ...], Field(min_length=1, max_length=8)] = (10, 20, 50, 100)
    seed: Annotated[int, Field(ge=0)] = 42
    lr: Annotated[float, Field(gt=0)] = 0.05
    steps: Annotated[int, Field(ge=1)] = 10_000

    def _run(self, device: str) -> Result:
        specs = [
            Descent(**problems.tied(dim, self.seed), lr=self.lr, steps=self.steps, points=200) for dim in self.dims
        ]
        runs = [_observed(run, min(self.dims)) for run in descend_many(specs)]
        return gather(runs, self.dims, "D", ("loss", "weights", "winner_norm", "other_norm"))

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        t, dims = result["t"], result["D"]
        figure = Figure(figsize=(12, 3.9), layout="constrained")
        loss, weights, norms = figure.subplots(1, 3)
        names = [f"D = {dim}" for dim in dims]
        lines.draw_lines(loss, t, result["loss"], names)
        lines.draw_lines(weights, t, result["weights"][:, :, 0], names)
        lines.draw_lines(weights, t, result["weights"][:, :, 1], names)
        lines.draw_lines(norms, t, result["winner_norm"], names)
        lines.draw_lines(norms, t, result["other_norm"], names)
        late = t > 1
        norms.plot(t[late], np.log(t[late]), color="k", lw=1, label="log t / ‖β*‖")
        norms.legend(handles=norms.get_lines()[-1:], fontsize=8, frameon=False)
        for ax in (loss, weights):
            ax.set_yscale("log")
        for ax in (loss, weights, norms):
            curves.log_time(ax, t)
        lines.label(loss, "t = lr · step", "logistic loss", "loss")
        lines.label(weights, "t = lr · step", "weights σ(Ua)", "the largest weight and the second")
        lines.label(norms, "t = lr · step", r"$\|U^{(m)}\|$", "norm of the winner's column, and of the largest other")
        loss.legend(fontsize=8, frameon=False)
        figure.suptitle(f"{Fig11.title} (descent)", fontsize=11)
        return figure


def _observed(run: Result, shown: int) -> Result:
    """The `shown` largest weights, the norm of the winner's column of U, and the largest norm of the others."""
    order = curves.ranked(run["scores"][-1])
    norms = np.linalg.norm(run["U"], axis=1)[:, order]
    arrays = {
        **{name: run[name] for name in ("step", "t", "loss")},
        "weights": run["scores"][:, order[:shown]],
        "winner_norm": norms[:, 0],
        "other_norm": norms[:, 1:].max(axis=1),
    }
    return Result(arrays, {name: ("t", *["rank"] * (x.ndim - 1)) for name, x in arrays.items()}, run.status)
