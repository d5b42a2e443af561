"""Figure 17: accuracies on the induction task with λ = 0.2."""

from typing import ClassVar

from softmaxlab.papers.polarization.induction_figures import InductionRuns


class Fig17(InductionRuns):
    """Panels of settings, positions down and kinds of query across, with bars for the maps."""

    id: ClassVar[str] = "polarization/fig17"
    title: ClassVar[str] = "Induction accuracy, λ = 0.2"
    place: ClassVar[str] = "Figure 17"
    reports: ClassVar[str] = "The accuracy of each setting, which shows which settings learn the task"
    quantity: ClassVar[str] = "accuracy"
