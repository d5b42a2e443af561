"""Sums over the queries of a call, per sequence and head: what every mean is made of.

Names and meanings of the statistics are in probing/definitions.py.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

from softmaxlab.probing.streaming.passes import Place
from softmaxlab.probing.streaming.rows import Rows

Measure = Callable[[slice, int, Tensor], Rows]  # rows, keys, which queries count → the tile's rows
Sums = dict[str, Tensor]
PER_QUERY = ("total", "peak", "first", "entropy", "effective_keys", "keys_above")  # of `Rows`


class Source(Protocol):
    """Where weights [B, H, Tq, Tk] come from: a call of attention, or an array."""

    @property
    def shape(self) -> tuple[int, int, int, int]: ...
    @property
    def causal(self) -> bool: ...
    def tiles(self) -> Iterator[tuple[slice, int]]: ...
    def hidden(self, rows: slice, keys: int) -> Tensor | None: ...


def sums_of(source: Source, place: Place, measure: Measure) -> tuple[Sums, Tensor, Tensor]:
    """All sums that need no values, tile by tile; and for each query its weight on the first key, and its total."""
    B, H, rows, keys = source.shape
    visible, seen = _visibility(source, place.counted.float())
    some = place.counted & (visible > 0)  # softmax over nothing is no weight
    found = {name: torch.empty(B, H, rows, dtype=torch.float64, device=seen.device) for name in PER_QUERY}
    columns = torch.zeros(B, H, keys, dtype=torch.float64, device=seen.device)
    for tile, width in source.tiles():
        part = measure(tile, width, some[:, tile].float())
        columns[:, :, :width] += part.columns
        for name, row in found.items():
            row[:, :, tile] = getattr(part, name)
    found["total"] = torch.where(visible[:, None] > 0, found["total"], 0)
    sums = _row_sums(found, some, visible)
    sums["queries"] = place.counted.sum(dim=-1, keepdim=True).double().expand(B, H)
    sums |= {"seen_first": _seen_first(seen, place), "columns": columns, "seen": seen}
    return sums, found["first"], found["total"]


def _row_sums(found: Sums, counted: Tensor, visible: Tensor) -> Sums:
    """Sums over queries. One with no weight has no distribution: it is counted as empty instead."""
    total, first, entropy = found["total"], found["first"], found["entropy"]
    counts = counted[:, None] & (total != 0)
    logs = visible.clamp(min=2)[:, None].log()  # not log 1 = 0: that row's entropy is 0 already
    rows = {
        "sparsity": found["peak"],
        "sink": first / total,
        "entropy": entropy,
        "entropy_normalised": entropy / logs,
        "effective_keys": found["effective_keys"],
        "keys_above": found["keys_above"],
        "total": total,
        "sink_weight": first,
    }
    sums = {name: torch.where(counts, row, 0).sum(dim=-1, dtype=torch.float64) for name, row in rows.items()}
    return {**sums, "rows": counts.sum(dim=-1).double()}


def _visibility(source: Source, counted: Tensor) -> tuple[Tensor, Tensor]:
    """How many keys each query sees [B, Tq], and how many counted queries see each key [B, Tk]."""
    B, _, rows, keys = source.shape
    if source.causal:
        visible = torch.arange(1, rows + 1, device=counted.device).float().expand(B, -1)
        return visible, counted.flip(-1).cumsum(dim=-1).flip(-1).double()
    visible, seen = torch.empty_like(counted), torch.zeros(B, keys, dtype=torch.float64, device=counted.device)
    for tile, width in source.tiles():
        hidden = source.hidden(tile, width)
        if hidden is None:
            visible[:, tile] = width
            seen[:, :width] += counted[:, tile].sum(dim=-1, keepdim=True)
        else:
            shown = (~hidden[:, 0]).float().expand(B, -1, -1)  # what is visible is so to all heads
            visible[:, tile] = shown.sum(dim=-1)
            seen[:, :width] += (counted[:, None, tile] @ shown)[:, 0]
    return visible, seen


def _seen_first(seen: Tensor, place: Place) -> Tensor:
    """How many counted queries see the sequence's first key [B, 1]."""
    inside = place.first >= 0
    return seen.gather(1, place.first.clamp(min=0)[:, None]) * inside[:, None]


def value_sums(v: Tensor, place: Place, first: Tensor, total: Tensor, out: Tensor) -> Sums:
    """What needs the values v [B, H_kv, Tk, D], and the output of the heads [B, Tq, H, D].

    `values` is Σ‖v‖ over `valued` keys and `first_value` = ‖v_0‖, NaN if a window has left the first key behind;
    `new_…` counts keys that earlier calls of the same sequences did not have.
    """
    groups = first.shape[1] // v.shape[1]
    norms = torch.linalg.vector_norm(v.float(), dim=-1).repeat_interleave(groups, dim=1)
    index = place.first.clamp(min=0)[:, None, None].expand(*norms.shape[:2], 1)
    first_value = norms.gather(2, index)[..., 0]
    size = torch.linalg.vector_norm(out.float(), dim=-1).transpose(1, 2)
    share = first.abs() * first_value[..., None] / size
    counts = place.counted[:, None] & (total != 0)
    sums = {
        "sink_output": torch.where(counts, share, 0).sum(dim=-1, dtype=torch.float64),
        "first_value": torch.where((place.first >= 0)[:, None], first_value, torch.nan).double(),
    }
    for name, keys in (("", place.real), ("new_", place.new)):
        sums[f"{name}values"] = (norms * keys[:, None]).sum(dim=-1, dtype=torch.float64)
        sums[f"{name}valued"] = keys.sum(dim=-1, keepdim=True).double().expand(norms.shape[:2])
    return sums
