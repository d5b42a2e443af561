"""Linear attention without features: w = χ, and w/max(|Σw|, 1)."""

from torch import Tensor

from softmaxlab.attention.map import Map


def linear(scores: Tensor) -> Tensor:
    return scores


MAPS = (
    Map("linear", linear, source="varre2026polarization"),
    Map("linear_norm", linear, normalise="bounded", source="varre2026polarization"),
)
