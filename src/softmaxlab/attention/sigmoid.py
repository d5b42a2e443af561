"""Sigmoid attention: w_l = 1/(1 + e^{−(χ_l + b)}), and w/Σw.

The normalised form is a softmax of log w, which stays exact where w itself underflows.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import hide, softmax


def sigmoid(scores: Tensor, bias: Tensor) -> Tensor:
    return torch.sigmoid(scores + bias)


def sigmoid_norm(scores: Tensor, visible: Tensor | None, bias: Tensor) -> Tensor:
    return softmax(logsigmoid(hide(scores, visible) + bias), visible)


_FACTS: dict[str, Any] = {"non_negative": True, "parameters": ("bias",), "source": "ramapuram2025sigmoid"}
MAPS = (
    Map("sigmoid", sigmoid, **_FACTS),
    Map("sigmoid_norm", sigmoid_norm, row_stochastic=True, **_FACTS),
)
