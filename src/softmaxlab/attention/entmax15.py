"""1.5-entmax, halfway between softmax and sparsemax: w = max(χ/2 − τ, 0)² with Σw = 1."""

import torch
from torch import Tensor

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import below_peak, hide

FLOOR = -2.0  # in χ/2, where a key 1 below the peak has weight 0 already


def entmax15(scores: Tensor, visible: Tensor | None) -> Tensor:
    if scores.shape[-1] == 0:
        return scores
    z = below_peak(scores / 2, visible, FLOOR)
    with torch.no_grad():
        support = z > _threshold(z)
    tau = _tau(z, support)
    return hide(torch.relu(z - tau).square(), visible)


def _tau(z: Tensor, support: Tensor) -> Tensor:
    """The root τ < mean of Σ_{support} (z − τ)² = 1."""
    size = support.sum(dim=-1, keepdim=True)
    mean = hide(z, support).sum(dim=-1, keepdim=True) / size
    spread = hide((z - mean).square(), support).sum(dim=-1, keepdim=True)
    return mean - ((1 - spread) / size).clamp(min=0).sqrt()


def _threshold(z: Tensor) -> Tensor:
    """τ from the sorted scores: the support is the longest prefix whose own τ is below its smallest score."""
    ordered = z.sort(dim=-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    mean = ordered.cumsum(dim=-1) / count
    spread = ordered.square().cumsum(dim=-1) - count * mean.square()
    tau = mean - ((1 - spread) / count).clamp(min=0).sqrt()
    size = (tau <= ordered).sum(dim=-1, keepdim=True).clamp(min=1)  # NaN compares false and stays NaN
    return tau.gather(-1, size - 1)


MAPS = (
    Map(
        "entmax15",
        entmax15,
        non_negative=True,
        row_stochastic=True,
        shift_invariant=True,
        source="peters2019sparse",
    ),
)
