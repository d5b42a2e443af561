"""Comparing heads, patterns and predictions."""

import torch
from torch import Tensor

from softmaxlab.errors import SpecError
from softmaxlab.measure.arrays import on_arrays
from softmaxlab.measure.weights import check_weights


@on_arrays
def head_similarity(weights: Tensor) -> Tensor:
    """Cosine similarity of the heads' patterns: [..., head, query, key] → [..., head, head]."""
    check_weights(weights)
    flat = weights.flatten(start_dim=-2)
    unit = flat / torch.linalg.vector_norm(flat, dim=-1, keepdim=True)
    return unit @ unit.transpose(-2, -1)


@on_arrays
def total_variation(weights: Tensor, others: Tensor) -> Tensor:
    """Mean over queries of ½Σ_k |w_k − w'_k| between two patterns: 0 for equal, 1 for disjoint distributions."""
    check_weights(weights)
    if weights.shape != others.shape:
        raise SpecError(f"patterns must have the same shape, got {tuple(weights.shape)} and {tuple(others.shape)}")
    return (weights - others).abs().sum(dim=-1).mean(dim=-1) / 2


@on_arrays
def flip_rate(prediction_1: Tensor, prediction_2: Tensor, label_1: Tensor, label_2: Tensor) -> Tensor:
    """The rate at which swapping one token flips the class, over pairs on the last axis (polarization paper, E.3).

    `prediction_1` is the class given to sample 1 after it took sample 2's top token: flipped if it became `label_2`.
    The two directions are averaged.
    """
    flipped_1 = (prediction_1 == label_2).to(torch.float64)
    flipped_2 = (prediction_2 == label_1).to(torch.float64)
    return ((flipped_1 + flipped_2) / 2).mean(dim=-1)
