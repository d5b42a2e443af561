"""Softpick, a rectified softmax: w_l = max(e^{χ_l} − 1, 0) / Σ_k |e^{χ_k} − 1|.

A key with a score below 0 has no weight and still counts below, so the weights of a row sum to at most 1 and a head can
attend nowhere. It does so too where all scores are 0; for such rows alone the authors add ε = 1e-8 to the sum.
"""

import torch
from torch import Tensor

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import hide


def softpick(scores: Tensor, visible: Tensor | None) -> Tensor:
    if scores.shape[-1] == 0:
        return scores
    scores = hide(scores, visible)  # a score of 0 adds nothing
    above = torch.relu(scores)
    peak = above.detach().amax(dim=-1, keepdim=True)
    # |e^χ − 1| e^{−peak}, which neither overflows nor loses the digits of a small χ
    size = (above - peak).exp() * -torch.expm1(-scores.abs())
    total = size.sum(dim=-1, keepdim=True)
    return hide(size, scores > 0) / torch.where(total == 0, 1, total)


MAPS = (Map("softpick", softpick, non_negative=True, source="zuhri2025softpick"),)
