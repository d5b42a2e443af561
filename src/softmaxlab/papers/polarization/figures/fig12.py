"""Figure 12: loss, gradient norms and scores of regression problems with condition numbers from 1 to 5.

Beside the paper's three panels for each κ stand the weights, and the size of the solution, which grows with κ too. The
paper's axis of time is linear, ours logarithmic.
"""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.gradients import NAMES, draw_gradients
from softmaxlab.papers.polarization.regression import SHOWN, ConditionFigure, Kappas
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting.journal import COLOURS

if TYPE_CHECKING:
    import matplotlib.figure


class Fig12(ConditionFigure):
    """Descent of ‖β* − XVs‖² for each of `kappas`, with the same β* and singular vectors."""

    id: ClassVar[str] = "polarization/fig12"
    title: ClassVar[str] = "Regression: sparser with the condition number κ"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 12"
    reports: ClassVar[str] = "Higher condition number leads to slower optimization and stronger sparsity"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "2 s"}

    kappas: Kappas = (1.0, 2.0, 3.0, 4.0, 5.0)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        kappas, t = result["kappa"], result["t"]
        figure = Figure(figsize=(13.5, 2.5 * len(kappas) + 0.6), layout="constrained")
        grid = figure.subplots(len(kappas), 4, squeeze=False, sharey="col")
        order = curves.ranked(curves.last(result["weights"][-1]))
        lowest = result["weights"][result["weights"] > 0].min()
        for i, ((loss, gradient, scores, weights), kappa) in enumerate(zip(grid, kappas)):
            s, size = result["weights"][i], result["solution_size"][i]
            loss.plot(t, result["loss"][i], color=COLOURS[0])
            loss.set_yscale("log")
            norms = np.stack([result[name][i] for name in NAMES])
            draw_gradients(gradient, t, norms, f"κ = {kappa:g}: gradient norms")
            curves.draw_tokens(scores, t, result["a"][i], order)
            curves.draw_tokens(weights, t, s, order)
            weights.set(yscale="log", ylim=(lowest / 1.5, 1.5))
            lines.label(loss, "t = lr · step", "‖β* − XVs‖²", f"κ = {kappa:g}: loss, with ‖X⁻¹β*‖² = {size:.0f}")
            lines.label(scores, "t = lr · step", "scores a", f"κ = {kappa:g}: scores")
            title = f"κ = {kappa:g}: weights, the largest {curves.last(s).max():.3f}"
            lines.label(weights, "t = lr · step", "weights s", title)
            for ax in (loss, gradient, scores, weights):
                curves.log_time(ax, t, SHOWN)
        curves.legend(figure, grid[0, 2])
        figure.suptitle(f"{Fig12.title} (descent, {result.notes['instance']})", fontsize=11)
        return figure
