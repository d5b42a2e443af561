"""The starting points that the paper's authors drew, by NumPy's legacy generator and in their order of draws.

The generator is frozen, so the arrays are theirs (tests/reference/polarization_descent.json). Figures 2, 3, 10 and 12
use seed 123 and one stream: V, a, then the rest. Figures 11 and 13 use seed 42 twice, once for V and a and once for β*,
so that the first row of that V is parallel to β* (an erratum).
"""

from typing import Any

import numpy as np

FIRST, SECOND = 123, 42  # their two seeds
SMALL = 0.1


def classification(p: int, norm: float = 1.0) -> dict[str, Any]:
    """Figure 2, with the tokens in the order of u(0)."""
    draw = np.random.RandomState(FIRST)
    V = SMALL * draw.randn(p, p)
    draw.randn(p)  # their a is 0 times this
    beta = draw.randn(p)
    beta *= norm / np.linalg.norm(beta)
    return {"loss": "logistic", "beta": beta, "V": V[:, np.argsort(-(beta @ V))], "a": np.zeros(p)}


def regression(p: int, kappa: float) -> dict[str, Any]:
    """Figures 3 and 12: the singular vectors of X are those of a matrix of Gaussian numbers."""
    draw = np.random.RandomState(FIRST)
    V, a = 1e-5 * draw.randn(p, p), 1e-3 * draw.randn(p)
    left, _, right = np.linalg.svd(draw.randn(p, p))
    X = left * np.linspace(1.0, 1.0 / kappa, p) @ right
    return {"loss": "regression", "beta": draw.randn(p), "X": X, "V": V, "a": a}


def prediction(p: int, sharpness: float) -> dict[str, Any]:
    """Figure 10. Their V is [token, class], ours the transpose."""
    draw = np.random.RandomState(FIRST)
    V = SMALL * draw.randn(p, p).T
    draw.randn(p)  # their a is 0 times this
    log_target = sharpness * draw.rand(p)
    target = np.exp(log_target - log_target.max())
    return {"loss": "cross_entropy", "target": target / target.sum(), "V": V, "a": np.zeros(p)}


def tied(dim: int) -> dict[str, Any]:
    """Figure 11: U = I; a comes after a matrix that is drawn and not used."""
    start = normalisation(dim)
    return {"loss": "logistic", "model": "tied", "beta": start["beta"], "U": np.eye(dim), "a": start["a"]}


def normalisation(p: int, norm: float = 1.0) -> dict[str, Any]:
    """Figure 13."""
    draw = np.random.RandomState(SECOND)
    V, a = SMALL * draw.randn(p, p), 1.0 + SMALL * draw.randn(p)
    beta = np.random.RandomState(SECOND).randn(p)
    return {"beta": norm * beta / np.linalg.norm(beta), "V": V, "a": a}
