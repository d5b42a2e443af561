"""Softmax-1 before its heads specialise: b̃ and v at m = r = 0 (Lemma A.4), and the fixed point the flow selects.

With s = 1/(L + e^b̃), every head alike, and the gradient of one head's own bias (eq. 33 is this one; that of b̃ is H
times larger):

    ∂Ẽ/∂b_h = −2 (L v s − 1) (v/H) e^b̃ s²,   ∂Ẽ/∂v = 2 (L v s − 1) s                                   eqs. (33), (34)

The fixed points fill the curve L v = L + e^b̃. Which one is reached follows from a conserved quantity (ours). Proof:
along the flow db̃/dv = −(v/H) e^b̃ s = −(v/H)/(1 + L e^−b̃), so (1 + L e^−b̃) db̃ + (v/H) dv = 0, the differential of

    I(b̃, v) = b̃ − L e^−b̃ + v²/(2H)

On the curve I grows with b̃ from −∞ to ∞, so that exactly one fixed point has the I of the start b̃ = 0, v = 1.
"""

import math
from typing import Any

import numpy as np

from softmaxlab.errors import SpecError

MOST = 10**6  # heads and tokens
STEEPEST, LARGEST = 300.0, 1e50  # |b| and |v|: the exponentials and squares below are finite


def conserved_quantity(heads: int, length: int, b: float, v: float) -> float:
    """I(b̃, v), constant along the flow of softmax-1 at m = r = 0."""
    _check(heads, length, b, v)
    return _conserved(heads, length, b, v)


def _conserved(heads: int, length: int, b: float, v: float) -> float:
    return b - length * math.exp(-b) + v**2 / (2 * heads)


def softmax1_gradient(heads: int, length: int, b: float, v: float) -> tuple[float, float]:
    """∂Ẽ/∂b_h of any one head, and ∂Ẽ/∂v, at m = r = 0 and every b_h = b."""
    _check(heads, length, b, v)
    s = 1 / (length + math.exp(b))
    excess = length * v * s - 1
    return -2 * excess * v / heads * math.exp(b) * s**2, 2 * excess * s


def gain_on_curve(length: int, b: float) -> float:
    """v with L v = L + e^b: the weights then sum to one at m = r = 0."""
    if not b <= STEEPEST or length < 1:
        raise SpecError(f"b must be at most {STEEPEST:g} and length at least 1, got {b!r} and {length!r}")
    return 1 + math.exp(b) / length


def unspecialised_fixed_point(heads: int, length: int, b: float = 0.0, v: float = 1.0) -> tuple[float, float]:
    """(b̃, v) that the flow of softmax-1 reaches at m = r = 0 from a start (b, v), by default the paper's."""
    from scipy.optimize import brentq

    _check(heads, length, b, v)
    start = _conserved(heads, length, b, v)

    def difference(at: float) -> float:
        return _conserved(heads, length, at, gain_on_curve(length, at)) - start

    low, high = -1.0, 1.0
    while difference(low) > 0:
        low *= 2
    while difference(high) < 0:
        high *= 2
    tightest = 4 * np.finfo(np.float64).eps  # that brentq takes
    root: Any = brentq(difference, low, high, xtol=1e-15, rtol=tightest)
    return float(root), gain_on_curve(length, float(root))


def _check(heads: int, length: int, b: float, v: float) -> None:
    for name, count in (("heads", heads), ("length", length)):
        if not isinstance(count, (int, np.integer)) or not 1 <= count <= MOST:
            raise SpecError(f"{name} must be a whole number from 1 to {MOST}, got {count!r}")
    for name, value, largest in (("b", b, STEEPEST), ("v", v, LARGEST)):
        if not abs(value) <= largest:
            raise SpecError(f"{name} must be from {-largest:g} to {largest:g}, got {value!r}")
