"""Figures 3, 16, 17 and 18: heads on a Gaussian prior learn its strongest direction first, in both signs.

On an isotropic prior no angle is better than another: the start chooses, and a slow turn late in a run is the samples'
doing (softmax-1, H = 2: 20° by τ = 1000 with 2^11 base points, less than 1° with 2^15).
"""

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.compared import MapName
from softmaxlab.papers.specialization.paths import count, learnt_at, split_evenly
from softmaxlab.papers.specialization.planes import ALONE, HeadPlanes, Heads, Strength, paths_of_several
from softmaxlab.specialization import Flow, Gaussian


class Fig03(HeadPlanes):
    """Softmax on a Gaussian: few heads, many heads in two runs, and many heads on an isotropic Gaussian."""

    id: ClassVar[str] = "specialization/fig03"
    title: ClassVar[str] = "Gaussian spike: features are learned in turn, unless they are equally strong"
    place: ClassVar[str] = "Figure 3"
    reports: ClassVar[str] = (
        "Heads split along the stronger feature first, then along the other; misplaced heads make excursions; "
        "equally strong features are learned together"
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


class Fig16(HeadPlanes):
    """One map on an isotropic Gaussian (above) and an anisotropic one (below), several numbers of heads."""

    id: ClassVar[str] = "specialization/fig16"
    title: ClassVar[str] = "Gaussian spike, softmax"
    place: ClassVar[str] = "Figure 16"
    reports: ClassVar[str] = "Heads split evenly into the two signs of each direction, the stronger direction first"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"samples": 2**13, "points": 80, "heads": (2, 5, 8)},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "10 s", "paper": "25 s"}

    map: MapName = "softmax"
    above: tuple[Strength, Strength] = (2.0, 2.0)
    below: tuple[Strength, Strength] = (8.0, 2.0)
    heads: Annotated[tuple[Heads, ...], Field(min_length=1, max_length=8)] = (2, 4, 5, 8)
    tau_end: Annotated[float, Field(ge=1.0)] = 3000.0

    @property
    def rows(self) -> int:
        return 2

    def panels(self) -> list[tuple[str, Flow]]:
        return [
            (f"H = {H}, ν = ({nu[0]:g}, {nu[1]:g})", self.flow(Gaussian(F=2, nu=nu), H, self.map))
            for nu in (self.above, self.below)
            for H in self.heads
        ]

    @staticmethod
    def seen(result: Result) -> str:
        paths = paths_of_several(result)
        if not paths:
            return ALONE
        first, second = zip(*(split_evenly(path[-1]) for path, _ in paths))
        return (
            f"Heads split evenly along the first direction in {count(first)} panels with several heads, along the "
            f"second in {count(second)}; where one is stronger, it is learnt before the other in "
            f"{count(_stronger_first(result['tau'], *pair) for pair in paths if _one_is_stronger(pair[1]))}."
        )


class Fig17(Fig16):
    """The same for softmax-1."""

    id: ClassVar[str] = "specialization/fig17"
    title: ClassVar[str] = "Gaussian spike, softmax-1"
    place: ClassVar[str] = "Figure 17"

    map: MapName = "softmax1"


class Fig18(Fig16):
    """The same for Bayes-softmax."""

    id: ClassVar[str] = "specialization/fig18"
    title: ClassVar[str] = "Gaussian spike, Bayes-softmax"
    place: ClassVar[str] = "Figure 18"

    map: MapName = "bayes_softmax"


def _one_is_stronger(signal: np.ndarray) -> bool:
    return not np.isclose(*np.abs(signal).max(axis=0))


def _stronger_first(tau: np.ndarray, path: np.ndarray, signal: np.ndarray) -> bool:
    weaker, stronger = np.argsort(np.abs(signal).max(axis=0))
    times = learnt_at(tau, path)
    return bool(times[stronger] < times[weaker])
