"""Figure 16: one map on an isotropic Gaussian (above) and an anisotropic one (below), several numbers of heads."""

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.head_paths import count, learnt_at, split_evenly
from softmaxlab.papers.specialization.head_planes import (
    ALONE,
    HeadPlanes,
    Heads,
    Strength,
    end_losses,
    paths_of_several,
)
from softmaxlab.plotting.map_styles import MapName
from softmaxlab.specialization import Flow, Gaussian

QUICK_HEADS = (2, 5, 8)  # which all presets of Figures 16 to 18 draw
QUICK_NAMES = tuple(f"H = {H}," for H in QUICK_HEADS)


class Fig16(HeadPlanes):
    """One map on an isotropic Gaussian (above) and an anisotropic one (below), several numbers of heads."""

    id: ClassVar[str] = "specialization/fig16"
    title: ClassVar[str] = "Gaussian spike, softmax"
    place: ClassVar[str] = "Figure 16"
    reports: ClassVar[str] = "Heads split evenly into the two signs of each direction, the stronger direction first"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"samples": 2**13, "points": 80, "heads": QUICK_HEADS},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "10 s", "paper": "25 s"}

    map: MapName = "softmax"
    above: tuple[Strength, Strength] = (2.0, 2.0)
    below: tuple[Strength, Strength] = (8.0, 2.0)
    heads: Annotated[tuple[Heads, ...], Field(min_length=1, max_length=8)] = QUICK_HEADS
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

    # the error of a loss out of sample, and what the rest points of other samples differ by
    quick_within: ClassVar[dict[str, float]] = {
        f"loss, {name} ν = {nu}": 0.003 for name in QUICK_NAMES for nu in ("(2, 2)", "(8, 2)")
    }

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        told = [pair for pair in paths_of_several(result) if pair[0].shape[1] in QUICK_HEADS]
        first, second = np.mean([split_evenly(path[-1]) for path, _ in told], axis=0)
        in_order = [_stronger_first(result["tau"], *pair) for pair in told if _one_is_stronger(pair[1])]
        return {
            "share of panels split evenly along the first direction": float(first),
            "share of panels split evenly along the second direction": float(second),
            "share of panels with the stronger direction first": float(np.mean(in_order)),
        } | end_losses(result, [name for name in map(str, result["panel"]) if name.startswith(QUICK_NAMES)])

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


def _one_is_stronger(signal: np.ndarray) -> bool:
    return not np.isclose(*np.abs(signal).max(axis=0))


def _stronger_first(tau: np.ndarray, path: np.ndarray, signal: np.ndarray) -> bool:
    weaker, stronger = np.argsort(np.abs(signal).max(axis=0))
    times = learnt_at(tau, path)
    return bool(times[stronger] < times[weaker])
