"""Softmax and its relatives.

softmax           w_l = e^{χ_l} / Σ_k e^{χ_k}
softmax1          w_l = e^{χ_l} / (e^b + Σ_k e^{χ_k}), with a bias b per head: softmax with one more key, of score
                  b, whose weight is thrown away, so a head can attend nowhere
bayes_softmax     w_hl = H e^{χ_hl + b_h} / Σ_{h',k} e^{χ_{h'k} + b_{h'}}, one normaliser for all heads of a query:
                  the mean over heads sums to 1 (specialization, eq. 4)
clipped_softmax   w = clip((ζ − γ) softmax(χ) + γ, 0, 1), which reaches 0 at finite scores. With ζ = 1 the k keys
                  that keep weight, of mass P under softmax, sum to (1 − γ)P + γk: 1 if one-hot, else less
"""

import torch
from torch import Tensor

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import hide, softmax, softmax_of_all

GAMMA, ZETA = -0.03, 1.0  # of clipped softmax; its paper's choice for BERT: clip at 0 only


def softmax1(scores: Tensor, visible: Tensor | None, bias: Tensor) -> Tensor:
    nowhere = bias.expand(*scores.shape[:-1], 1)
    logits = torch.cat([hide(scores, visible, -torch.inf), nowhere], dim=-1)
    return softmax_of_all(logits)[..., :-1]


def bayes_softmax(scores: Tensor, visible: Tensor | None, bias: Tensor) -> Tensor:
    heads = scores.shape[-3]
    flat = softmax(_heads_beside_keys(scores + bias), None if visible is None else _heads_beside_keys(visible))
    return heads * flat.unflatten(-1, (heads, scores.shape[-1])).movedim(-2, -3)


def _heads_beside_keys(x: Tensor) -> Tensor:
    """[..., head, query, key] → [..., query, head·key]"""
    return x.movedim(-3, -2).flatten(-2)


def clipped_softmax(scores: Tensor, visible: Tensor | None) -> Tensor:
    stretched = (ZETA - GAMMA) * softmax(scores, visible) + GAMMA
    return hide(stretched.clamp(0.0, 1.0), visible)


_PAPER = "sagitova2026specialization"
MAPS = (
    Map(
        "softmax", softmax, non_negative=True, row_stochastic=True, shift_invariant=True, source="vaswani2017attention"
    ),
    Map("softmax1", softmax1, non_negative=True, parameters=("bias",), source=_PAPER),
    Map("bayes_softmax", bayes_softmax, non_negative=True, joint=True, parameters=("bias",), source=_PAPER),
    Map(
        "clipped_softmax",
        clipped_softmax,
        non_negative=True,
        shift_invariant=True,
        source="bondarenko2023quantizable",
    ),
)
