"""Taylor expansions for the landscape tests: derivatives along a line, and those of a map at equal scores."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from softmaxlab.attention import weights


def tensor(values) -> Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64))


def derivatives(f: Callable[[Tensor], Tensor], order: int, at: float = 0.0) -> list[float]:
    """f(t), f'(t), … up to that order."""
    t = tensor(at).requires_grad_()
    value, found = f(t), []
    for _ in range(order):
        found.append(value.item())
        (value,) = torch.autograd.grad(value, t, create_graph=True)
    return [*found, value.item()]


def second(f: Callable[[Tensor], Tensor]) -> float:
    return derivatives(f, 2)[2]


def mixed(f: Callable[[Tensor, Tensor], Tensor]) -> float:
    """∂²_s ∂²_t f at 0."""
    s, t = (tensor(0.0).requires_grad_() for _ in range(2))
    value = f(s, t)
    for along in (s, s, t, t):
        (value,) = torch.autograd.grad(value, along, create_graph=True)
    return value.item()


def sigma(map: str, b: float = 0.0, v: float = 1.0) -> Callable[[Tensor], Tensor]:
    """σ(χ, b, v; h)_l [head, token] as a function of the scores χ [head, token] of one sample."""
    bias, gain = None if map == "softmax" else b, v if map == "softmax1" else 1.0
    return lambda chi: gain * weights(map, chi[:, None, :], bias=bias)[:, 0]


def shared_null(chi: Tensor) -> Tensor:
    """Bayes-softmax with one null token for all heads: heads interact and weights do not sum to one."""
    return len(chi) * torch.exp(chi) / (1 + torch.exp(chi).sum())


def at_zero(of: Callable[[Tensor], Tensor], H: int, L: int) -> Any:
    """σ_hl, ∂_{h'l'} σ_hl and ∂²_{h'l',h''l''} σ_hl at χ = 0, as tensors."""
    zero = tensor(np.zeros((H, L)))
    return of(zero), jacobian(of, zero), jacobian(lambda chi: jacobian(of, chi, create_graph=True), zero)
