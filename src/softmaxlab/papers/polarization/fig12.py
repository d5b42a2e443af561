"""Figure 12: loss and weights of regression problems with condition numbers from 1 to 5."""

from typing import TYPE_CHECKING, Any, ClassVar

from softmaxlab.core.result import Result
from softmaxlab.papers import lines
from softmaxlab.papers.polarization import curves
from softmaxlab.papers.polarization.regression import SHOWN, ConditionFigure, Kappas

if TYPE_CHECKING:
    import matplotlib.figure

COLUMNS = 3


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
        rows = -(-(1 + len(kappas)) // COLUMNS)
        figure = Figure(figsize=(4 * COLUMNS, 3 * rows + 0.4), layout="constrained")
        first, *panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
        lines.draw_lines(first, t, result["loss"], [f"κ = {kappa:g}" for kappa in kappas])
        first.set_yscale("log")
        first.legend(fontsize=8, frameon=False)
        curves.log_time(first, t, SHOWN)
        lines.label(first, "t = lr · step", "loss ‖β* − XVs‖²", "loss: slower with κ until a winner emerges")
        order = curves.ranked(curves.last(result["scores"][-1]))
        lowest = result["scores"][result["scores"] > 0].min()
        for ax, kappa, s, size in zip(panels, kappas, result["scores"], result["solution_size"]):
            curves.draw_tokens(ax, t, s, order)
            curves.log_time(ax, t, SHOWN)
            ax.set(yscale="log", ylim=(lowest / 1.5, 1.5))
            title = f"κ = {kappa:g}: largest weight {curves.last(s).max():.3f}, ‖X⁻¹β*‖² = {size:.0f}"
            lines.label(ax, "t = lr · step", "weights s", title)
        curves.legend(figure, panels[0])
        for ax in panels[len(kappas) :]:
            ax.set_visible(False)
        figure.suptitle(f"{Fig12.title} (descent)", fontsize=11)
        return figure
