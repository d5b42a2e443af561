"""Where weight decay λ stops polarization: fixed points of descent on the logistic loss plus λ(‖V‖² + ‖a‖²)/2.

    0 = γ b s − λ u,   0 = γ J u − λ a   ⇒   u = g b s,   a = g² b J s   with g = γ/λ,   γ = 1/(1 + e^m),   m = g b ‖s‖²

So the scores are functions of the weights. With weight x on the winner, y = (1−x)/(p−1) on each loser and n = ‖s‖²,
log(x/y) = a_0 − a_1 gives g, and g gives λ:

    g² = log(x/y)/(b [x(x − n) − y(y − n)]),     λ(x) = 1/(g (1 + e^{g b n}))

λ(x) falls from its largest value to 0 as x → 1. Uniform weights are a solution for every λ. There u and a move away
together at the rate γ√b/p − λ, which changes sign at m = √b, λ = √b/(p (1 + e^√b)): below it every start polarizes,
above it only a start that is polarized already may stay so.
"""

import numpy as np

LEAST = 1e-12  # of 1 − x; a smaller one belongs to a decay below 1e-1000
GRID = 4000  # weights among which the largest decay is looked for


def decay_at(x: np.ndarray, b: float, p: int) -> np.ndarray:
    """The weight decay with which descent stops at the winner's weight x, 1/p < x < 1."""
    y = (1.0 - x) / (p - 1)
    n = x * x + (p - 1) * y * y
    g = np.sqrt(np.log(x / y) / (b * (x * (x - n) - y * (y - n))))
    return np.exp(-np.log(g) - np.logaddexp(0.0, g * b * n))


def decayed_weight(decay: float, b: float, p: int) -> float:
    """The winner's weight where descent with this decay stops if it polarizes; 1/p if it cannot."""
    from scipy.optimize import brentq

    x = 1.0 - np.geomspace(LEAST, 1.0 - 1.0 / p, GRID)[:-1]
    possible = decay_at(x, b, p)
    best = int(possible.argmax())
    if decay > possible[best]:
        return 1.0 / p
    return float(brentq(lambda at: decay_at(at, b, p) - decay, x[best], x[0], xtol=1e-15))  # type: ignore[arg-type]


def uniform_decay(b: float, p: int) -> float:
    """The weight decay above which uniform weights are stable."""
    return float(np.sqrt(b) / (p * (1.0 + np.exp(np.sqrt(b)))))
