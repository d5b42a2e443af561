"""Uniform attention: every visible key weighs the same. A control that cannot learn where to look."""

import torch
from torch import Tensor

from softmaxlab.attention.map import Map


def constant(scores: Tensor) -> Tensor:
    return torch.ones_like(scores)


MAPS = (Map("uniform", constant, normalise="sum", non_negative=True, row_stochastic=True, shift_invariant=True),)
