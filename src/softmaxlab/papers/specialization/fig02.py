"""Figures 2 and 15: first all heads learn the constant direction, then they separate along the flipping one."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from softmaxlab.papers.specialization.planes import HeadPlanes, Heads, Strength
from softmaxlab.specialization import FlippingSpike, Flow

REPORTS = "First all heads align with the constant direction, only later do they diverge along the flipping one"


class Fig02(HeadPlanes):
    """Softmax heads on the flipping spike, one panel for each number of heads."""

    id: ClassVar[str] = "specialization/fig02"
    title: ClassVar[str] = "Flipping spike: heads learn the mean of θ first, then separate"
    place: ClassVar[str] = "Figure 2"
    reports: ClassVar[str] = REPORTS
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"samples": 2**11}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "5 s"}

    nu: tuple[Strength, Strength] = (2.0, 2.0)
    heads: Annotated[tuple[Heads, ...], Field(min_length=1, max_length=8)] = (2, 4, 8)

    def panels(self) -> list[tuple[str, Flow]]:
        return [(f"H = {H}", self.flow(FlippingSpike(nu=self.nu), H, "softmax")) for H in self.heads]


class Fig15(Fig02):
    """The same with more numbers of heads."""

    id: ClassVar[str] = "specialization/fig15"
    title: ClassVar[str] = "Flipping spike: with more heads some diverge more from the mean direction"
    place: ClassVar[str] = "Figure 15"
    reports: ClassVar[str] = "With more heads, some heads specialize and diverge more from the average direction"

    heads: Annotated[tuple[Heads, ...], Field(min_length=1, max_length=8)] = (2, 4, 5, 8)
