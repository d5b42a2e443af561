"""Figure 14: two heads on flipping spikes of all strengths, for Bayes-softmax."""

from typing import ClassVar

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.figures.fig12 import Fig12
from softmaxlab.papers.specialization.head_paths import count
from softmaxlab.papers.specialization.head_planes import (
    ALONE,
    paths_of_several,
)
from softmaxlab.papers.specialization.strength_planes import NEAR, farthest_atom, strengths
from softmaxlab.plotting.map_styles import MapName


class Fig14(Fig12):
    """One panel for each pair of strengths: ν1 of the constant direction grows to the right, ν2 upward."""

    id: ClassVar[str] = "specialization/fig14"
    title: ClassVar[str] = "Two heads on flipping spikes, Bayes-softmax: each finds a value of θ"
    place: ClassVar[str] = "Figure 14"
    reports: ClassVar[str] = "Heads align with the values of θ even where the flipping direction is much the weaker one"

    map: MapName = "bayes_softmax"

    @staticmethod
    def seen(result: Result) -> str:
        panels = paths_of_several(result)
        if not panels:
            return ALONE
        nu1, nu2 = strengths(panels)
        missed = farthest_atom(panels)
        worst = int(missed.argmax())
        at = f"ν = ({nu1[worst]:g}, {nu2[worst]:g})"
        return (
            f"Every value of θ has a head within {NEAR:.0%} of |θ| in {count(missed <= NEAR)} panels, in "
            f"{count(missed[nu2 < nu1] <= NEAR)} with ν2 < ν1; the farthest is {missed[worst]:.0%} off, at {at}."
        )
