"""Maps that give keys a weight of exactly 0.

sparsemax   the Euclidean projection of the scores onto the simplex, w = max(χ − τ, 0) with Σw = 1
entmax15    1.5-entmax, halfway between softmax and sparsemax: w = max(χ/2 − τ, 0)² with Σw = 1
softpick    a rectified softmax: w_l = max(e^{χ_l} − 1, 0) / Σ_k |e^{χ_k} − 1|. A key with a score below 0 has no
            weight and still counts below, so the weights of a row sum to at most 1 and a head can attend nowhere.
            It does so too where all scores are 0; for such rows alone the authors add ε = 1e-8 to the sum
"""

import torch
from torch import Tensor

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import below_peak, hide

FLOOR = -2.0  # in χ for sparsemax, in χ/2 for entmax15: a key 1 below the peak has weight 0 already


def sparsemax(scores: Tensor, visible: Tensor | None) -> Tensor:
    if scores.shape[-1] == 0:
        return scores
    z = below_peak(scores, visible, FLOOR)
    with torch.no_grad():
        support = z > _sparsemax_threshold(z)
    size = support.sum(dim=-1, keepdim=True)
    tau = (hide(z, support).sum(dim=-1, keepdim=True) - 1) / size
    return hide(torch.relu(z - tau), visible)


def _sparsemax_threshold(z: Tensor) -> Tensor:
    """τ from the sorted scores: the support is the longest prefix with 1 + k z_k > Σ_{j≤k} z_j."""
    ordered = z.sort(dim=-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    sums = ordered.cumsum(dim=-1)
    size = (1 + count * ordered > sums).sum(dim=-1, keepdim=True).clamp(min=1)  # NaN compares false and stays NaN
    return (sums.gather(-1, size - 1) - 1) / size


def entmax15(scores: Tensor, visible: Tensor | None) -> Tensor:
    if scores.shape[-1] == 0:
        return scores
    z = below_peak(scores / 2, visible, FLOOR)
    with torch.no_grad():
        support = z > _entmax15_threshold(z)
    tau = _entmax15_tau(z, support)
    return hide(torch.relu(z - tau).square(), visible)


def _entmax15_tau(z: Tensor, support: Tensor) -> Tensor:
    """The root τ < mean of Σ_{support} (z − τ)² = 1."""
    size = support.sum(dim=-1, keepdim=True)
    mean = hide(z, support).sum(dim=-1, keepdim=True) / size
    spread = hide((z - mean).square(), support).sum(dim=-1, keepdim=True)
    return mean - ((1 - spread) / size).clamp(min=0).sqrt()


def _entmax15_threshold(z: Tensor) -> Tensor:
    """τ from the sorted scores: the support is the longest prefix whose own τ is below its smallest score."""
    ordered = z.sort(dim=-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    mean = ordered.cumsum(dim=-1) / count
    spread = ordered.square().cumsum(dim=-1) - count * mean.square()
    tau = mean - ((1 - spread) / count).clamp(min=0).sqrt()
    size = (tau <= ordered).sum(dim=-1, keepdim=True).clamp(min=1)  # NaN compares false and stays NaN
    return tau.gather(-1, size - 1)


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


MAPS = (
    Map(
        "sparsemax",
        sparsemax,
        non_negative=True,
        row_stochastic=True,
        shift_invariant=True,
        source="martins2016softmax",
    ),
    Map(
        "entmax15",
        entmax15,
        non_negative=True,
        row_stochastic=True,
        shift_invariant=True,
        source="peters2019sparse",
    ),
    Map("softpick", softpick, non_negative=True, source="zuhri2025softpick"),
)
