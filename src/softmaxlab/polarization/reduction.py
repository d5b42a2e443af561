"""The exact reduction of V to u = Vᵀβ*, for losses whose gradient stays along β*.

If ∇ℓ(V s) = −γ β*, then V′ = γ β* sᵀ: V moves along β* only, and V(t) = V(0) + β* (u(t) − u(0))ᵀ/b with b = ‖β*‖².
Turning the axes so that β* = (√b, 0, …, 0), the first row of V is uᵀ/√b and the others never move: the problem with
V = uᵀ/√b [1, p] and β* = (√b) is the same problem. So it holds for losses of ⟨β*, β⟩ alone, as logistic, and for square
when V(0) ∥ β* (otherwise β leaves the line of β*); in the matrix model too, but not in the tied one, whose U also makes
the scores.
"""

from typing import TypeVar

import numpy as np

from softmaxlab.polarization.losses import LOSSES
from softmaxlab.polarization.problem import Problem
from softmaxlab.polarization.record import too_large

PARALLEL = 1e-14  # part of V(0) across β*, relative, that is rounding

P = TypeVar("P", bound=Problem)


def is_aligned(problem: Problem) -> bool:
    """Whether the gradient stays along β*."""
    if problem.model == "tied":
        return False
    return LOSSES[problem.loss].along_beta or (problem.loss == "square" and _is_parallel(problem))


def reduced(problem: P) -> P:
    """The same problem with one feature, or the problem itself if it does not reduce."""
    if not is_aligned(problem):
        return problem
    beta = problem.given("beta")
    norm = np.linalg.norm(beta)
    V = (_values(problem) @ beta / norm)[:, None]
    return problem.replace(beta=np.array([norm]), V=V if problem.model == "matrix" else V.T)


def rebuilt(problem: Problem, u: np.ndarray) -> np.ndarray:
    """V over time from u [t, token]; its two ends if all of it is too large."""
    beta, V0 = problem.given("beta"), problem.given("V")
    moved = u - _values(problem) @ beta
    if too_large(V0, len(u)):
        moved = moved[[0, -1]]
    along = moved[:, :, None] * (beta / (beta @ beta))  # [t, token, feature]
    return V0 + (along if problem.model == "matrix" else np.swapaxes(along, 1, 2))


def _values(problem: Problem) -> np.ndarray:
    """V as [token, feature]."""
    return problem.given("V") if problem.model == "matrix" else problem.given("V").T


def _is_parallel(problem: Problem) -> bool:
    V, beta = _values(problem), problem.given("beta")
    across = V - np.outer(V @ beta, beta) / (beta @ beta)
    return bool(np.abs(across).max() <= PARALLEL * np.abs(V).max())
