"""The paper's reduced equations, written out for softmax and integrated apart from the engine, to check it against.

    a′ = γ J u,   u′ = γ b s,   s = softmax(a),   J = diag(s) − ssᵀ,   b = ‖β*‖²

with γ(m) of the loss, m = ⟨u, s⟩: (6), (7) for logistic, (9), (10) for square. γ = 1 makes Γ the clock.
"""

from collections.abc import Callable

import numpy as np

from softmaxlab.papers.polarization.problems import Fields

Speed = Callable[[float], float]


def integrated(fields: Fields, gamma: Speed, end: float) -> tuple[np.ndarray, np.ndarray]:
    """a and u at `end`, by scipy's Runge-Kutta method of order 8."""
    from scipy.integrate import solve_ivp

    y, velocity = _equations(fields, gamma)
    run = solve_ivp(lambda _, y: velocity(y), (0.0, end), y, method="DOP853", rtol=1e-12, atol=1e-14)
    a, u = np.split(run.y[:, -1], 2)
    return a, u


def descended(fields: Fields, gamma: Speed, lr: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """a and u after steps of size lr. Steps of V reduce to steps of u, since u is linear in V."""
    y, velocity = _equations(fields, gamma)
    for _ in range(steps):
        y = y + lr * velocity(y)
    a, u = np.split(y, 2)
    return a, u


def _equations(fields: Fields, gamma: Speed) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    beta = fields["beta"]
    b = beta @ beta

    def velocity(y: np.ndarray) -> np.ndarray:
        a, u = np.split(y, 2)
        s = np.exp(a - a.max())
        s /= s.sum()
        m = s @ u
        return gamma(m) * np.concatenate([s * (u - m), b * s])

    return np.concatenate([fields["a"], beta @ fields["V"]]), velocity
