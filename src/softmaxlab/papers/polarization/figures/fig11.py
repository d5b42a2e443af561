"""Figure 11: the tied model U σ(U a) in four dimensions: loss, weights, and the norm of the winner's column of U.

U^(m) is the column of the largest weight, at each time as in the authors' code; the caption's "largest element of a" is
another one at the start. Drawn beside it: the column of the largest weight at the end, and the largest of the others.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather
from softmaxlab.papers.polarization import problems
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import Descent, descend_many

if TYPE_CHECKING:
    import matplotlib.figure

NORMS = {
    "largest_norm": "column of the largest weight (paper)",
    "winner_norm": "column of the winner at the end",
    "other_norm": "largest other column",
}
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
    seed: problems.Seed = None
    lr: Annotated[float, Field(gt=0)] = 0.05
    steps: Annotated[int, Field(ge=1)] = 10_000

    def _run(self, device: str) -> Result:
        specs = [
            Descent(**problems.tied(dim, self.seed), lr=self.lr, steps=self.steps, points=200) for dim in self.dims
        ]
        runs = [_observed(run, max(self.dims)) for run in descend_many(specs)]
        family = gather(runs, self.dims, "D", ("loss", "weights", *NORMS))
        return Result(family.arrays, family.axes, family.status, {"instance": problems.instance(self.seed)})

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        t, dims = result["t"], result["D"]
        figure = Figure(figsize=(12, 2.6 * len(dims) + 0.6), layout="constrained")
        grid = figure.subplots(len(dims), 3, squeeze=False)
        for i, ((loss, weights, norms), dim) in enumerate(zip(grid, dims.tolist())):
            loss.plot(t, result["loss"][i], color=COLOURS[0])
            loss.set_yscale("log")
            curves.draw_tokens(weights, t, result["weights"][i, :, :dim], np.arange(dim))
            lines.draw_lines(norms, t, np.stack([result[name][i] for name in NORMS]), list(NORMS.values()))
            late = t > 1
            norms.plot(t[late], np.log(t[late]), color="k", lw=1, label="log t / ‖β*‖")
            for ax in (loss, weights, norms):
                curves.log_time(ax, t)
            lines.label(loss, "t = lr · step", "logistic loss", f"D = {dim}: loss")
            lines.label(weights, "t = lr · step", "weights σ(Ua)", f"D = {dim}: weights of all tokens")
            lines.label(norms, "t = lr · step", r"$\|U^{(m)}\|$", f"D = {dim}: norms of columns of U")
        grid[0, 2].legend(fontsize=7, frameon=False)
        figure.suptitle(f"{Fig11.title} (descent, {result.notes['instance']})", fontsize=11)
        return figure


def _observed(run: Result, padded: int) -> Result:
    """Return the weights, the largest at the end first, NaN beyond D, and norms of columns of U."""
    order = curves.ranked(curves.last(run["weights"]))
    weights, norms = run["weights"][:, order], np.linalg.norm(run["U"], axis=1)[:, order]
    missing = np.full((len(weights), padded - len(order)), np.nan)
    arrays = {
        **{name: run[name] for name in ("step", "t", "loss")},
        "weights": np.concatenate([weights, missing], axis=1),
        "largest_norm": np.take_along_axis(norms, weights.argmax(axis=1)[:, None], axis=1)[:, 0],
        "winner_norm": norms[:, 0],
        "other_norm": norms[:, 1:].max(axis=1),
    }
    return Result(arrays, {name: ("t", *["rank"] * (x.ndim - 1)) for name, x in arrays.items()}, run.status)
