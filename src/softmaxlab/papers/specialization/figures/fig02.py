"""Figures 2 and 15: first all heads learn the constant direction, then they separate along the flipping one."""

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.head_paths import LEARNT, count, span
from softmaxlab.papers.specialization.head_planes import ALONE, HeadPlanes, Heads, Strength, paths_of_several
from softmaxlab.specialization import FlippingSpike, Flow

REPORTS = "First all heads align with the constant direction, only later do they diverge along the flipping one"


class Fig02(HeadPlanes):
    """Softmax heads on the flipping spike, one panel for each number of heads."""

    id: ClassVar[str] = "specialization/fig02"
    title: ClassVar[str] = "Flipping spike: heads learn the mean of θ first, then separate"
    place: ClassVar[str] = "Figure 2"
    reports: ClassVar[str] = REPORTS
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"samples": 2**13, "points": 80}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "10 s", "paper": "25 s"}

    nu: tuple[Strength, Strength] = (2.0, 2.0)
    tau_end: Annotated[float, Field(ge=1.0)] = 20_000.0  # with 8 heads one leaves as late as τ = 1e4
    heads: Annotated[tuple[Heads, ...], Field(min_length=1, max_length=8)] = (2, 4, 8)

    def panels(self) -> list[tuple[str, Flow]]:
        return [(f"H = {H}", self.flow(FlippingSpike(nu=self.nu), H, "softmax")) for H in self.heads]

    # 5 % of the farthest head: by so much the rest points of other samples differ
    quick_within: ClassVar[dict[str, float]] = {f"farthest |m_h2|, H = {H}": 0.15 for H in (2, 4, 8)}

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        paths = [path for path, _ in paths_of_several(result)]
        along, apart = _half_ways(result["tau"], paths)
        mean_first = np.mean([a < b for a, b in zip(along, apart)])
        farthest = {f"farthest |m_h2|, H = {path.shape[1]}": float(np.abs(path[-1, :, 1]).max()) for path in paths}
        return {"share of panels in which the mean comes first": float(mean_first)} | farthest

    @staticmethod
    def seen(result: Result) -> str:
        paths = [path for path, _ in paths_of_several(result)]
        if not paths:
            return ALONE
        along, apart = _half_ways(result["tau"], paths)
        return (
            f"All heads are half way along the constant direction (τ = {span(along, '.0f')}) before they are half "
            f"apart along the flipping one (τ = {span(apart, '.0f')}) in {count(a < b for a, b in zip(along, apart))} "
            "panels with several heads."
        )


def _half_ways(tau: np.ndarray, paths: list[np.ndarray]) -> tuple[list[float], list[float]]:
    """Return when all heads of each path are half way along the mean, and half as far apart across it as at the end."""
    along = [_half_way(tau, path[..., 0].min(axis=1)) for path in paths]
    return along, [_half_way(tau, np.ptp(path[..., 1], axis=1)) for path in paths]


def _half_way(tau: np.ndarray, values: np.ndarray) -> float:
    """Return when values first reach half of their largest; NaN if that is within the noise of the start."""
    return float(tau[np.argmax(values >= values.max() / 2)]) if values.max() > LEARNT else np.nan
