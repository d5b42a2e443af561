"""The two ways to use a map: `weights` of given scores, and `attend` from queries, keys and values."""

import math

import torch
from torch import Tensor, nn

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import hide
from softmaxlab.attention.registry import MAPS
from softmaxlab.errors import SpecError

# bfloat16 and float16 are computed in float32 and rounded once at the end
_WIDER = {torch.bfloat16: torch.float32, torch.float16: torch.float32}


def weights(map: str, scores: Tensor, mask: Tensor | None = None, bias: Tensor | float | None = None) -> Tensor:
    """Attention weights of scores [..., head, query, key], of the same shape and dtype.

    `mask` is boolean, True = visible, and broadcasts; a masked weight is exactly 0, and a row without a visible key is
    all 0. `bias` is one number or one per head, for the maps that take it (0 if not given).
    """
    chosen = MAPS[map]
    if chosen.features is not None:
        raise SpecError(f"map {map!r} acts on queries and keys, not on scores: use attend")
    return _weights(chosen, scores, mask, bias)


def attend(
    map: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | float | None = None,
    mlp: nn.Module | None = None,
) -> tuple[Tensor, Tensor]:
    """Output [..., head, query, d_v] and weights of q, k, v [..., head, token, d_h], with scores q·k/√d_h.

    `mlp` is the feature network that the maps `mlp` and `mlp_norm` need.
    """
    if q.shape[-1] != k.shape[-1]:
        raise SpecError(f"q and k differ in width: {q.shape[-1]} and {k.shape[-1]}")
    return attend_features(map, features_of(map, q, mlp), features_of(map, k, mlp), v, mask, bias)


def features_of(map: str, x: Tensor, mlp: nn.Module | None = None) -> Tensor:
    """φ(x) of queries or keys [..., d_h], of the same shape; x itself for the maps of scores."""
    chosen = MAPS[map]
    given = _feature_arguments(chosen, mlp)
    return x if chosen.features is None else chosen.features(x, **given)


def attend_features(
    map: str, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, bias: Tensor | float | None = None
) -> tuple[Tensor, Tensor]:
    """`attend` for q and k that are features already."""
    if k.shape[-2] != v.shape[-2]:
        raise SpecError(f"k and v differ in tokens: {k.shape[-2]} and {v.shape[-2]}")
    scores = _wide(q) @ _wide(k).transpose(-2, -1) / math.sqrt(q.shape[-1])
    w = weights_of_products(map, scores, mask, bias).to(q.dtype)
    return w @ v, w


def weights_of_products(map: str, scores: Tensor, mask: Tensor | None, bias: Tensor | float | None) -> Tensor:
    """`weights` for scores that are products of features already."""
    return _weights(MAPS[map], scores, mask, bias)


def _weights(chosen: Map, scores: Tensor, mask: Tensor | None, bias: Tensor | float | None) -> Tensor:
    _check_scores(scores, chosen)
    wide = _wide(scores)
    visible = _visible(mask, scores)
    w = chosen.weigh(wide, visible, _per_head(bias, wide, chosen))
    if w.shape != scores.shape:
        shapes = f"{tuple(w.shape)} for scores of shape {tuple(scores.shape)}"
        raise SpecError(f"map {chosen.name!r} must give one weight per score, got shape {shapes}")
    return hide(w, visible).to(scores.dtype)


def _wide(x: Tensor) -> Tensor:
    return x.to(_WIDER.get(x.dtype, x.dtype))


def _check_scores(scores: Tensor, chosen: Map) -> None:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise SpecError(f"scores must be a floating-point tensor, got {_type(scores)}")
    least = 3 if chosen.parameters or chosen.joint else 1
    if scores.dim() < least:
        raise SpecError(f"map {chosen.name!r} needs scores [..., head, query, key], got shape {tuple(scores.shape)}")


def _type(value: object) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def _visible(mask: Tensor | None, scores: Tensor) -> Tensor | None:
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise SpecError(f"mask must be a boolean tensor (True = visible), got {_type(mask)}")
    try:
        return mask.broadcast_to(scores.shape)
    except RuntimeError:
        shapes = f"{tuple(mask.shape)} and {tuple(scores.shape)}"
        raise SpecError(f"mask does not broadcast to the scores, got shapes {shapes}") from None


def _per_head(bias: Tensor | float | None, scores: Tensor, chosen: Map) -> Tensor | None:
    """The bias as [head, 1, 1]."""
    if not chosen.takes_bias:
        if bias is not None:
            raise SpecError(f"map {chosen.name!r} takes no bias")
        return None
    if isinstance(bias, str):
        raise SpecError(f"bias must be one number or one per head, got {bias!r}")
    per_head = torch.as_tensor(0.0 if bias is None else bias, dtype=scores.dtype, device=scores.device)
    heads = scores.shape[-3]
    if per_head.dim() > 1 or per_head.numel() not in (1, heads):
        raise SpecError(f"bias must be one number or one per head ({heads}), got shape {tuple(per_head.shape)}")
    return per_head.expand(heads).reshape(heads, 1, 1)


def _feature_arguments(chosen: Map, mlp: nn.Module | None) -> dict[str, nn.Module]:
    if "mlp" in chosen.parameters:
        if mlp is None:
            raise SpecError(f"map {chosen.name!r} needs its feature network: attend(..., mlp=feature_mlp(d_h))")
        return {"mlp": mlp}
    if mlp is not None:
        raise SpecError(f"map {chosen.name!r} takes no mlp")
    return {}
