"""Sums over the queries of a call, per sequence and head: what every mean is made of.

Names and meanings of the statistics are in probing/definitions.py.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.sampled_rows import SampledRows, row_sum
from softmaxlab.probing.streaming.tiles import TileStatistics
from softmaxlab.probing.streaming.tracker import SequenceLayout

Measure = Callable[[slice, int, Tensor], TileStatistics]  # rows, keys, which queries count → the tile's rows
Sums = dict[str, Tensor]
PER_QUERY = ("total", "peak", "first", "entropy", "effective_keys", "keys_above")  # of `TileStatistics`


class Source(Protocol):
    """A source of weights [B, H, Tq, Tk]: a call of attention, or an array."""

    @property
    def shape(self) -> tuple[int, int, int, int]: ...
    @property
    def causal(self) -> bool: ...
    @property
    def at(self) -> Tensor | None: ...
    def tiles(self) -> Iterator[tuple[slice, int]]: ...
    def hidden(self, rows: slice, keys: int) -> Tensor | None: ...


def sums_of(
    source: Source, layout: SequenceLayout, measure: Measure, sample: SampledRows | None = None
) -> tuple[Sums, Tensor, Tensor]:
    """All sums that need no values, tile by tile; and for each query its weight on the first key, and its total.

    With a `sample`, source and layout are those of its queries, and the sums are estimates of those over all queries.
    """
    B, H, rows, keys = source.shape
    weight = 1.0 if sample is None else sample.weight.float()
    visible, queries_of_key = _visibility(source, layout.counted.float() * weight)
    some = layout.counted & (visible > 0)  # softmax over nothing is no weight
    counted = some.float() * weight
    per_query = {name: torch.empty(B, H, rows, dtype=torch.float64, device=queries_of_key.device) for name in PER_QUERY}
    largest = torch.full((B, H), -torch.inf, dtype=torch.float64, device=queries_of_key.device)
    columns = torch.zeros(B, H, keys, dtype=torch.float64, device=queries_of_key.device)
    for tile, width in source.tiles():
        part = measure(tile, width, counted[:, tile])
        columns[:, :, :width] += part.columns
        for name, row in per_query.items():
            row[:, :, tile] = getattr(part, name)
        if part.max_logit is not None:
            top = torch.where(some[:, None, tile], part.max_logit, -torch.inf).amax(dim=-1)
            largest = torch.maximum(largest, top)
    per_query["total"] = torch.where(visible[:, None] > 0, per_query["total"], 0)
    sums = _row_sums(per_query, some, visible, sample)
    sums["queries"] = (layout.counted * weight).sum(dim=-1, keepdim=True, dtype=torch.float64).expand(B, H)
    sums |= {"seen_first": _seen_first(queries_of_key, layout), "columns": columns, "seen": queries_of_key}
    sums["max_logit"] = largest
    return sums, per_query["first"], per_query["total"]


def _row_sums(per_query: Sums, counted: Tensor, visible: Tensor, sample: SampledRows | None) -> Sums:
    """Sums over queries. One with no weight has no distribution: it is counted as empty instead."""
    total, first, entropy = per_query["total"], per_query["first"], per_query["entropy"]
    counts = counted[:, None] & (total != 0)
    logs = visible.clamp(min=2)[:, None].log()  # not log 1 = 0: that row's entropy is 0 already
    rows = {
        "sparsity": per_query["peak"],
        "sink": first / total,
        "entropy": entropy,
        "entropy_normalised": entropy / logs,
        "effective_keys": per_query["effective_keys"],
        "keys_above": per_query["keys_above"],
        "total": total,
        "sink_weight": first,
    }
    sums = {name: row_sum(name, row, counts, sample) for name, row in rows.items()}
    weight = 1.0 if sample is None else sample.weight
    return {**sums, "rows": (counts * weight).sum(dim=-1).double()}


def _visibility(source: Source, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many keys each query sees [B, Tq], and how many counted queries see each key [B, Tk]."""
    B, _, rows, keys = source.shape
    if source.causal:
        if source.at is not None:
            queries_at = torch.zeros(B, keys, dtype=torch.float64, device=counted.device)
            queries_at.index_add_(1, source.at, counted.double())
            return (source.at + 1).float().expand(B, -1), queries_at.flip(-1).cumsum(dim=-1).flip(-1)
        visible = torch.arange(1, rows + 1, device=counted.device).float().expand(B, -1)
        return visible, counted.flip(-1).cumsum(dim=-1).flip(-1).double()
    visible, queries_of_key = (
        torch.empty_like(counted),
        torch.zeros(B, keys, dtype=torch.float64, device=counted.device),
    )
    for tile, width in source.tiles():
        hidden = source.hidden(tile, width)
        if hidden is None:
            visible[:, tile] = width
            queries_of_key[:, :width] += counted[:, tile].sum(dim=-1, keepdim=True)
        else:
            if hidden.shape[1] > 1 and (hidden != hidden[:, :1]).any():
                raise SpecError("a mask hides different keys from different heads, which is not measured: use --eager")
            shown = (~hidden[:, 0]).float().expand(B, -1, -1)
            visible[:, tile] = shown.sum(dim=-1)
            queries_of_key[:, :width] += (counted[:, None, tile] @ shown)[:, 0]
    return visible, queries_of_key


def _seen_first(queries_of_key: Tensor, layout: SequenceLayout) -> Tensor:
    """Return how many counted queries see the sequence's first key [B, 1]."""
    inside = layout.first >= 0
    return queries_of_key.gather(1, layout.first.clamp(min=0)[:, None]) * inside[:, None]


def value_sums(
    v: Tensor, layout: SequenceLayout, first: Tensor, total: Tensor, out: Tensor, sample: SampledRows | None = None
) -> Sums:
    """Return the sums that need the values v [B, H_kv, Tk, D] and the output of the heads [B, Tq, H, D].

    `values` is Σ‖v‖ over `valued` keys and `first_value` = ‖v_0‖, NaN if a window has left the first key behind;
    `new_…` counts keys that earlier calls of the same sequences did not have.
    """
    groups = first.shape[1] // v.shape[1]
    norms = torch.linalg.vector_norm(v.float(), dim=-1).repeat_interleave(groups, dim=1)
    index = layout.first.clamp(min=0)[:, None, None].expand(*norms.shape[:2], 1)
    first_value = norms.gather(2, index)[..., 0]
    size = torch.linalg.vector_norm(out.float(), dim=-1).transpose(1, 2)
    share = first.abs() * first_value[..., None] / size
    counts = layout.counted[:, None] & (total != 0)
    sums = {
        "sink_output": row_sum("sink_output", share, counts, sample),
        "first_value": torch.where((layout.first >= 0)[:, None], first_value, torch.nan).double(),
    }
    for name, keys in (("", layout.real), ("new_", layout.new)):
        sums[f"{name}values"] = (norms * keys[:, None]).sum(dim=-1, dtype=torch.float64)
        sums[f"{name}valued"] = keys.sum(dim=-1, keepdim=True).double().expand(norms.shape[:2])
    return sums
