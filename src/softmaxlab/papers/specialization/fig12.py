"""Figures 12, 13 and 14: two heads on flipping spikes of all strengths, for three maps.

The paper finds softmax-1 to be much like softmax. So it is at first, and where the constant direction is strong; where
the flipping one is as strong, its heads go on, some hundreds of τ later, to the values of θ.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.compared import MapName
from softmaxlab.papers.specialization.planes import HeadPlanes, Heads, Strength, draw_planes
from softmaxlab.specialization import FlippingSpike, Flow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Strengths = Annotated[tuple[Strength, ...], Field(min_length=1, max_length=16)]


class Fig12(HeadPlanes):
    """One panel for each pair of strengths: ν1 of the constant direction grows to the right, ν2 upward."""

    id: ClassVar[str] = "specialization/fig12"
    title: ClassVar[str] = "Two heads on flipping spikes, softmax: a strong mean keeps them together"
    place: ClassVar[str] = "Figure 12"
    reports: ClassVar[str] = "The stronger the constant direction, the less softmax heads separate"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"samples": 2**10, "nu1": (1.0, 3.0, 8.0), "nu2": (1.0, 3.0, 8.0)},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "3 s", "paper": "15 s"}

    map: MapName = "softmax"
    heads: Heads = 2
    nu1: Strengths = (1.0, 2.0, 4.0, 8.0)
    nu2: Strengths = (1.0, 2.0, 4.0, 8.0)
    tau_end: Annotated[float, Field(ge=1.0)] = 2000.0

    @property
    def rows(self) -> int:
        return len(self.nu2)

    def panels(self) -> list[tuple[str, Flow]]:
        return [
            (f"ν = ({first:g}, {second:g})", self.flow(FlippingSpike(nu=(first, second)), self.heads, self.map))
            for second in reversed(self.nu2)
            for first in self.nu1
        ]

    @staticmethod
    def draw(result: Result) -> "Figure":
        return draw_planes(result, side=2.0)


class Fig13(Fig12):
    """The same for softmax-1."""

    id: ClassVar[str] = "specialization/fig13"
    title: ClassVar[str] = (
        "Two heads on flipping spikes, softmax-1: like softmax at first, then to θ where $ν_1$ is small"
    )
    place: ClassVar[str] = "Figure 13"
    reports: ClassVar[str] = "Softmax-1 behaves much like softmax"

    map: MapName = "softmax1"


class Fig14(Fig12):
    """The same for Bayes-softmax."""

    id: ClassVar[str] = "specialization/fig14"
    title: ClassVar[str] = "Two heads on flipping spikes, Bayes-softmax: each finds a value of θ"
    place: ClassVar[str] = "Figure 14"
    reports: ClassVar[str] = "Heads align with the values of θ even where the flipping direction is much the weaker one"

    map: MapName = "bayes_softmax"
