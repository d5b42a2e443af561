"""The best possible estimator: it knows the spikes and the prior, but not which token carries the signal.

    P(ε = l | X) = softmax_l of log ∫ exp(θ·χ*_l − |θ|²/2) P_θ(dθ),   ŷ = Σ_l P(ε = l | X) X_l          eqs. (15), (16)

χ*_l are the coordinates of token l in an orthonormal basis of the spikes, θ the signal's (θᵀ p θ for |θ|² at finite D).
The log-weight of a token is, for a discrete prior, log Σ_i P_i exp(θ^i·χ* − |θ^i|²/2); for θ ~ N(0, C) it is
½ χ*ᵀ C (I + C)⁻¹ χ* up to a constant; for others the integral is a mean over quasi-random θ.

Bayes-softmax heads with k_h = k̂(θ^h) and b_h = log P(θ^h) − |θ^h|²/2 are this estimator (Proposition IV.2, whose
printed bias is another: docs/errata.md).
"""

import numpy as np

from softmaxlab.core.threads import one_blas_thread
from softmaxlab.errors import SpecError
from softmaxlab.specialization.heads import forward
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order import OrderParameters
from softmaxlab.specialization.population import standard_error
from softmaxlab.specialization.priors import Gaussian, Prior, uniforms
from softmaxlab.specialization.sampling import symmetric

SETS = 8  # independent sets of samples, for the standard error
THETA_POINTS = 10  # log2 of the values of θ that stand for a continuous prior that is not Gaussian


def log_weight(prior: Prior, chi: np.ndarray, L_p: np.ndarray | None = None) -> np.ndarray:
    """The Bayes estimator's score of tokens with coordinates χ* [feature, ...]; p = L_p L_pᵀ, I if not given."""
    L_p = np.eye(prior.features) if L_p is None else L_p
    if isinstance(prior, Gaussian):
        C = L_p.T @ prior.matrix() @ L_p
        shrunk = np.linalg.solve(np.eye(len(C)) + C, C)
        return 0.5 * (chi * np.tensordot(shrunk, chi, axes=1)).sum(axis=0)
    theta, log_P = _support(prior)
    theta = theta @ L_p
    offset = log_P - 0.5 * (theta**2).sum(axis=1)
    scores = np.tensordot(theta, chi, axes=1) + offset.reshape(-1, *[1] * (chi.ndim - 1))
    top = scores.max(axis=0)
    return top + np.log(np.exp(scores - top).sum(axis=0))


def posterior(prior: Prior, chi: np.ndarray, L_p: np.ndarray | None = None) -> np.ndarray:
    """P(ε = l | X) [token, sample] for tokens with coordinates χ* [feature, token, sample]."""
    return forward("softmax", log_weight(prior, chi, L_p)[None], np.zeros(1), 1.0).w


@one_blas_thread()
def risk(model: SingleLocation, samples: int, seed: int) -> tuple[float, float]:
    """E Σ_l (P(ε = l | X) − δ_{l,ε})² and its standard error."""
    losses = []
    for k in range(SETS):
        drawn = symmetric(model, samples, (seed, "bayes risk", k))
        losses.append(sum(_loss(model, X, weight) for X, weight in drawn.chunks))
    return standard_error(losses)


def _loss(model: SingleLocation, X: np.ndarray, weight: np.ndarray) -> float:
    res = posterior(model.prior, X[: model.features])
    res[0] -= 1
    return float((res**2).sum(axis=0) @ weight)


def bayes_softmax_parameters(prior: Prior) -> OrderParameters:
    """The order parameters with which Bayes-softmax, one head for each atom of the prior, is the Bayes estimator."""
    if prior.atoms() is None:
        raise SpecError(f"{type(prior).__name__} has no atoms; a head for each needs a discrete prior")
    theta, log_P = _support(prior)
    H = len(theta)
    return OrderParameters(m=theta, r=np.zeros((H, H)), b=log_P - 0.5 * (theta**2).sum(axis=1))


def _support(prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Values of θ [atom, feature] and the logarithms of their probabilities."""
    found = prior.atoms()
    if found is not None:
        return found[0], np.log(found[1])
    theta = prior.theta(uniforms(prior.features, THETA_POINTS, seed=0))
    return theta, np.full(len(theta), -np.log(len(theta)))
