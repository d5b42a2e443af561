"""Figure 13: two heads on flipping spikes of all strengths, for softmax-1."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.figures.fig12 import Fig12
from softmaxlab.papers.specialization.head_paths import count, listed
from softmaxlab.papers.specialization.head_planes import (
    ALONE,
    paths_of_several,
)
from softmaxlab.papers.specialization.strength_planes import NEAR, extremes, farthest_atom, strengths
from softmaxlab.plotting.map_styles import MapName


class Fig13(Fig12):
    """One panel for each pair of strengths: ν1 of the constant direction grows to the right, ν2 upward."""

    id: ClassVar[str] = "specialization/fig13"
    title: ClassVar[str] = "Two heads on flipping spikes, softmax-1"
    place: ClassVar[str] = "Figure 13"
    reports: ClassVar[str] = "Softmax-1 behaves like softmax, with heads more impacted by a stronger constant direction"

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"points": 80, "nu1": (1.0, 3.0, 8.0), "nu2": (1.0, 3.0, 8.0)},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "45 s", "paper": "80 s"}

    map: MapName = "softmax1"
    samples: Annotated[int, Field(ge=64, le=2**20)] = 2**16  # at ν = (8, 1) heads end .46 apart; with 2^14 they do not

    @staticmethod
    def seen(result: Result) -> str:
        panels = paths_of_several(result)
        if not panels:
            return ALONE
        nu1, _ = strengths(panels)
        near = farthest_atom(panels) <= NEAR
        of_nu1 = listed(f"{count(near[nu1 == x])} with ν1 = {x:g}" for x in extremes(nu1))
        return (
            f"Every value of θ has a head within {NEAR:.0%} of |θ| in {count(near)} panels, {of_nu1}; softmax, to "
            "compare with, is in Figure 12."
        )
