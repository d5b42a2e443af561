"""Hidden keys, written once for all maps.

Conventions. `visible` is boolean, True = visible, already broadcast to the scores; None means all. A hidden key has
weight exactly 0 and passes no gradient. A row with nothing to divide by (all keys hidden, or weights that sum to
exactly 0) has all weights 0: it attends nowhere.
"""

import torch
from torch import Tensor

_SHORT = 16  # rows shorter than a vector register: torch.softmax takes three times as long as its formula


def hide(values: Tensor, visible: Tensor | None, fill: float = 0.0) -> Tensor:
    """`values` with hidden entries replaced by `fill`, in value and gradient."""
    return values if visible is None else values.masked_fill(~visible, fill)


def softmax(logits: Tensor, visible: Tensor | None) -> Tensor:
    """exp(logits)/Σ exp(logits) over the visible keys of the last axis."""
    if visible is None:
        return softmax_of_all(logits)
    dead = ~visible.any(dim=-1, keepdim=True)
    # a row of −inf would be 0/0, so a dead row is left finite here and emptied below
    logits = hide(logits, visible, -torch.inf).masked_fill(dead, 0.0)
    return hide(softmax_of_all(logits), visible)


def softmax_of_all(logits: Tensor) -> Tensor:
    """exp(logits)/Σ exp(logits) over the last axis."""
    if logits.device.type != "cpu" or not 0 < logits.shape[-1] < _SHORT:
        return torch.softmax(logits, dim=-1)
    e = (logits - logits.detach().amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)


def share(weights: Tensor) -> Tensor:
    """weights/Σ weights over the last axis; a row that sums to exactly 0 becomes all 0."""
    if weights.shape[-1] == 0:
        return weights
    # relative to the largest, so that neither the sum of huge weights nor that of tiny ones leaves the type's range
    size = weights.detach().abs().amax(dim=-1, keepdim=True)
    weights = weights / torch.where(size == 0, 1, size)
    total = weights.sum(dim=-1, keepdim=True)
    return torch.where(total == 0, 0, weights / torch.where(total == 0, 1, total))


def bounded_share(weights: Tensor) -> Tensor:
    """weights/max(|Σ weights|, 1): the normaliser of signed maps, which never amplifies."""
    return weights / weights.sum(dim=-1, keepdim=True).abs().clamp(min=1.0)


def below_peak(scores: Tensor, visible: Tensor | None, floor: float) -> Tensor:
    """Scores minus the row's largest visible score, cut off at `floor` (where hidden keys are put too).

    For maps that give weight 0 to every key further below the peak than `floor`: it changes no weight and keeps
    sums of huge scores exact.
    """
    lowest = torch.finfo(scores.dtype).min
    # the maps that use this do not feel a shift, so neither does their gradient
    peak = hide(scores, visible, lowest).amax(dim=-1, keepdim=True).detach()
    return hide((scores - peak).clamp(min=floor), visible, floor)
