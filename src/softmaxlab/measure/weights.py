"""Measures of weights [..., head, query, key]: how a head spreads its attention.

Each reduces the keys and averages over the queries, giving [..., head]; `where` (boolean, [..., query]) picks the
queries that count, for instance those that are not padding, the same for every head. A row whose weights are all zero
has no distribution: its value is NaN, and so is any mean that counts it.
"""

import torch
from torch import Tensor

from softmaxlab.errors import SpecError
from softmaxlab.measure.arrays import on_arrays


@on_arrays
def entropy(
    weights: Tensor, where: Tensor | None = None, normalised: bool = False, visible: Tensor | None = None
) -> Tensor:
    """Mean entropy in nats of |w|/Σ|w|.

    `normalised` divides each row by the log of its number of keys, or of its `visible` ones (boolean, broadcasts to
    the weights); a row of one key counts 0.
    """
    check_weights(weights)
    p = _distribution(weights)
    # −p log p, with its gradient cut at p = 0, where a masked key would make it infinite
    rows = torch.where(p == 0, 0, -p * torch.where(p == 0, 1, p).log()).sum(dim=-1)
    if normalised:
        keys = torch.ones_like(weights) if visible is None else _boolean(visible, "visible").broadcast_to(weights.shape)
        rows = rows / keys.sum(dim=-1).clamp(min=2).log()  # not log 1 = 0: that row's entropy is 0 already
    return _mean_over_queries(rows, where)


@on_arrays
def sparsity(weights: Tensor, where: Tensor | None = None) -> Tensor:
    """Mean of max_k w / Σ_k w, as in the polarization paper's E.2: signed weights may leave [0, 1]."""
    check_weights(weights)
    return _mean_over_queries(weights.amax(dim=-1) / weights.sum(dim=-1), where)


@on_arrays
def effective_keys(weights: Tensor, where: Tensor | None = None) -> Tensor:
    """Mean of 1/Σp² with p = |w|/Σ|w|: the number of keys a head really reads."""
    check_weights(weights)
    return _mean_over_queries(1 / _distribution(weights).square().sum(dim=-1), where)


@on_arrays
def total(weights: Tensor, where: Tensor | None = None) -> Tensor:
    """Mean of Σ_k w: 1 for row-stochastic maps, below 1 for softmax-1, unbounded for sigmoid."""
    check_weights(weights)
    return _mean_over_queries(weights.sum(dim=-1), where)


def check_weights(weights: Tensor) -> None:
    if weights.dim() < 3 or not weights.is_floating_point():
        got = f"{weights.dtype} of shape {tuple(weights.shape)}"
        raise SpecError(f"weights must be floating-point [..., head, query, key], got {got}")


def _boolean(mask: Tensor, name: str) -> Tensor:
    if mask.dtype != torch.bool:
        raise SpecError(f"{name} must be boolean, got {mask.dtype}")
    return mask


def _distribution(weights: Tensor) -> Tensor:
    size = weights.abs()
    return size / size.sum(dim=-1, keepdim=True)


def _mean_over_queries(rows: Tensor, where: Tensor | None) -> Tensor:
    if where is None:
        return rows.mean(dim=-1)
    where = _boolean(where, "where")
    if 1 < where.dim() < rows.dim():
        where = where.unsqueeze(-2)  # [..., query]: the same for every head
    counted = where.broadcast_to(rows.shape)
    return rows.masked_fill(~counted, 0.0).sum(dim=-1) / counted.sum(dim=-1)
