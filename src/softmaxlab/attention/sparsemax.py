"""Sparsemax: the Euclidean projection of the scores onto the simplex, w = max(χ − τ, 0) with Σw = 1."""

import torch
from torch import Tensor

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import below_peak, hide

FLOOR = -2.0  # a key 1 below the peak has weight 0 already


def sparsemax(scores: Tensor, visible: Tensor | None) -> Tensor:
    if scores.shape[-1] == 0:
        return scores
    z = below_peak(scores, visible, FLOOR)
    with torch.no_grad():
        support = z > _threshold(z)
    size = support.sum(dim=-1, keepdim=True)
    tau = (hide(z, support).sum(dim=-1, keepdim=True) - 1) / size
    return hide(torch.relu(z - tau), visible)


def _threshold(z: Tensor) -> Tensor:
    """τ from the sorted scores: the support is the longest prefix with 1 + k z_k > Σ_{j≤k} z_j."""
    ordered = z.sort(dim=-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    sums = ordered.cumsum(dim=-1)
    size = (1 + count * ordered > sums).sum(dim=-1, keepdim=True).clamp(min=1)  # NaN compares false and stays NaN
    return (sums.gather(-1, size - 1) - 1) / size


MAPS = (
    Map(
        "sparsemax",
        sparsemax,
        non_negative=True,
        row_stochastic=True,
        shift_invariant=True,
        source="martins2016softmax",
    ),
)
