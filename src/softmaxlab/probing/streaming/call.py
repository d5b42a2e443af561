"""One call of attention, as the registry of transformers hands it over, read once for all uses.

    scores χ_ij = cap(scale · q_i·k_j) + bias_ij,   cap(x) = c·tanh(x/c) for a soft cap c, else x

Keys and values are shared by groups of heads (GQA) and never copied out: heads are [key head, group].
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError

TILE = 1 << 19  # scores in a tile: 2 MB, which a core's cache holds
HIDDEN = -1e30  # finite, so that 0 · HIDDEN = 0; far below any score
ARGUMENTS = frozenset({"dropout", "scaling", "is_causal", "position_bias", "softcap", "s_aux"})  # those that are used
HARMLESS = frozenset({  # arguments that change no weight, or whose effect the mask already has
    "sliding_window", "position_ids", "cache_position", "position_embeddings", "deterministic", "use_cache",
    "past_key_values", "output_attentions", "output_hidden_states", "output_router_logits", "return_dict",
    "num_items_in_batch", "logits_to_keep", "layer_idx", "training",
})  # fmt: skip


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """q [B, H, Tq, D], k and v [B, H_kv, Tk, D]; `mask` True = visible, or added to the scores."""

    module: nn.Module
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    scale: float
    causal: bool
    cap: float | None = None
    bias: Tensor | None = None
    sink: Tensor | None = None  # learned score [H] of a key that takes weight and gives nothing (gpt-oss)
    dropout: float = 0.0
    at: Tensor | None = None  # positions of the queries, in order; None for all of them from 0 on

    @property
    def lengths(self) -> tuple[int, int]:
        return self.q.shape[2], self.k.shape[2]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return the shape of the weights: [B, H, Tq, Tk]."""
        B, H, rows, _ = self.q.shape
        return B, H, rows, self.k.shape[2]

    @property
    def groups(self) -> int:
        return self.q.shape[1] // self.k.shape[1]

    @property
    def wide(self) -> torch.dtype:
        """The type that scores and weights are computed in: float32, float64 for a model in float64."""
        return torch.promote_types(self.q.dtype, torch.float32)

    def scores(self, rows: slice, keys: int) -> Tensor:
        """χ [B, H, rows, keys] in `wide`, hidden ones at HIDDEN."""
        χ = self.raw(rows, keys)
        if self.causal and self.at is None:  # keys before the tile's first query are seen by all of them
            χ[..., rows.start :].masked_fill_(_later(rows, χ.device), HIDDEN)
            return χ
        hidden = self.hidden(rows, keys)
        return χ if hidden is None else χ.masked_fill_(hidden, HIDDEN)

    def raw(self, rows: slice, keys: int) -> Tensor:
        """χ [B, H, rows, keys] in `wide`, hidden ones not yet hidden."""
        q = (self.q[:, :, rows].to(self.wide) * self.scale).unflatten(1, (-1, self.groups)).flatten(2, 3)
        χ = q @ self.k[:, :, :keys].to(self.wide).transpose(-2, -1)
        χ = χ.unflatten(2, (self.groups, -1)).flatten(1, 2)
        if self.cap is not None:
            χ = torch.tanh(χ / self.cap) * self.cap
        if self.bias is not None:
            χ = χ + self.bias[:, :, rows, :keys]
        if self.mask is not None and self.mask.dtype != torch.bool:
            χ = χ + self.mask[:, :, rows, :keys]
        return χ

    def hidden(self, rows: slice, keys: int) -> Tensor | None:
        """Return which scores of a tile are hidden; None if none is."""
        if self.mask is not None:
            return is_hidden(self.mask[:, :, rows, :keys])
        if not self.causal:
            return None
        if self.at is not None:
            return torch.arange(keys, device=self.q.device) > self.at[rows, None]
        return torch.nn.functional.pad(_later(rows, self.q.device), (rows.start, keys - rows.stop), value=False)

    def tiles(self) -> Iterator[tuple[slice, int]]:
        """Blocks of queries and how many keys they may see, small enough for TILE scores each."""
        keys = self.shape[-1]
        for rows in tiled(self.shape):
            if self.causal:
                yield rows, rows.stop if self.at is None else int(self.at[rows.stop - 1]) + 1
            else:
                yield rows, keys if self.mask is None else _reach(self.mask[:, :, rows, :keys])

    def weighted_values(self, weights: Tensor) -> Tensor:
        """Σ_j w_ij v_j [B, H, rows, D] of weights [B, H, rows, keys], in the type of v."""
        grouped = weights.to(self.v.dtype).unflatten(1, (-1, self.groups)).flatten(2, 3)
        out = grouped @ self.v[:, :, : weights.shape[-1]]
        return out.unflatten(2, (self.groups, -1)).flatten(1, 2)

    def of_queries(self, index: Tensor) -> "AttentionCall":
        """The same call with some of its queries alone."""
        mask, bias = (x if x is None or x.shape[2] == 1 else x.index_select(2, index) for x in (self.mask, self.bias))
        return replace(self, q=self.q.index_select(2, index), mask=mask, bias=bias, at=index)

    def detached(self) -> "AttentionCall":
        free = {name: _detach(getattr(self, name)) for name in ("q", "k", "v", "mask", "bias", "sink")}
        return replace(self, **free)


def read(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> AttentionCall:
    """The call behind the registry's arguments. Without a mask, a causal module hides later keys from many queries.

    An argument that is not known may choose keys or shift scores (`indices` of a sparse index), so it is refused.
    """
    if unknown := [name for name, value in others.items() if value is not None and name not in HARMLESS]:
        raise SpecError(
            f"{type(module).__name__} gives attention the argument {unknown[0]!r}, which is not known here and may "
            "change its weights; only its own attention can be measured (eager=True, --eager)"
        )
    rows = query.shape[2]
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(causal) and attention_mask is None and rows > 1
    if causal and key.shape[2] > rows:  # an empty static cache: what lies beyond the queries is not filled yet
        key, value = key[:, :, :rows], value[:, :, :rows]
        position_bias = None if position_bias is None else position_bias[..., :rows]
    if attention_mask is not None:
        attention_mask = _whole_mask(module, attention_mask, rows, key.shape[2])
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return AttentionCall(
        module, query, key, value, attention_mask, scale, causal, softcap, position_bias, s_aux, dropout
    )


def _whole_mask(module: nn.Module, mask: Tensor, rows: int, keys: int) -> Tensor:
    """A mask [B or 1, H or 1, Tq, Tk], also where all queries share a row of it."""
    if mask.dim() != 4 or mask.shape[-2] not in (1, rows):
        raise SpecError(
            f"{type(module).__name__} gives attention a mask of shape {list(mask.shape)}, expected [sequence, head, "
            f"{rows} queries, {keys} keys]; only its own attention can be measured (eager=True, --eager)"
        )
    return mask[..., :keys].expand(-1, -1, rows, -1)


def is_hidden(mask: Tensor) -> Tensor:
    """Return which keys a mask hides: False in a boolean mask, the lowest number or −∞ in one that is added."""
    return ~mask if mask.dtype == torch.bool else mask <= torch.finfo(mask.dtype).min / 2


def tiled(shape: tuple[int, int, int, int]) -> Iterator[slice]:
    """Blocks of queries of weights [B, H, Tq, Tk]: TILE weights each, or else 32 queries.

    Fewer queries would read all keys too often: at T = 8192 with 8 heads, 8 at a time take 1.6 times as long as 32.
    """
    B, H, rows, keys = shape
    size = max(1, TILE >> 14, TILE // max(1, B * H * keys))
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def _later(rows: slice, device: torch.device) -> Tensor:
    """Return which of the tile's own tokens come after a query [rows, rows]."""
    size = rows.stop - rows.start
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(1)


def _reach(mask: Tensor) -> int:
    """Return how many keys from the first a tile must cover, at least 1: no query sees a later key."""
    visible = (~is_hidden(mask)).flatten(0, 2).any(dim=0).nonzero()
    return int(visible[-1]) + 1 if len(visible) else 1


def _detach(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.detach()
