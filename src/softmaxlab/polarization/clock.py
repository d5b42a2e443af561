"""Time from strength: t = ∫ dΓ/γ = ∫ (1 + e^m) dΓ for the logistic loss, in the logarithm, since e^m is beyond floats.

With δ = m − log(1 + t):   dδ/dΓ = m′ − e^δ (1 + e^{−m}),   m′ = dm/dΓ = ‖∇m‖²,   δ(0) = m(0).

δ relaxes within ΔΓ ~ 1/m′ to log m′, which is the rule log t ≈ m − log m′. Solving for it keeps the rest as well. Over
a long orbit this relaxation is immediate, so the solver is implicit; it is one equation.
"""

from collections.abc import Callable, Sequence

import numpy as np

from softmaxlab.polarization.field import Field
from softmaxlab.polarization.losses import Linear
from softmaxlab.polarization.problem import Problem


def log_time(
    problem: Problem,
    field: Field,
    pieces: Sequence[tuple[float, Callable]],
    strength: np.ndarray,
    m: np.ndarray,
    rtol: float,
) -> np.ndarray:
    """log t at each strength, where the margin is m; −inf at strength 0."""
    from scipy.integrate import solve_ivp

    orbit = _orbit(problem, field, pieces)

    def slope(x: float, delta: np.ndarray) -> np.ndarray:
        m, growth = orbit(x)
        return np.exp(x) * (growth - np.exp(delta) * (1.0 + np.exp(-m)))

    def jacobian(x: float, delta: np.ndarray) -> np.ndarray:
        return -np.exp(x + delta) * (1.0 + np.exp(-orbit(x)[0]))[:, None]

    x = np.log1p(strength)
    with np.errstate(over="ignore"):
        delta = solve_ivp(slope, (x[0], x[-1]), m[:1], "LSODA", x, rtol=rtol, atol=rtol, jac=jacobian).y[0]
    log_1p = m[1:] - delta[1:]
    return np.concatenate([[-np.inf], log_1p + np.log(-np.expm1(-log_1p))])


def _orbit(
    problem: Problem, field: Field, pieces: Sequence[tuple[float, Callable]]
) -> Callable[[float], tuple[np.ndarray, np.ndarray]]:
    """m and dm/dΓ, each as an array of one, at x = log(1 + Γ), from the steps' interpolants."""
    ends = np.array([end for end, _ in pieces])
    model, map = problem.model_of(), problem.map_of()
    loss = Linear(problem.given("beta"))
    moving = field.places.keys()

    def at(x: float) -> tuple[np.ndarray, np.ndarray]:
        dense = pieces[min(int(np.searchsorted(ends, x)), len(pieces) - 1)][1]
        parameters = {name: rows[0] for name, rows in field.parameters(dense(x)[None]).items()}
        m = -model.loss(loss, model.forward(map, parameters)[1])
        velocity = model.velocity(loss, map, parameters)
        return np.atleast_1d(m), np.atleast_1d(sum(np.square(velocity[name]).sum() for name in moving))

    return at
