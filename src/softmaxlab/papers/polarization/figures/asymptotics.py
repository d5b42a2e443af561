"""s_i log²t → 2b/p (ours), far beyond any time that a float can hold.

The paper has s_i = O(1/log²t). In the clock Γ ~ (1/b) log t the constant follows, but the non-winners become equal only
like Γ^(−2/p), so that at t = 1e5 it cannot be seen. docs/theory/polarization.md derives both.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather
from softmaxlab.papers.polarization import problems
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import StrengthFlow, exact

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

ERROR = 1e3  # times rtol: error of the ratio after so many decades
EARLY = 10.0  # strength from which on log t is worth drawing


class Asymptotics(FigureSpec):
    """s_i log²t over 2b/p for the first and the last non-winner, and how fast the worst of them approaches 1."""

    id: ClassVar[str] = "polarization/asymptotics"
    title: ClassVar[str] = "Non-winners: s_i log²t → 2b/p, like Γ^(−2/p)"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Beyond Lemma B.1"
    reports: ClassVar[str] = "The weights of all non-winners approach 2b/(p log²t), at the rate Γ^(−2/p)"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "2 s"}

    tokens: Annotated[tuple[Annotated[int, Field(ge=2, le=200)], ...], Field(min_length=1, max_length=8)] = (2, 3, 5, 8)
    norm: Annotated[float, Field(gt=0)] = 1.0  # of β*
    seed: Seed = 123
    strength_end: Annotated[float, Field(ge=1e3)] = 1e12
    points: Annotated[int, Field(ge=50, le=10_000)] = 300
    rtol: Annotated[float, Field(ge=1e-13, le=1e-6)] = 1e-12

    def _run(self, device: str) -> Result:
        rules = {"strength_end": self.strength_end, "points": self.points, "rtol": self.rtol}
        runs = [
            simulate(StrengthFlow(**problems.classification(p, self.seed, self.norm), **rules)) for p in self.tokens
        ]
        family = gather(
            [_ratios(run, self.norm**2) for run in runs], self.tokens, "p", ("log_t", "first", "last", "worst")
        )
        slopes = [_slope(family["strength"], worst, ERROR * self.rtol) for worst in family["worst"]]
        arrays = {**family.arrays, "slope": slopes, "error": ERROR * self.rtol}
        return Result(arrays, {**family.axes, "slope": ("p",)}, family.status)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 4.2), layout="constrained")
        ratios, rates = figure.subplots(1, 2)
        strength = result["strength"]
        late = strength > EARLY
        names = [f"p = {p}" for p in result["p"]]
        for values in (result["first"], result["last"]):
            lines.draw_lines(ratios, strength[late], values[:, late], names)
        ratios.axhline(1.0, color="k", lw=0.8)
        ratios.set(ylim=(0.5, 2.0))
        slopes = [
            f"{name}: slope {slope:.3f}, −2/p = {-2 / p:.3f}"
            for name, slope, p in zip(names, result["slope"], result["p"])
        ]
        lines.draw_lines(rates, strength[late], result["worst"][:, late], slopes)
        _draw_slopes(rates, result)
        rates.axhspan(0.0, float(result["error"]), color=COLOURS[-1], alpha=0.3)
        rates.set(yscale="log", ylim=(result["error"] / 30, 3.0))
        lines.label(ratios, "strength Γ ≈ log t / b", "$s_i\\,\\log^2 t\\;/\\;(2b/p)$", "first and last non-winner")
        lines.label(
            rates, "strength Γ ≈ log t / b", "largest |ratio − 1|", "distance from the limit (grey: solver's error)"
        )
        for ax in (ratios, rates):
            curves.log_time(ax, strength[late])
            ax.legend(*(items[: len(names)] for items in ax.get_legend_handles_labels()), fontsize=8, frameon=False)
        figure.suptitle(f"{Asymptotics.title} (flow in the clock Γ)", fontsize=11)
        return figure


def _ratios(run: Result, b: float) -> Result:
    """s_i log²t/(2b/p) of the first and the last non-winner, and the largest distance of any from 1. Without t = 0."""
    s, p = run["weights"][1:], run["weights"].shape[1]
    ratio = s[:, 1:] * np.square(run["log_t"][1:, None]) / exact.loser_constant(b, p)
    arrays = {
        "strength": run["strength"][1:],
        "loss": run["loss"][1:],
        "log_t": run["log_t"][1:],
        "first": ratio[:, 0],
        "last": ratio[:, -1],
        "worst": np.abs(ratio - 1.0).max(axis=1),
    }
    return Result(arrays, {name: ("strength",) for name in arrays}, run.status)


def _slope(strength: np.ndarray, worst: np.ndarray, error: float) -> float:
    """d log worst/d log Γ in the last third of the decades where worst is well above its error, by least squares."""
    log = np.log(strength)
    end = log[worst > 10.0 * error].max()
    late = (log > 2 * end / 3) & (log <= end)
    return float(np.polyfit(log[late], np.log(worst[late]), 1)[0])


def _draw_slopes(ax: "matplotlib.axes.Axes", result: Result) -> None:
    """Γ^(−2/p) through each curve's middle."""
    strength = result["strength"]
    middle = np.searchsorted(strength, np.sqrt(strength[-1]))
    for p, worst in zip(result["p"], result["worst"]):
        ax.plot(strength, worst[middle] * (strength / strength[middle]) ** (-2 / p), color="k", lw=0.6, ls=":")
