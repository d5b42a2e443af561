"""Figure 16: accuracies on the induction task with λ = 0."""

from typing import Annotated, ClassVar

from pydantic import Field

from softmaxlab.papers.polarization.induction_figures import InductionRuns


class Fig16(InductionRuns):
    """Panels of settings, positions down and kinds of query across, with bars for the maps."""

    id: ClassVar[str] = "polarization/fig16"
    title: ClassVar[str] = "Induction accuracy, λ = 0"
    place: ClassVar[str] = "Figure 16"
    reports: ClassVar[str] = "The accuracy of each setting, which shows which settings learn the task"
    quantity: ClassVar[str] = "accuracy"

    aux: Annotated[float, Field(ge=0)] = 0.0
