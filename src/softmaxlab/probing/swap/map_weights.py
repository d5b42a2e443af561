"""Weights of a tile under any registered map, and the site that computes with them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from softmaxlab.attention import MAPS, weights
from softmaxlab.attention.attend import features_of
from softmaxlab.probing.streaming.attach import SiteState, WeightFunction
from softmaxlab.probing.streaming.call import AttentionCall


def weights_of(
    map: str, bias: Callable[[AttentionCall], Tensor] | None = None, per_row: bool = False
) -> WeightFunction:
    """The weights of `map`; `bias` gives b [head] of every call; `per_row`: b = −log of the keys that a query sees."""
    if MAPS[map].features is not None:
        return _feature_weigher(map)

    def weigh(call: AttentionCall, rows: slice, keys: int) -> Tensor:
        χ, visible = _scores(call, rows, keys)
        if per_row:
            χ = χ - _log_count(χ, visible)
        b = 0.0 if per_row else None if bias is None else bias(call).to(χ.device)
        if call.sink is None:
            return weights(map, χ, mask=visible, bias=b)
        return weights(map, *_beside_sink(call.sink, χ, visible), bias=b)[..., :-1]

    return weigh


@contextmanager
def use_weights(
    state: SiteState, weigh: WeightFunction | None, leaks_weight: bool, is_softmax: bool = False
) -> Iterator[None]:
    """Compute a site's weights with `weigh` until the block ends; `is_softmax`: they must be the model's own."""
    before = state.weigh, state.leaks_weight, state.is_softmax
    state.weigh, state.leaks_weight, state.is_softmax = weigh, leaks_weight, is_softmax or weigh is None
    try:
        yield
    finally:
        state.weigh, state.leaks_weight, state.is_softmax = before


def _feature_weigher(map: str) -> WeightFunction:
    def weigh(call: AttentionCall, rows: slice, keys: int) -> Tensor:
        q, k = features_of(map, call.q.float()), features_of(map, call.k.float())
        χ, visible = _scores(replace(call, q=q, k=k, cap=None, bias=None), rows, keys)
        return MAPS[map].weigh(χ, visible, None)

    return weigh


def _scores(call: AttentionCall, rows: slice, keys: int) -> tuple[Tensor, Tensor | None]:
    χ, hidden = call.raw(rows, keys), call.hidden(rows, keys)
    return χ, None if hidden is None else (~hidden).expand(χ.shape)


def _log_count(χ: Tensor, visible: Tensor | None) -> Tensor:
    """log of the number of visible keys [B, H, rows, 1]; a row without any has no weight to shift."""
    if visible is None:
        return torch.tensor(float(χ.shape[-1]), device=χ.device).log()
    return visible.sum(dim=-1, keepdim=True).clamp(min=1).log()


def _beside_sink(sink: Tensor, χ: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Scores and visible keys with the learned sink as the last key."""
    χ = torch.cat([χ, sink.to(χ)[:, None, None].expand(*χ.shape[:-1], 1)], dim=-1)
    return χ, None if visible is None else torch.nn.functional.pad(visible, (0, 1), value=True)
