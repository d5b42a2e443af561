"""Linear attention with learned features: w = mlp(q)·mlp(k)/√d_h, and w/max(|Σw|, 1)."""

from typing import Any

from torch import Tensor, nn

from softmaxlab.attention.linear import linear
from softmaxlab.attention.map import Map


def feature_mlp(head_width: int) -> nn.Module:
    """The feature network of the polarization paper: d_h → 4 d_h → d_h with a GELU, shared by q, k and all heads."""
    return nn.Sequential(nn.Linear(head_width, 4 * head_width), nn.GELU(), nn.Linear(4 * head_width, head_width))


def features(x: Tensor, mlp: nn.Module) -> Tensor:
    return mlp(x)


_FACTS: dict[str, Any] = {"features": features, "parameters": ("mlp",), "source": "varre2026polarization"}
MAPS = (
    Map("mlp", linear, **_FACTS),
    Map("mlp_norm", linear, normalise="bounded", **_FACTS),
)
