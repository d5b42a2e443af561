"""Figures 12, 13 and 14: two heads on flipping spikes of all strengths, for three maps.

The paper finds softmax-1 to be much like softmax. So it is at first, and where the constant direction is strong; where
that is weak (ν₁ = 1), its heads go on, some hundreds of τ later, to the values of θ.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.compared import MapName
from softmaxlab.papers.specialization.paths import above_noise, count, listed, steps
from softmaxlab.papers.specialization.planes import ALONE, HeadPlanes, Heads, Strength, draw_planes, paths_of_several
from softmaxlab.specialization import FlippingSpike, Flow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIGITS = 9  # of ν, which is known by its root
NEAR = 0.1  # of |θ|: a head that has found a value of θ
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

    @staticmethod
    def seen(result: Result) -> str:
        panels = paths_of_several(result)
        if not panels:
            return ALONE
        nu1, nu2 = _strengths(panels)
        apart = np.array([np.ptp(path[-1, :, 1]) for path, _ in panels])
        rows = [nu2 == second for second in np.unique(nu2)]
        falls = [step < 0 for row in rows for step in steps(nu1[row], above_noise(apart[row]))]
        means = (f"{apart[nu1 == x].mean():.2f} at ν1 = {x:g}" for x in _extremes(nu1))
        return (
            f"How far heads end apart along the flipping direction falls with ν1 in {count(falls)} steps at equal ν2; "
            f"its mean is {listed(means)}."
        )

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

    @staticmethod
    def seen(result: Result) -> str:
        panels = paths_of_several(result)
        if not panels:
            return ALONE
        nu1, _ = _strengths(panels)
        found = _missed(panels) <= NEAR
        of_nu1 = listed(f"{count(found[nu1 == x])} with ν1 = {x:g}" for x in _extremes(nu1))
        return (
            f"Every value of θ has a head within {NEAR:.0%} of |θ| in {count(found)} panels, {of_nu1}; softmax, to "
            "compare with, is in Figure 12."
        )


class Fig14(Fig12):
    """The same for Bayes-softmax."""

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
        nu1, nu2 = _strengths(panels)
        missed = _missed(panels)
        worst = int(missed.argmax())
        at = f"ν = ({nu1[worst]:g}, {nu2[worst]:g})"
        return (
            f"Every value of θ has a head within {NEAR:.0%} of |θ| in {count(missed <= NEAR)} panels, in "
            f"{count(missed[nu2 < nu1] <= NEAR)} with ν2 < ν1; the farthest is {missed[worst]:.0%} off, at {at}."
        )


def _extremes(nu: np.ndarray) -> list[float]:
    return sorted({float(nu.min()), float(nu.max())})


def _strengths(panels: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """ν1 and ν2 of every panel, from its values of θ."""
    nu1, nu2 = np.square([signal[0] for _, signal in panels]).round(DIGITS).T
    return nu1, nu2


def _missed(panels: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """How far the value of θ that heads come least near to is from all of them at the end, in |θ|."""
    gaps = [np.linalg.norm(path[-1, :, None] - signal, axis=-1).min(axis=0).max() for path, signal in panels]
    return np.array(gaps) / [np.linalg.norm(signal[0]) for _, signal in panels]
