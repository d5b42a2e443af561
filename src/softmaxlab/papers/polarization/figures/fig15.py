"""Figure 15: λ = 0.2."""

from typing import TYPE_CHECKING, ClassVar

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.induction_figures import InductionRuns
from softmaxlab.papers.polarization.induction_summary import (
    seen_positions,
)

if TYPE_CHECKING:
    pass


class Fig15(InductionRuns):
    """λ = 0.2."""

    id: ClassVar[str] = "polarization/fig15"
    title: ClassVar[str] = "Sink heads of the second layer, λ = 0.2"
    place: ClassVar[str] = "Figure 15"
    reports: ClassVar[str] = "No explicit positions: more sinks"

    @staticmethod
    def seen(result: Result) -> str:
        return seen_positions(result)
