"""ReLU attention: w = max(χ, 0), and w/Σw. A row without a positive score attends nowhere."""

from typing import Any

import torch

from softmaxlab.attention.map import Map

_FACTS: dict[str, Any] = {"non_negative": True, "source": "varre2026polarization"}
MAPS = (
    Map("relu", torch.relu, **_FACTS),
    Map("relu_norm", torch.relu, normalise="sum", **_FACTS),
)
