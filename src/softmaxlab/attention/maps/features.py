"""Linear attention with features φ of queries and keys: w = φ(q)·φ(k)/√d_h.

elu_elu   φ(x) = elu(x) + 1, and elu_elu_norm, w/Σw
mlp       φ a learned network, and mlp_norm, w/max(|Σw|, 1)
"""

from typing import Any

from torch import Tensor, nn

from softmaxlab.attention.map import Map
from softmaxlab.attention.maps.elementwise import elu_plus_one, linear


def feature_mlp(head_width: int) -> nn.Module:
    """The feature network of the polarization paper: d_h → 4 d_h → d_h with a GELU, shared by q, k and all heads."""
    return nn.Sequential(nn.Linear(head_width, 4 * head_width), nn.GELU(), nn.Linear(4 * head_width, head_width))


def mlp_features(x: Tensor, mlp: nn.Module) -> Tensor:
    return mlp(x)


_ELU: dict[str, Any] = {"features": elu_plus_one, "non_negative": True, "source": "katharopoulos2020transformers"}
_MLP: dict[str, Any] = {"features": mlp_features, "parameters": ("mlp",), "source": "varre2026polarization"}
MAPS = (
    Map("elu_elu", linear, **_ELU),
    Map("elu_elu_norm", linear, normalise="sum", row_stochastic=True, **_ELU),
    Map("mlp", linear, **_MLP),
    Map("mlp_norm", linear, normalise="bounded", **_MLP),
)
