"""Escape from the unspecialised state: its rates, and the growth they add up to along a path.

At m = r = 0, for u ⟂ 1_H and an eigenvector s of Cov θ projected orthogonally to E θ, of eigenvalue λ (Var θ_f if Cov θ
is diagonal), |u| = |s| = 1, with the c of coefficients.py,

    rate = −∇² Ẽ(u ⊗ s, u ⊗ s) = 2 (c3 + c4) λ − 2 c0

Along the way the rate is −∇² Ẽ(u ⊗ s, u ⊗ s) at x(τ), r(τ). A split of size δ grows to δ exp ∫ rate dτ. It starts at
δ ~ D^(−1/2), so the specialization time τ_s solves ∫ rate = ½ log D + constant: dτ_s/d log D = 1/(2 rate(τ_s)).

The second derivative of a sample's loss along δχ = (u ⊗ s) X is exact. All three maps are exponential families: with P
the weights within a head (Bayes-softmax: within all heads; softmax-1: with a null token of δχ = 0), μ and V the mean
and variance of δχ under P, and w = g Σ_h P_h,

    w' = g Σ_h P_h (δχ_h − μ_h),   w'' = g Σ_h P_h ((δχ_h − μ_h)² − V_h)
    loss'' = 2 Σ_l (w'_l² + (w_l − δ_{l,1}) w''_l)
"""

from dataclasses import dataclass

import numpy as np

from softmaxlab.core.progress import Progress
from softmaxlab.core.threads import one_blas_thread
from softmaxlab.errors import SpecError
from softmaxlab.specialization.heads import forward, learns_gain, residual
from softmaxlab.specialization.landscape.coefficients import hessian_coefficients, require_closed_form
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters
from softmaxlab.specialization.population import POINTS, SETS, mean_and_error, standard_error
from softmaxlab.specialization.sampling import Samples, symmetric


@dataclass(frozen=True)
class Escape:
    """Rates, the fastest first, and the directions [rate, feature] in which heads split at these rates."""

    rates: np.ndarray
    directions: np.ndarray


@dataclass(frozen=True)
class Growth:
    """The rate along a path and log_factor = ∫ rate dτ from its start, each with its standard error, all [time]."""

    tau: np.ndarray
    rate: np.ndarray
    rate_error: np.ndarray
    log_factor: np.ndarray
    log_factor_error: np.ndarray

    def time(self, log_factor: float) -> float:
        """The first τ at which a split has grown by exp(log_factor); NaN if it has not by the end of the path."""
        reached = np.nonzero(self.log_factor >= log_factor)[0]
        if not len(reached):
            return float("nan")
        i = max(int(reached[0]), 1)
        (t0, t1), (g0, g1) = self.tau[i - 1 : i + 1], self.log_factor[i - 1 : i + 1]
        return float(t0 + (t1 - t0) * (log_factor - g0) / (g1 - g0))

    def slope(self, tau: float) -> float:
        """dτ_s/d log D for a specialization time τ_s = tau."""
        return float(0.5 / np.interp(tau, self.tau, self.rate))


def escape_rates(model: SingleLocation, b: float = 0.0, v: float = 1.0) -> Escape:
    """The rates at m = r = 0 with every b_h = b, in the features orthogonal to E θ."""
    if model.heads < 2:
        raise SpecError(f"heads must be at least 2 to split, got {model.heads}")
    mean, covariance = model.prior.moments()
    c = hessian_coefficients(model, b, v)
    # the left singular vectors of a column, after the first, span what is orthogonal to it
    basis = np.linalg.svd(mean[:, None])[0][:, 1:] if mean.any() else np.eye(len(mean))
    variances, vectors = np.linalg.eigh(basis.T @ covariance @ basis)
    rates = 2 * (c.c3 + c.c4) * variances - 2 * c.c0
    return Escape(rates[::-1], (basis @ vectors).T[::-1])


@one_blas_thread()
def curvature(
    model: SingleLocation, order: OrderParameters, direction: np.ndarray, points: int = POINTS, seed: int = 0
) -> tuple[float, float]:
    """∇² Ẽ(u, u) for a direction u [head, feature] of m̂ (of m, if p = I), and its standard error.

    The escape rate along u is −∇² Ẽ(u, u)/|u|².
    """
    u = _checked(model, direction)
    order.of(model)
    sets = (symmetric(model, points, (seed, "curvature", k), order.p) for k in range(SETS))
    return standard_error([curvature_over(model.map, order, u, drawn) for drawn in sets])


@one_blas_thread()
def growth(
    model: SingleLocation,
    tau: np.ndarray,
    path: list[OrderParameters],
    direction: np.ndarray,
    points: int = POINTS,
    seed: int = 0,
) -> Growth:
    """The rate at every τ of a path and its integral by the trapezoid rule, for a split along `direction`.

    The standard errors are those of the rates at the given states: a path computed from few samples has its own error.
    """
    tau = np.asarray(tau, dtype=np.float64)
    if tau.shape != (len(path),) or len(path) < 2 or (np.diff(tau) <= 0).any():
        raise SpecError(f"tau must increase, one for each of at least two states, got {tau.size} for {len(path)}")
    u = _checked(model, direction)
    for order in path:
        if (order.of(model).p != path[0].p).any():
            raise SpecError("path must have the same spikes' overlaps p all along")
    rates = np.empty((SETS, len(tau)))
    with Progress(SETS, "escape rate") as progress:
        for k in range(SETS):
            drawn = symmetric(model, points, (seed, "curvature", k), path[0].p)
            rates[k] = [-curvature_over(model.map, order, u, drawn) / (u * u).sum() for order in path]
            progress.advance()
    steps = (rates[:, 1:] + rates[:, :-1]) / 2 * np.diff(tau)
    logs = np.concatenate([np.zeros((SETS, 1)), np.cumsum(steps, axis=1)], axis=1)
    (rate, rate_error), (log, log_error) = (mean_and_error(values) for values in (rates, logs))
    return Growth(tau, rate, rate_error, log, log_error)


def curvature_over(map: str, order: OrderParameters, direction: np.ndarray, samples: Samples) -> float:
    """∇² Ẽ(u, u) as a mean over samples."""
    gain = order.v if learns_gain(map) else 1.0
    family = (0, 1) if map == "bayes_softmax" else (1,)  # the axes over which the weights P are normalised
    total = 0.0
    for X, weight in samples.chunks:
        chi, delta = np.tensordot(order.K, X, 1), np.tensordot(direction, X[: direction.shape[1]], 1)
        share = forward(map, chi, order.b, 1.0).sigma / len(chi)
        P = share if len(family) == 2 else len(chi) * share
        mean, square = ((P * moment).sum(axis=family, keepdims=True) for moment in (delta, delta**2))
        first = gain * (share * (delta - mean)).sum(axis=0)
        second = gain * (share * ((delta - mean) ** 2 - (square - mean**2))).sum(axis=0)
        res = residual(gain * share.sum(axis=0))
        total += 2 * float((first * first + res * second).sum(axis=0) @ weight)
    return total


def _checked(model: SingleLocation, direction: np.ndarray) -> np.ndarray:
    require_closed_form(model, "second derivatives")
    u, expected = np.asarray(direction, dtype=np.float64), (model.heads, model.features)
    if u.shape != expected or not u.any():
        raise SpecError(f"direction must be [head, feature] = {list(expected)} and not 0, got shape {list(u.shape)}")
    return u
