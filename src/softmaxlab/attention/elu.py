"""ELU attention: w = elu(χ) + 1, that is χ + 1 above 0 and e^χ below, and w/Σw.

The normalised form is a softmax of log w, which stays exact where w itself underflows.
"""

from typing import Any

import torch
from torch import Tensor

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import softmax


def elu_plus_one(scores: Tensor) -> Tensor:
    # not elu(χ) + 1, which loses all digits of e^χ for χ ≪ 0; min(χ, 0) as a difference has slope 1 at 0
    above = torch.relu(scores)
    return (scores - above).exp() + above


def elu_norm(scores: Tensor, visible: Tensor | None) -> Tensor:
    log_w = torch.where(scores > 0, torch.where(scores > 0, scores, 0).log1p(), scores)
    return softmax(log_w, visible)


_FACTS: dict[str, Any] = {"non_negative": True, "source": "varre2026polarization"}
MAPS = (
    Map("elu", elu_plus_one, **_FACTS),
    Map("elu_norm", elu_norm, row_stochastic=True, **_FACTS),
)
