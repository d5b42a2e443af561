"""Figure 3: the scores a of a regression problem, well and badly conditioned."""

from typing import TYPE_CHECKING, Any, ClassVar

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.regression import SHOWN, ConditionFigure, Kappas
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves

if TYPE_CHECKING:
    import matplotlib.figure


class Fig03(ConditionFigure):
    """Descent of ‖β* − XVs‖² for each of `kappas`, with the same β* and singular vectors."""

    id: ClassVar[str] = "polarization/fig03"
    title: ClassVar[str] = "Regression: scores at condition number κ = 1 and 5"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 3"
    reports: ClassVar[str] = "Scores hardly move at κ = 1; at κ = 5 one of them leaves the others far below"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "1 s", "paper": "1 s"}

    kappas: Kappas = (1.0, 5.0)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        kappas, t = result["kappa"], result["t"]
        figure = Figure(figsize=(1.2 + 3.8 * len(kappas), 3.8), layout="constrained")
        axes = figure.subplots(1, len(kappas), sharey=True, squeeze=False)[0]
        order = curves.ranked(curves.last(result["a"][-1]))
        for ax, kappa, a, s in zip(axes, kappas, result["a"], result["weights"]):
            curves.draw_tokens(ax, t, a, order)
            curves.log_time(ax, t, SHOWN)
            lines.label(ax, "t = lr · step", "scores a", f"κ = {kappa:g}: largest weight {curves.last(s).max():.3f}")
        curves.legend(figure, axes[-1])
        figure.suptitle(f"Regression: scores through descent ({result.notes['instance']})", fontsize=11)
        return figure
