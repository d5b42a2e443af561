"""Attention between shared rows on the CPU, any map of scores or features (its sums: compiled/prefix_attention.py)."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from softmaxlab.attention.attend import weights_of_products
from softmaxlab.attention.masking import hide
from softmaxlab.errors import SpecError
from softmaxlab.training.compiled import prefix_attention as compiled

# Measured at 12 keys and one thread (benchmarks/training.py), and these keep it near there: the loops use one thread,
# and matrix products do better the longer the rows.
LONGEST, THREADS = 32, 4  # keys, threads
REGISTER = 16  # floats: torch's softmax is ten times slower in rows that do not fill registers


def pays_off(rows: Tensor, index: Tensor) -> bool:
    """Whether the compiled loops are faster than torch's products."""
    fitting = rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)
    fitting &= not torch.is_autocast_enabled("cpu")  # its products are of other types
    return fitting and index.shape[1] <= LONGEST and torch.get_num_threads() <= THREADS


def attend_rows(
    map: str, q: Tensor, k: Tensor, v: Tensor, heads: int, index: Tensor, place: Tensor, bias: Tensor | None
) -> Tensor:
    """Causal attention [P, H·d_h] at the places of rows q, k, v [R, H·d_h] that stand at index [B, T].

    Differentiable once, and not by torch.func.
    """
    if place.max() >= index.numel() or index.max() >= len(k) or min(place.min(), index.min()) < 0:
        raise SpecError(f"places and rows must be among {index.numel()} and {len(k)}")  # the loops do not look
    T = index.shape[1]
    # a map of the user's may read how many keys there are, so only rows of softmax are made longer
    keys = torch.arange(-(-T // REGISTER) * REGISTER if map == "softmax" else T)
    visible = (keys <= (place % T)[:, None])[:, None, None]  # [P, 1, 1, keys]
    a = _Scores.apply(q, k, heads, index, place, len(keys))[:, :, None]
    if map == "softmax":  # every query sees a key
        w = torch.softmax(hide(a, visible, -torch.inf), dim=-1)
    else:
        w = weights_of_products(map, a, visible, bias)
    return _Mixed.apply(w[:, :, 0], v, index, place)


def load() -> None:
    """Have the loops compiled, or read from disk."""
    x, place = torch.zeros(1, 1, requires_grad=True), torch.zeros(1, dtype=torch.long)
    attend_rows("softmax", x, x, x, 1, place[None], place, None).sum().backward()


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, heads, index, place, keys):
        a = q.new_zeros(len(place), heads, keys)
        compiled.scores(*_arrays(q, k, index, place, a))
        ctx.save_for_backward(q, k, index, place)
        return a

    @staticmethod
    @once_differentiable
    def backward(ctx, da):
        q, k, index, place = ctx.saved_tensors
        dq, dk = q.new_zeros(q.shape), k.new_zeros(k.shape)
        compiled.scores_backward(*_arrays(da, q, k, index, place, dq, dk))
        return dq, dk, None, None, None, None


class _Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, v, index, place):
        out = v.new_zeros(len(place), v.shape[1])
        compiled.mixed(*_arrays(w, v, index, place, out))
        ctx.save_for_backward(w, v, index, place)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        w, v, index, place = ctx.saved_tensors
        dw, dv = w.new_zeros(w.shape), v.new_zeros(v.shape)
        compiled.mixed_backward(*_arrays(dout, w, v, index, place, dw, dv))
        return dw, dv, None, None


def _arrays(*tensors: Tensor):
    return (tensor.detach().contiguous().numpy() for tensor in tensors)
