"""The window of learning rates at which Adam loses the flow's winner: a formula, derived in docs/studies.

With p tokens, ‖β*‖ = 1 and V(0) ~ scale·N, drives start scale apart and Adam moves each of them by about lr·c a step,
c = ‖β*‖₁ ≈ √(2p/π). Times are in x = lr·steps, in which scores move at speed 1, so that Adam's memories are
ℓ₁ = lr/(1−β₁) and ℓ₂ = lr/(1−β₂).
"""

import math

# by least squares of the logarithms of the boundaries found at these p, scale 0.01, 0.03 and 0.1
FITTED = (4, 8)
LOWER = 1.46  # A of `lower`
UPPER = 2.97  # ℓ₁ of the upper boundary at p = 8 for scale → 0
POWER = 1.86  # of p in it
CLOSED = 0.082  # scale/c from which on there is no window
POLARIZES = 0.35  # the lr beyond which runs at p = 8 no longer end one-hot: none was found above it at 4 and 8


def spread(p: int) -> float:
    """c = E‖β*‖₁ for a random direction, to leading order in p."""
    return math.sqrt(2.0 * p / math.pi)


def window(p: int, scale: float, beta1: float = 0.9, beta2: float = 0.999) -> tuple[float, float] | None:
    """The learning rates between which Adam mostly picks another winner than the flow; None if there are none."""
    if scale / spread(p) >= CLOSED:
        return None
    edges = lower(p, scale, beta2), upper(p, scale, beta1)
    return edges if edges[0] < edges[1] else None


def lower(p: int, scale: float, beta2: float) -> float:
    """ℓ₂² c log(1 + cℓ₂p/scale) = A·scale·√(2 log p), whose left side increases with ℓ₂: the root in log ℓ₂."""
    from scipy.optimize import brentq

    c = spread(p)
    needed = LOWER * scale * math.sqrt(2.0 * math.log(p))

    def excess(y: float) -> float:
        return math.exp(2.0 * y) * c * math.log1p(c * math.exp(y) * p / scale) / needed - 1.0

    return (1.0 - beta2) * math.exp(brentq(excess, -300.0, 7.0))  # type: ignore[arg-type]


def upper(p: int, scale: float, beta1: float) -> float:
    """ℓ₁ = UPPER·(p/8)^POWER·(1 − scale/(CLOSED·c))²."""
    memory = UPPER * (p / 8) ** POWER * (1.0 - scale / (CLOSED * spread(p))) ** 2
    return min((1.0 - beta1) * memory, POLARIZES)
