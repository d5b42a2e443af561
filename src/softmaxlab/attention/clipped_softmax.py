"""Clipped softmax: w = clip((ζ − γ) softmax(χ) + γ, 0, 1), which reaches 0 at finite scores.

With ζ = 1 the k keys that keep weight, of mass P under softmax, sum to (1 − γ)P + γk: 1 if one-hot, else less.
"""

from torch import Tensor

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import hide, softmax

GAMMA, ZETA = -0.03, 1.0  # the paper's choice for BERT: clip at 0 only


def clipped_softmax(scores: Tensor, visible: Tensor | None) -> Tensor:
    stretched = (ZETA - GAMMA) * softmax(scores, visible) + GAMMA
    return hide(stretched.clamp(0.0, 1.0), visible)


MAPS = (
    Map(
        "clipped_softmax",
        clipped_softmax,
        non_negative=True,
        shift_invariant=True,
        source="bondarenko2023quantizable",
    ),
)
