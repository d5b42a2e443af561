"""
Check an attention kernel
=========================

``check_attention`` compares values and gradients of a kernel with the dense definition of its map in float64, over
masks, rows that see nothing, large offsets of the scores, grouped heads and types. Here: torch's SDPA, FlexAttention,
and a softmax-1 that lost its sink.
"""

import sys
import warnings

import matplotlib.pyplot as plt
import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

import softmaxlab as sl

torch.set_num_threads(1)


def sdpa(q, k, v, mask, bias):
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=k.shape[1] < q.shape[1])


right = sl.attention.check_attention(sdpa, "softmax")
print(f"SDPA: {right['ok'].sum()} of {len(right)} tensors right")
print(right.groupby("dtype")["error"].max())

# %%
# FlexAttention, with the mask as a modification of the scores. It has no gradients on the CPU. It is not compiled here,
# which would need a compiler; torch's warning is about speed and memory only.

warnings.filterwarnings("ignore", "flex_attention called without torch.compile", UserWarning)


def flex(q, k, v, mask, bias):
    def hide(score, b, h, i, j):
        return score if mask is None else torch.where(mask[b, 0, i, j], score, -float("inf"))

    return flex_attention(q, k, v, score_mod=hide, enable_gqa=k.shape[1] < q.shape[1])


table = sl.attention.check_attention(flex, "softmax", dtypes=[torch.float32], gradients=False)
print(table[["case", "error", "ok", "note"]].to_string(index=False))

# %%
# softmax-1 has a sink e^b in the denominator. This one forgot it. Every case is wrong but the one whose scores are so
# large that the sink has no weight.


def sinkless(q, k, v, mask, bias):
    return sdpa(q, k, v, mask, None)


table = sl.attention.check_attention(sinkless, "softmax1", dtypes=[torch.float32])
worst = table.sort_values("error").groupby("case", sort=False).last()
print(worst[["tensor", "error", "ok"]])
assert not table["ok"].all()

# %%
# The largest error of each case in float32: rounding on the left, a wrong kernel on the right.
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
rounding = right[right["dtype"] == "float32"].groupby("case", sort=False)["error"].max()
ax.plot(rounding.to_numpy(), rounding.index, "C0o", label="SDPA as softmax")
ax.plot(worst["error"].to_numpy(), worst.index, "C3x", label="softmax-1 without its sink")
ax.set(xscale="log", xlabel="largest error")
ax.legend()

if __name__ == "__main__" and len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
