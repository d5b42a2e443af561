"""Figure 9: two heads on the flipping spike, three maps."""

from typing import Any, ClassVar

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.flow_vs_sgd import FlowAgainstSGD, agreement
from softmaxlab.specialization import FlippingSpike, Prior


class Fig09(FlowAgainstSGD):
    """Two heads on the flipping spike, three maps."""

    id: ClassVar[str] = "specialization/fig09"
    title: ClassVar[str] = "Flow and SGD of three maps: flipping spike, two heads"
    place: ClassVar[str] = "Figure 9"
    reports: ClassVar[str] = "Flow and SGD agree for softmax, softmax-1 and Bayes-softmax"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"dim": 1000, "batch": 1000, "lr": 0.1, "tau_end": 80.0, "points": 81, "samples": 2**11},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "7 s", "paper": "about 6 min"}

    def prior(self) -> Prior:
        return FlippingSpike(nu=self.nu)

    @staticmethod
    def seen(result: Result) -> str:
        return agreement(result)
