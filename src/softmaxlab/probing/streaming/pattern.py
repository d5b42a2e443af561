"""Weights that are already there, in place of a call that computes them.

Which keys a query may see is read off the weights: those that some head of its sequence gives weight. Other sequences
do not tell: a sparse index chooses keys for each. A visible key counts as hidden if its weight is 0 in all heads.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from softmaxlab.probing.streaming.call import tiled
from softmaxlab.probing.streaming.sums import Sums, sums_of, value_sums
from softmaxlab.probing.streaming.tiles import TileStatistics, weights_tile
from softmaxlab.probing.streaming.tracker import SequenceLayout


@dataclass(frozen=True, eq=False)
class Pattern:
    """Weights w [B, H, Tq, Tk] of one layer; `visible` [B, Tq, Tk]: which keys a query sees."""

    w: Tensor
    visible: Tensor
    real: Tensor  # [B, Tk], keys that are not padding
    causal: bool = False  # if they are, `visible` says so
    at: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        B, H, rows, keys = self.w.shape
        return B, H, rows, keys

    def hidden(self, rows: slice, keys: int) -> Tensor:
        return ~(self.visible[:, None, rows, :keys] & self.real[:, None, None, :keys])

    def tiles(self) -> Iterator[tuple[slice, int]]:
        return ((rows, self.shape[-1]) for rows in tiled(self.shape))


def pattern_sums(w: Tensor, layout: SequenceLayout, leaks_weight: bool = False, v: Tensor | None = None) -> Sums:
    """All sums of weights w [B, H, Tq, Tk]; with the values v [B, H_kv, Tk, D] also what needs them."""
    visible = (w != 0).any(dim=1)
    pattern = Pattern(w, visible, layout.real)

    def measure(rows: slice, keys: int, counted: Tensor) -> TileStatistics:
        tile = w[:, :, rows, :keys].to(torch.promote_types(w.dtype, torch.float32))
        return weights_tile(tile, layout.first, counted, leaks_weight)

    sums, first, total = sums_of(pattern, layout, measure)
    if v is None:
        return sums
    grouped = w.to(v.dtype).unflatten(1, (v.shape[1], -1)) @ v.unsqueeze(2)
    out = grouped.flatten(1, 2).transpose(1, 2)
    return sums | value_sums(v, layout, first, total, out)
