"""Softmax-1: w_l = e^{χ_l} / (e^b + Σ_k e^{χ_k}), with a bias b per head.

It is softmax with one more key, of score b, whose weight is thrown away: a head can attend nowhere.
"""

import torch
from torch import Tensor

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import hide, softmax_of_all


def softmax1(scores: Tensor, visible: Tensor | None, bias: Tensor) -> Tensor:
    nowhere = bias.expand(*scores.shape[:-1], 1)
    logits = torch.cat([hide(scores, visible, -torch.inf), nowhere], dim=-1)
    return softmax_of_all(logits)[..., :-1]


MAPS = (Map("softmax1", softmax1, non_negative=True, parameters=("bias",), source="sagitova2026specialization"),)
