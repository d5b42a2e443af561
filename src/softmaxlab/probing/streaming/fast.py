"""Statistics from the log-sum-exp of a fused kernel, without computing any weight by itself.

With lse_i = log Σ_j e^{χ_ij}, and lse' = log(e^{lse} + e^b) when there is a learned sink of score b (else lse' = lse):

    w_i0 = exp(χ_i0 − lse')    total = e^{lse − lse'}    entropy = total·(lse' − scale·q_i·Σ_j p_ij k_j) − w_b log w_b

with p the softmax over the keys alone: the kernel's output with the keys in place of the values. torch's kernel for the
CPU gives the log-sum-exp; it is private, so where it is missing, or a mask or soft cap is in the way, the tiles of
`sums` serve instead.
"""

import torch
from torch import Tensor

from softmaxlab.probing.streaming.call import AttentionCall
from softmaxlab.probing.streaming.sums import Sums
from softmaxlab.probing.streaming.tracker import SequenceLayout

_KERNEL = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)


def fast_sums(call: AttentionCall, layout: SequenceLayout) -> tuple[Sums, Tensor, Tensor] | None:
    """Return the fast statistics as `sums_of` does; None if the kernel cannot serve this call."""
    if _KERNEL is None or not _serves(call, layout):
        return None
    q, k = call.q.float(), call.k.float().repeat_interleave(call.groups, dim=1)
    mean_key, lse = _KERNEL(q, k, k, 0.0, call.causal, scale=call.scale)
    read = call.scale * torch.einsum("bhqd,bhqd->bhq", q, mean_key)
    if call.sink is None:
        total, entropy = torch.ones_like(lse), lse - read
    else:
        b = call.sink.float()[:, None]
        whole = torch.logaddexp(lse, b)
        total = (lse - whole).exp()
        entropy, lse = total * (whole - read) + torch.special.entr((b - whole).exp()), whole
    first = torch.exp(call.scale * torch.einsum("bhqd,bhd->bhq", q, k[:, :, 0]) - lse)
    rows = {"sink": first / total, "entropy": entropy, "total": total, "sink_weight": first}
    sums = {name: row.sum(dim=-1).double() for name, row in rows.items()}
    queries = torch.full_like(sums["total"], lse.shape[-1])
    sums |= {"rows": queries, "queries": queries, "seen_first": queries[:, :1]}
    return sums, first, total


def _serves(call: AttentionCall, layout: SequenceLayout) -> bool:
    """Every query counts and sees the sequence's first token, which is the first key."""
    plain = call.cap is None and call.bias is None and call.mask is None and call.q.device.type == "cpu"
    return plain and bool(layout.counted.all()) and not layout.first.any()
