"""Absolute-value attention: w = |χ|, and w/Σw (the polarization paper's L1 normalisation)."""

from typing import Any

import torch

from softmaxlab.attention.map import Map

_FACTS: dict[str, Any] = {"non_negative": True, "source": "varre2026polarization"}
MAPS = (
    Map("abs", torch.abs, **_FACTS),
    Map("abs_norm", torch.abs, normalise="sum", row_stochastic=True, **_FACTS),
)
