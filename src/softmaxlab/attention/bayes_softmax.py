"""Bayes-softmax: w_hl = H e^{χ_hl + b_h} / Σ_{h',k} e^{χ_{h'k} + b_{h'}}, one normaliser for all heads of a query.

The mean over heads sums to 1 (specialization, eq. 4).
"""

from torch import Tensor

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import softmax


def bayes_softmax(scores: Tensor, visible: Tensor | None, bias: Tensor) -> Tensor:
    heads = scores.shape[-3]
    flat = softmax(_heads_beside_keys(scores + bias), None if visible is None else _heads_beside_keys(visible))
    return heads * flat.unflatten(-1, (heads, scores.shape[-1])).movedim(-2, -3)


def _heads_beside_keys(x: Tensor) -> Tensor:
    """[..., head, query, key] → [..., query, head·key]"""
    return x.movedim(-3, -2).flatten(-2)


MAPS = (
    Map(
        "bayes_softmax",
        bayes_softmax,
        non_negative=True,
        joint=True,
        parameters=("bias",),
        source="sagitova2026specialization",
    ),
)
