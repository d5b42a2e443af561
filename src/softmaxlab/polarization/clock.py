"""Time from strength: t = ∫ dΓ/γ = ∫ (1 + e^m) dΓ for the logistic loss, in the logarithm, since e^m is beyond floats.

With δ = m − log(1 + t):   dδ/dΓ = m′ − e^δ (1 + e^{−m}),   m′ = dm/dΓ = ‖∇m‖²,   δ(0) = m(0).

δ relaxes within ΔΓ ~ 1/m′ to log m′, which is the rule log t ≈ m − log m′. Solving for it keeps the rest as well. Over
a long orbit this relaxation is immediate, so the solver is implicit; it is one equation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from softmaxlab.polarization.field import Field

Pieces = Sequence[tuple[float, Callable, Any]]  # of each step: its end, its interpolant, the mode of the map


def log_time(field: Field, pieces: Pieces, strength: np.ndarray, m: np.ndarray, rtol: float) -> np.ndarray:
    """log t at each strength, where the margin is m; −inf at strength 0. `field` is that of the linear loss."""
    from scipy.integrate import solve_ivp

    if len(strength) < 2:
        return np.full(len(strength), -np.inf)
    ends = np.array([end for end, _, _ in pieces])

    def orbit(x: float) -> tuple[float, float]:
        """m and dm/dΓ at x = log(1 + Γ)."""
        _, dense, field.kinks = pieces[min(int(np.searchsorted(ends, x)), len(pieces) - 1)]
        return field.margin(dense(x))

    def slope(x: float, delta: np.ndarray) -> np.ndarray:
        margin, growth = orbit(x)
        return np.exp(x) * (growth - np.exp(delta) * (1.0 + np.exp(-margin)))

    def jacobian(x: float, delta: np.ndarray) -> np.ndarray:
        return -np.exp(x + delta)[:, None] * (1.0 + np.exp(-orbit(x)[0]))

    x = np.log1p(strength)
    with np.errstate(over="ignore"):
        delta = solve_ivp(slope, (x[0], x[-1]), m[:1], "LSODA", x, rtol=rtol, atol=rtol, jac=jacobian).y[0]
    log_1p = m[1:] - delta[1:]
    return np.concatenate([[-np.inf], log_1p + np.log(-np.expm1(-log_1p))])
