"""Softmax: w_l = e^{χ_l} / Σ_k e^{χ_k}."""

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import softmax

MAPS = (
    Map(
        "softmax", softmax, non_negative=True, row_stochastic=True, shift_invariant=True, source="vaswani2017attention"
    ),
)
