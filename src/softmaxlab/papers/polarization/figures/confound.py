"""Condition number against size of the solution: what makes the weights of Figures 3 and 12 sparse?

At the end of regression, V s = w = X⁻¹β*. As κ grows with β* held fixed, so does ‖w‖²; and a larger w takes a larger
strength to reach, which polarizes by itself, as b does for the square loss. So β* is rescaled to hold ‖w‖² fixed.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.regression import Kappas
from softmaxlab.plotting import lines
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import Descent, descend_many

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MARKERS = "os^Dv<>pP*X"
Sizes = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1, max_length=50)]


class Confound(FigureSpec):
    """Descents at each of `kappas`: with the paper's β*, with ‖X⁻¹β*‖² held at its ends, and with each of `sizes`."""

    id: ClassVar[str] = "polarization/confound"
    title: ClassVar[str] = "Regression: the largest weight against the condition number and the size of the solution"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Figures 3 and 12, Section 3.2"
    reports: ClassVar[str] = (
        "The largest weight follows ‖X⁻¹β*‖²; at a fixed size κ moves it much less than at a fixed β*"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {
            "lr": 5e-3,
            "steps": 60_000,
            "kappas": (1.0, 3.0, 5.0),
            "sizes": (10.0, 20.0, 30.0, 45.0, 60.0, 80.0, 140.0, 300.0),
        },
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "20 s"}
    # steps of 5e-3 in place of 1e-3 end at the same point of the flow, up to a term of first order in the step
    quick_within: ClassVar[dict[str, float]] = {
        "largest weight at κ = 1": 0.01,
        "largest weight at κ = 5": 0.01,
        "rise with κ, β* fixed": 0.02,
        "rise with κ, the size held at that of κ = 1": 0.02,
        "rise with κ, the size held at that of κ = 5": 0.02,
    }

    kappas: Kappas = (1.0, 2.0, 3.0, 4.0, 5.0)
    sizes: Sizes = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 140.0, 200.0, 300.0)
    p: Annotated[int, Field(ge=2, le=500)] = 20
    seed: Seed = 123
    lr: Annotated[float, Field(gt=0)] = 1e-3
    steps: Annotated[int, Field(ge=1)] = 300_000

    def _run(self, device: str) -> Result:
        starts = [problems.regression(self.p, self.seed, kappa) for kappa in self.kappas]
        own = [solution_size(start) for start in starts]
        wanted = [own, *([size] * len(own) for size in (own[0], own[-1], *self.sizes))]
        specs = [
            Descent(**with_size(start, size), lr=self.lr, steps=self.steps, points=2)
            for sizes in wanted
            for start, size in zip(starts, sizes)
        ]
        runs = descend_many(specs)
        labels = [f"κ = {kappa:g}, size {size:g}" for sizes in wanted for kappa, size in zip(self.kappas, sizes)]
        largest = np.reshape([run["weights"][-1].max() for run in runs], (len(wanted), len(own)))
        arrays = {
            "kappa": self.kappas,
            "size": self.sizes,
            "own_size": own,
            "as_in_figure": largest[0],
            "held_at_first": largest[1],
            "held_at_last": largest[2],
            "largest": largest[3:],
        }
        axes = {name: ("kappa",) for name in ("kappa", "own_size", "as_in_figure", "held_at_first", "held_at_last")}
        return Result(arrays, axes | {"size": ("size",), "largest": ("size", "kappa")}, status_of(runs, labels))

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        free, first, last = (result[name] for name in ("as_in_figure", "held_at_first", "held_at_last"))
        low, high = result["kappa"][[0, -1]]
        return {
            f"largest weight at κ = {low:g}": float(free[0]),
            f"largest weight at κ = {high:g}": float(free[-1]),
            "rise with κ, β* fixed": float(free[-1] - free[0]),
            f"rise with κ, the size held at that of κ = {low:g}": float(first[-1] - first[0]),
            f"rise with κ, the size held at that of κ = {high:g}": float(last[-1] - last[0]),
        }

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        kappas, own = result["kappa"], result["own_size"]
        left.plot(kappas, result["as_in_figure"], "o-", color=COLOURS[1], label="β* held fixed, as in Figure 12")
        left.plot(kappas, result["held_at_last"], "^:", color=COLOURS[2], label=f"‖X⁻¹β*‖² held at {own[-1]:.0f}")
        left.plot(kappas, result["held_at_first"], "s--", color=COLOURS[0], label=f"‖X⁻¹β*‖² held at {own[0]:.0f}")
        for kappa, size, largest in zip(kappas, own, result["as_in_figure"]):
            left.annotate(f"{size:.0f}", (kappa, largest), (-6, 4), textcoords="offset points", ha="right", size=8)
        left.set(xlim=(kappas[0] - 0.4, kappas[-1] + 0.2), ylim=(-0.03, 1.03))
        left.legend(fontsize=8, frameon=False, loc="center right")
        lines.label(left, "condition number κ", "largest weight at the end", "against κ (numbers: ‖X⁻¹β*‖²)")
        _draw_sizes(right, kappas, result["size"], result["largest"])
        right.plot(own, result["as_in_figure"], "k*", ms=10, mfc="none", label="the points of the left panel", zorder=3)
        right.legend(fontsize=8, frameon=False)
        figure.suptitle(f"{Confound.title} (descent)", fontsize=11)
        return figure


def solution_size(start: problems.Fields) -> float:
    """‖X⁻¹β*‖²."""
    return float(np.square(np.linalg.solve(start["X"], start["beta"])).sum())


def with_size(start: problems.Fields, size: float) -> problems.Fields:
    """The same problem with β* rescaled to a solution of that size."""
    return start | {"beta": start["beta"] * np.sqrt(size / solution_size(start))}


def _draw_sizes(ax: "matplotlib.axes.Axes", kappas: np.ndarray, size: np.ndarray, largest: np.ndarray) -> None:
    for i, kappa in enumerate(kappas):
        colour, dash = COLOURS[i % len(COLOURS)], lines.DASHES[i % len(lines.DASHES)]
        ax.plot(size, largest[:, i], color=colour, ls=dash, marker=MARKERS[i], ms=4, label=f"κ = {kappa:g}")
    ax.set_xscale("log")
    ticks = [10, 20, 50, 100, 200, 500]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_xlim(size[0] / 1.1, size[-1] * 1.1)
    lines.label(ax, "size of the solution ‖X⁻¹β*‖²", "", "against the size of the solution")
