"""Any map in any model the plain way: scores, mask, all weights, values, and nothing else."""

from contextlib import contextmanager

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from softmaxlab.attention import MAPS, weights
from softmaxlab.attention.maps.elementwise import elu_plus_one
from tests.probing.families import FAMILIES


def tiny(name: str):
    """A random model whose heads differ; its scores stay moderate, so that a bias of −30 is below all of them."""
    torch.manual_seed(1)
    model = FAMILIES[name].build().eval()
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith("sinks"):
                parameter.normal_()
            elif parameter.dim() > 1 and name != "t5":  # whose scores are not scaled down, and large already
                parameter.mul_(4)
    return model


@contextmanager
def plain(model, map: str, bias=None):
    """`model` with the reference in place of its attention."""
    own = model.config._attn_implementation
    AttentionInterface.register("plain", lambda *args, **options: _attend(map, bias, *args, **options))
    AttentionMaskInterface.register("plain", sdpa_mask)
    model.set_attn_implementation("plain")
    try:
        yield model
    finally:
        model.set_attn_implementation(own)


def _attend(map, bias, module, q, k, v, mask, *, scaling, softcap=None, position_bias=None, s_aux=None, **_):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    T_q, T_k = q.shape[2], k.shape[2]
    if mask is None:
        mask = torch.ones(T_q, T_k, dtype=torch.bool)
        mask = mask.tril() if module.is_causal and T_q > 1 else mask
    visible = mask.expand(*q.shape[:2], T_q, T_k)
    if MAPS[map].features is not None:
        return _features(map, q, k, v, visible, scaling), None
    scores = q @ k.transpose(-1, -2) * scaling
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if position_bias is not None:
        scores = scores + position_bias
    if s_aux is not None:
        scores = torch.cat([scores, s_aux[:, None, None].expand(*scores.shape[:-1], 1)], dim=-1)
        visible = torch.cat([visible, torch.ones_like(visible[..., :1])], dim=-1)
    w = weights(map, scores, mask=visible, bias=bias)[..., :T_k]
    return (w @ v).transpose(1, 2).contiguous(), None


def _features(map, q, k, v, visible, scaling):
    w = (elu_plus_one(q) @ elu_plus_one(k).transpose(-1, -2) * scaling).masked_fill(~visible, 0.0)
    if map == "elu_elu_norm":
        w = w / w.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return (w @ v).transpose(1, 2).contiguous()
