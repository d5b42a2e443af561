"""Figure 10: four heads on a Gaussian, three maps."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.flow_vs_sgd import FlowAgainstSGD, Strength, agreement
from softmaxlab.specialization import Gaussian, Prior


class Fig10(FlowAgainstSGD):
    """Four heads on a Gaussian, three maps."""

    id: ClassVar[str] = "specialization/fig10"
    title: ClassVar[str] = "Flow and SGD of three maps: Gaussian spike, four heads"
    place: ClassVar[str] = "Figure 10"
    reports: ClassVar[str] = "Flow and SGD agree for softmax, softmax-1 and Bayes-softmax"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"dim": 1000, "batch": 1000, "lr": 0.1, "tau_end": 40.0, "points": 41, "samples": 2**11},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "7 s", "paper": "about 12 min"}

    nu: tuple[Strength, Strength] = (8.0, 2.0)
    heads: Annotated[int, Field(ge=1, le=100)] = 4

    def prior(self) -> Prior:
        return Gaussian(F=2, nu=self.nu)

    @staticmethod
    def seen(result: Result) -> str:
        return agreement(result)
