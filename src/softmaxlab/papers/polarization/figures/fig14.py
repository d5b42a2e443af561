"""Figure 14: shares of sink heads with λ = 0, where the loss is at the last position alone."""

from typing import Annotated, ClassVar

from pydantic import Field

from softmaxlab.papers.polarization.induction_figures import InductionRuns


class Fig14(InductionRuns):
    """Panels of settings, positions down and kinds of query across, with bars for the maps."""

    id: ClassVar[str] = "polarization/fig14"
    title: ClassVar[str] = "Sink heads of the second layer, λ = 0"
    place: ClassVar[str] = "Figure 14"
    reports: ClassVar[str] = "Most heads duplicate each other and do not form sinks"

    aux: Annotated[float, Field(ge=0)] = 0.0
