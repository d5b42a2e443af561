"""Maps of each score by itself, and their normalised forms.

    linear    χ                         linear_norm   w/max(|Σw|, 1)
    sum       χ/Σχ exactly, with f(x) = x in the polarization paper's σ_f. Singular at Σχ = 0: rows sum to 1, but
              weights may be negative, or huge near Σχ = 0; a row at exactly 0 attends nowhere, by convention
    relu      max(χ, 0)                 relu_norm     w/Σw; a row without a positive score attends nowhere
    square    χ²                        square_norm   w/Σw, the polarization paper's L2 normalisation
    abs       |χ|                       abs_norm      w/Σw, its L1 normalisation
    elu       elu(χ) + 1, that is χ + 1 above 0 and e^χ below, and elu_norm, w/Σw
    sigmoid   1/(1 + e^{−(χ + b)}), and sigmoid_norm, w/Σw
    uniform   every visible key weighs the same: a control that cannot learn where to look

`elu_norm` and `sigmoid_norm` are softmaxes of log w, which stay exact where w itself underflows.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from softmaxlab.attention.map import Map
from softmaxlab.attention.masking import hide, softmax


def linear(scores: Tensor) -> Tensor:
    return scores


def elu_plus_one(scores: Tensor) -> Tensor:
    # not elu(χ) + 1, which loses all digits of e^χ for χ ≪ 0; min(χ, 0) as a difference has slope 1 at 0
    above = torch.relu(scores)
    return (scores - above).exp() + above


def elu_norm(scores: Tensor, visible: Tensor | None) -> Tensor:
    log_w = torch.where(scores > 0, torch.where(scores > 0, scores, 0).log1p(), scores)
    return softmax(log_w, visible)


def sigmoid(scores: Tensor, bias: Tensor) -> Tensor:
    return torch.sigmoid(scores + bias)


def sigmoid_norm(scores: Tensor, visible: Tensor | None, bias: Tensor) -> Tensor:
    return softmax(logsigmoid(hide(scores, visible) + bias), visible)


def constant(scores: Tensor) -> Tensor:
    return torch.ones_like(scores)


_PAPER = "varre2026polarization"
_POSITIVE: dict[str, Any] = {"non_negative": True, "source": _PAPER}
_SIGMOID: dict[str, Any] = {"non_negative": True, "parameters": ("bias",), "source": "ramapuram2025sigmoid"}
MAPS = (
    Map("sigmoid", sigmoid, **_SIGMOID),
    Map("sigmoid_norm", sigmoid_norm, row_stochastic=True, **_SIGMOID),
    Map("elu", elu_plus_one, **_POSITIVE),
    Map("elu_norm", elu_norm, row_stochastic=True, **_POSITIVE),
    Map("linear", linear, source=_PAPER),
    Map("linear_norm", linear, normalise="bounded", source=_PAPER),
    Map("sum", linear, normalise="sum", row_stochastic=True, source=_PAPER),
    Map("relu", torch.relu, **_POSITIVE),
    Map("relu_norm", torch.relu, normalise="sum", **_POSITIVE),
    Map("square", torch.square, **_POSITIVE),
    Map("square_norm", torch.square, normalise="sum", row_stochastic=True, **_POSITIVE),
    Map("abs", torch.abs, **_POSITIVE),
    Map("abs_norm", torch.abs, normalise="sum", row_stochastic=True, **_POSITIVE),
    Map("uniform", constant, normalise="sum", non_negative=True, row_stochastic=True, shift_invariant=True),
)
