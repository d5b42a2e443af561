"""The starting points of the polarization paper's experiments (its Section 3 and Appendix F.1).

Each gives the fields of a problem. Without a seed they are the authors' own (authors.py). With a seed they are ours,
with d = p throughout and β*, V, a drawn apart: in the authors' notebook a reused seed makes the first row of V(0) of
Figure 13 parallel to β*.
"""

from typing import Any

import numpy as np

from softmaxlab.core import spec
from softmaxlab.core.random import generator
from softmaxlab.papers.polarization import authors

Fields = dict[str, Any]
Seed = spec.Seed | None  # of a figure: None is the authors' instance
SMALL = authors.SMALL  # size of V(0), and of a(0) round 1


def instance(seed: int | None) -> str:
    """Whose draw a picture shows."""
    return "the authors' instance" if seed is None else f"our instance, seed {seed}"


def classification(p: int, seed: int | None, norm: float = 1.0) -> Fields:
    """Figure 2: logistic loss, ‖β*‖ = norm, V ~ 0.1·N, a = 0; tokens in the order of u(0), so that 0 wins."""
    if seed is None:
        return authors.classification(p, norm)
    beta = norm * _unit(seed, p)
    V = SMALL * _normal(seed, "V", p, p)
    return {"loss": "logistic", "beta": beta, "V": V[:, np.argsort(-(beta @ V))], "a": np.zeros(p)}


def regression(p: int, seed: int | None, kappa: float) -> Fields:
    """Figures 3, 12: ‖β* − XVs‖², X with singular values from 1 to 1/κ, V ~ 1e-5·N, a ~ 1e-3·N.

    β* and the singular vectors are the same for every κ.
    """
    if seed is None:
        return authors.regression(p, kappa)
    left, right = (np.linalg.qr(_normal(seed, name, p, p))[0] for name in ("left", "right"))
    return {
        "loss": "regression",
        "beta": _normal(seed, "beta", p),
        "X": left * np.linspace(1.0, 1.0 / kappa, p) @ right.T,
        "V": 1e-5 * _normal(seed, "V", p, p),
        "a": 1e-3 * _normal(seed, "a", p),
    }


def prediction(p: int, seed: int | None, sharpness: float) -> Fields:
    """Figure 10: cross-entropy with p* = softmax(sharpness·U[0, 1]), V ~ 0.1·N, a = 0."""
    if seed is None:
        return authors.prediction(p, sharpness)
    log_target = sharpness * generator(seed, "target").random(p)
    target = np.exp(log_target - log_target.max())
    return {
        "loss": "cross_entropy",
        "target": target / target.sum(),
        "V": SMALL * _normal(seed, "V", p, p),
        "a": np.zeros(p),
    }


def tied(dim: int, seed: int | None) -> Fields:
    """Figure 11: logistic loss of U σ(U a), U = I, a = 1 + 0.1·N, ‖β*‖ = 1."""
    if seed is None:
        return authors.tied(dim)
    a = 1.0 + SMALL * _normal(seed, "a", dim)
    return {"loss": "logistic", "model": "tied", "beta": _unit(seed, dim), "U": np.eye(dim), "a": a}


def normalisation(p: int, seed: int | None, norm: float = 1.0) -> Fields:
    """Figure 13: ‖β*‖ = norm, V ~ 0.1·N, a = 1 + 0.1·N, for logistic and square loss and any map."""
    if seed is None:
        return authors.normalisation(p, norm)
    return {
        "beta": norm * _unit(seed, p),
        "V": SMALL * _normal(seed, "V", p, p),
        "a": 1.0 + SMALL * _normal(seed, "a", p),
    }


def along(p: int, seed: int, norm: float) -> Fields:
    """V(0) ∥ β*, so that the square loss keeps its gradient along β* too: V ~ 0.1·N along β*, a ~ 0.1·N."""
    beta = _unit(seed, p)
    V = np.outer(beta, SMALL * _normal(seed, "V", p))
    return {"beta": norm * beta, "V": V, "a": SMALL * _normal(seed, "a", p)}


def _normal(seed: int, name: str, *shape: int) -> np.ndarray:
    return generator(seed, name).standard_normal(shape)


def _unit(seed: int, p: int) -> np.ndarray:
    beta = _normal(seed, "beta", p)
    return beta / np.linalg.norm(beta)
