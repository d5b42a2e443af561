"""Figures 12, 13 and 14: two heads on flipping spikes of all strengths, for three maps.

The paper finds softmax-1 to be much like softmax. So it is at first, and where the constant direction is strong; where
that is weak (ν₁ = 1), its heads go on, some hundreds of τ later, to the values of θ.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.head_paths import above_noise, count, listed, steps
from softmaxlab.papers.specialization.head_planes import (
    ALONE,
    HeadPlanes,
    Heads,
    Strength,
    draw_planes,
    paths_of_several,
)
from softmaxlab.papers.specialization.strength_planes import corners, extremes, farthest_atom, strengths
from softmaxlab.plotting.map_styles import MapName
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
        "quick": {"samples": 2**13, "points": 80, "nu1": (1.0, 3.0, 8.0), "nu2": (1.0, 3.0, 8.0)},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "8 s", "paper": "25 s"}

    map: MapName = "softmax"
    heads: Heads = 2
    nu1: Strengths = (1.0, 2.0, 4.0, 8.0)
    nu2: Strengths = (1.0, 2.0, 4.0, 8.0)
    tau_end: Annotated[float, Field(ge=1.0)] = 60_000.0

    @property
    def rows(self) -> int:
        return len(self.nu2)

    def panels(self) -> list[tuple[str, Flow]]:
        return [
            (f"ν = ({first:g}, {second:g})", self.flow(FlippingSpike(nu=(first, second)), self.heads, self.map))
            for second in reversed(self.nu2)
            for first in self.nu1
        ]

    # 4 % of the longest θ, a little more than what a certified minimum may move by over other samples
    quick_within: ClassVar[dict[str, float]] = {
        f"{what}, ν = {nu}": within
        for what, within in (
            ("heads apart along the flipping direction", 0.2),
            ("the most neglected θ is away from a head, in |θ|", 0.04),
        )
        for nu in ("(1, 1)", "(1, 8)", "(8, 1)", "(8, 8)")
    }

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        panels = paths_of_several(result)
        apart = corners(panels, np.array([np.ptp(path[-1, :, 1]) for path, _ in panels]))
        missed = corners(panels, farthest_atom(panels))
        return {f"heads apart along the flipping direction, {name}": value for name, value in apart.items()} | {
            f"the most neglected θ is away from a head, in |θ|, {name}": value for name, value in missed.items()
        }

    @staticmethod
    def seen(result: Result) -> str:
        panels = paths_of_several(result)
        if not panels:
            return ALONE
        nu1, nu2 = strengths(panels)
        apart = np.array([np.ptp(path[-1, :, 1]) for path, _ in panels])
        rows = [nu2 == second for second in np.unique(nu2)]
        falls = [step < 0 for row in rows for step in steps(nu1[row], above_noise(apart[row]))]
        means = (f"{apart[nu1 == x].mean():.2f} at ν1 = {x:g}" for x in extremes(nu1))
        return (
            f"How far heads end apart along the flipping direction falls with ν1 in {count(falls)} steps at equal ν2; "
            f"its mean is {listed(means)}."
        )

    @staticmethod
    def draw(result: Result) -> "Figure":
        return draw_planes(result, side=2.0)
