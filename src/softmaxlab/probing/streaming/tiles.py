"""Statistics of the rows of one tile of attention.

Softmax, with m = max_j χ_ij, e_j = exp(χ_ij − m) and Z = Σ e_j (+ e^{b−m} for a learned sink of score b) needs no
normalised weights:

    total = Σe/Z    max w = max e/Z    Σw² = Σe²/Z²    entropy = −Σ w log w = (log Z)·Σe/Z − Σ e(χ − m)/Z

A learned sink adds its own −w_b log w_b to the entropy; it is no key, so shares are of the keys' total.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from softmaxlab.measure.thresholds import KEY_SHARE
from softmaxlab.probing.streaming.call import AttentionCall


@dataclass(frozen=True, eq=False)
class TileStatistics:
    """Statistics of the rows of one tile [B, H, rows], and its columns."""

    total: Tensor
    peak: Tensor  # max_k w / total
    first: Tensor  # weight on the first key of the sequence, not divided
    entropy: Tensor
    effective_keys: Tensor
    keys_above: Tensor
    columns: Tensor  # [B, H, keys]: weight that the counted rows put on each key
    max_logit: Tensor | None = None  # largest score of the row; None where only weights are known


def softmax_tile(call: AttentionCall, rows: slice, keys: int, first: Tensor, counted: Tensor) -> TileStatistics:
    """Measure softmax attention; `first` [B] is the first key, `counted` [B, rows] says which queries count."""
    χ = call.scores(rows, keys)
    m = top = χ.amax(dim=-1)
    if call.sink is not None:
        b = call.sink.to(χ.dtype)[:, None]
        m = torch.maximum(m, b)
    χ -= m.unsqueeze(-1)
    e = χ.exp()
    keys_total = e.sum(dim=-1)
    Z = keys_total if call.sink is None else keys_total + (b - m).exp()
    entropy = (Z.log() * keys_total - torch.einsum("...k,...k->...", e, χ)) / Z
    if call.sink is not None:
        entropy = entropy + torch.special.entr((b - m).exp() / Z)
    peak = (top - m).exp() / keys_total  # not 1/…: with a learned sink the largest score may be the sink's
    on_first = _at(e, first) / Z
    effective = keys_total.square() / torch.einsum("...k,...k->...", e, e)
    columns = (counted[:, None] / Z).unsqueeze(-2) @ e
    above = torch.gt(e, KEY_SHARE * keys_total.unsqueeze(-1), out=χ).sum(dim=-1)
    return TileStatistics(keys_total / Z, peak, on_first, entropy, effective, above, columns.squeeze(-2), top)


def weights_tile(w: Tensor, first: Tensor, counted: Tensor, leaks_weight: bool = False) -> TileStatistics:
    """Measure any weights [B, H, rows, keys], with p = |w|/Σ|w|; `leaks_weight`: the rest to 1 is weight on no key."""
    total, size = w.sum(dim=-1), w.abs()
    mass = size.sum(dim=-1)
    if leaks_weight:
        entropy = torch.special.entr(w).sum(dim=-1) + torch.special.entr((1 - total).clamp(min=0.0))
    else:
        entropy = torch.special.entr(size / mass.unsqueeze(-1)).sum(dim=-1)
    effective = mass.square() / size.square().sum(dim=-1)
    above = (w > KEY_SHARE * total.unsqueeze(-1)).sum(dim=-1)
    columns = (counted[:, None].to(w.dtype).unsqueeze(-2) @ w).squeeze(-2)
    return TileStatistics(
        total, w.amax(dim=-1) / total, _at(w, first), entropy, effective, above, columns.expand(*w.shape[:2], -1)
    )


def _at(tile: Tensor, first: Tensor) -> Tensor:
    """Column first[b] of sample b, 0 where the tile does not reach it."""
    inside = (first >= 0) & (first < tile.shape[-1])
    index = first.clamp(0, tile.shape[-1] - 1)[:, None, None, None].expand(*tile.shape[:-1], 1)
    return tile.gather(-1, index).squeeze(-1) * inside[:, None, None]
