"""Square attention: w = χ², and w/Σw (the polarization paper's L2 normalisation)."""

from typing import Any

import torch

from softmaxlab.attention.map import Map

_FACTS: dict[str, Any] = {"non_negative": True, "source": "varre2026polarization"}
MAPS = (
    Map("square", torch.square, **_FACTS),
    Map("square_norm", torch.square, normalise="sum", row_stochastic=True, **_FACTS),
)
