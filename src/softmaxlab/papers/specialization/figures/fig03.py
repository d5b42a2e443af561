"""Figures 3, 16, 17 and 18: heads on a Gaussian prior learn its strongest direction first, in both signs.

On an isotropic prior no angle is better than another: the start chooses, and a slow turn late in a run is the samples'
doing (softmax-1, H = 2: 20° by τ = 1000 with 2^11 base points, less than 1° with 2^15).
"""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from softmaxlab.papers.specialization.head_planes import HeadPlanes, Heads, Strength
from softmaxlab.specialization import Flow, Gaussian


class Fig03(HeadPlanes):
    """Softmax on a Gaussian: few heads, many heads in two runs, and many heads on an isotropic Gaussian."""

    id: ClassVar[str] = "specialization/fig03"
    title: ClassVar[str] = "Gaussian spike: features are learnt in turn, unless they are equally strong"
    place: ClassVar[str] = "Figure 3"
    reports: ClassVar[str] = (
        "Heads split along the stronger feature first, then along the other; misplaced heads make excursions; "
        "equally strong features are learnt together"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"samples": 2**13, "points": 80}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "8 s", "paper": "15 s"}

    nu: tuple[Strength, Strength] = (8.0, 2.0)
    isotropic: Strength = 8.0
    few: Heads = 4
    many: Heads = 8
    second_run: Annotated[int, Field(ge=0)] = 5  # added to the seed; 6 of 8 heads then begin on one side
    tau_end: Annotated[float, Field(ge=1.0)] = 10_000.0

    def panels(self) -> list[tuple[str, Flow]]:
        uneven, even = (Gaussian(F=2, nu=nu) for nu in (self.nu, (self.isotropic, self.isotropic)))
        nu = f"ν = ({self.nu[0]:g}, {self.nu[1]:g})"
        return [
            (f"H = {self.few}, {nu}", self.flow(uneven, self.few, "softmax")),
            (f"H = {self.many}, {nu}, run 1", self.flow(uneven, self.many, "softmax")),
            (f"H = {self.many}, {nu}, run 2", self.flow(uneven, self.many, "softmax", run=self.second_run)),
            (f"H = {self.many}, ν = ({self.isotropic:g}, {self.isotropic:g})", self.flow(even, self.many, "softmax")),
        ]
