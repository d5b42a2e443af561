"""Linear attention with ELU features: w = (elu(q) + 1)·(elu(k) + 1)/√d_h, and w/Σw."""

from typing import Any

from softmaxlab.attention.elu import elu_plus_one
from softmaxlab.attention.linear import linear
from softmaxlab.attention.map import Map

_FACTS: dict[str, Any] = {"features": elu_plus_one, "non_negative": True, "source": "katharopoulos2020transformers"}
MAPS = (
    Map("elu_elu", linear, **_FACTS),
    Map("elu_elu_norm", linear, normalise="sum", row_stochastic=True, **_FACTS),
)
