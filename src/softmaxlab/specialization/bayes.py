"""The best possible estimator: it knows the spikes and the prior, but not which token carries the signal.

    P(ε = l | X) = softmax_l of log ∫ exp(θ·χ*_l − |θ|²/2) P_θ(dθ),   ŷ = Σ_l P(ε = l | X) X_l          eqs. (15), (16)

χ*_l are the coordinates of token l in an orthonormal basis of the spikes, θ the signal's (θᵀ p θ for |θ|² at finite D).
The log-weight of a token is, for a discrete prior, log Σ_i P_i exp(θ^i·χ* − |θ^i|²/2); for θ ~ N(0, C) it is
½ χ*ᵀ C (I + C)⁻¹ χ* up to a constant; for others the integral is a mean over quasi-random θ, 2^10 up to two features
and up to 2^13 for more. That estimator is a little worse than the best, so the risk of such a prior is biased upwards:
by less than 1e-4 for Gaussian θ of variance 20 in up to five features, by some 2e-4 at variance 100.

Bayes-softmax heads with k_h = k̂(θ^h) and b_h = log P(θ^h) − |θ^h|²/2 are this estimator (Proposition IV.2, whose
printed bias is another: docs/errata.md).
"""

import numpy as np

from softmaxlab.core.threads import one_blas_thread
from softmaxlab.errors import SpecError
from softmaxlab.specialization.heads import forward, residual
from softmaxlab.specialization.order_parameters import OrderParameters
from softmaxlab.specialization.population import sets, standard_error
from softmaxlab.specialization.priors import Gaussian, Prior, checked_theta
from softmaxlab.specialization.problem import Problem
from softmaxlab.specialization.quasi_random import uniforms

THETA_POINTS = (10, 13)  # log2 of the values of θ for a continuous prior that is not Gaussian: 8 + F within these
BLOCK = 2**18  # scores taken at once, which stay in a core's cache

Support = tuple[np.ndarray, np.ndarray]  # values of θ [value, feature] and the logarithms of their probabilities


def log_weight(
    prior: Prior, chi: np.ndarray, L_p: np.ndarray | None = None, values: Support | None = None
) -> np.ndarray:
    """The Bayes estimator's score of tokens with coordinates χ* [feature, ...]; p = L_p L_pᵀ, I if not given.

    `values` may be given for speed: those of `support`.
    """
    L_p = np.eye(prior.features) if L_p is None else L_p
    if isinstance(prior, Gaussian):
        C = L_p.T @ prior.matrix() @ L_p
        shrunk = np.linalg.solve(np.eye(len(C)) + C, C)
        return 0.5 * (chi * np.tensordot(shrunk, chi, axes=1)).sum(axis=0)
    theta, log_P = values or support(prior)
    theta = theta @ L_p
    offset = log_P - 0.5 * (theta**2).sum(axis=1)
    flat = chi.reshape(len(chi), -1)
    width = max(1, BLOCK // len(theta))
    parts = [_log_sum(theta, offset, flat[:, i : i + width]) for i in range(0, flat.shape[1], width)]
    return np.concatenate(parts).reshape(chi.shape[1:])


def _log_sum(theta: np.ndarray, offset: np.ndarray, chi: np.ndarray) -> np.ndarray:
    """log Σ_i exp(θ^i·χ* + offset_i) of tokens χ* [feature, token]."""
    scores = theta @ chi
    scores += offset[:, None]
    top = scores.max(axis=0)
    scores -= top
    return top + np.log(np.exp(scores, out=scores).sum(axis=0))


def posterior(
    prior: Prior, chi: np.ndarray, L_p: np.ndarray | None = None, values: Support | None = None
) -> np.ndarray:
    """P(ε = l | X) [token, sample] for tokens with coordinates χ* [feature, token, sample]."""
    return forward("softmax", log_weight(prior, chi, L_p, values)[None], np.zeros(1), 1.0).w


@one_blas_thread()
def risk(model: Problem, samples: int, seed: int) -> tuple[float, float]:
    """E Σ_l (P(ε = l | X) − δ_{l,ε})² and its standard error."""
    values = None if isinstance(model.prior, Gaussian) else support(model.prior)

    def loss(X: np.ndarray, weight: np.ndarray) -> float:
        res = residual(posterior(model.prior, X[: model.features], values=values))
        return float((res**2).sum(axis=0) @ weight)

    drawn_sets = sets(model, samples, seed, "bayes risk")
    return standard_error([sum(loss(X, weight) for X, weight in drawn.chunks) for drawn in drawn_sets])


def bayes_softmax_parameters(prior: Prior) -> OrderParameters:
    """The order parameters with which Bayes-softmax, one head for each atom of the prior, is the Bayes estimator."""
    if prior.atoms() is None:
        raise SpecError(f"{type(prior).__name__} has no atoms; a head for each needs a discrete prior")
    theta, log_P = support(prior)
    H = len(theta)
    return OrderParameters(m=theta, r=np.zeros((H, H)), b=log_P - 0.5 * (theta**2).sum(axis=1))


def support(prior: Prior) -> Support:
    """The atoms of a prior, or quasi-random values of θ that stand for it."""
    atoms = prior.atoms()
    if atoms is not None:
        return atoms[0], np.log(atoms[1])
    fewest, most = THETA_POINTS
    theta = checked_theta(prior, uniforms(prior.features, min(max(8 + prior.features, fewest), most), seed=0))
    return theta, np.full(len(theta), -np.log(len(theta)))
