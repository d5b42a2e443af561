"""The population loss and its gradient, as means over samples.

    Ẽ = E Σ_l res_l²,  res = w − e_0,   χ = K X,  K = [m̂ | r]                                     eqs. (10), (11)
    ∇_K = E Σ_l c_l X_lᵀ,   ∇_b = E ∂b,   ∇_v = E ∂v

with c, ∂b, ∂v of heads.py at U = res. The samples go through in chunks that stay in a core's cache; two thirds of the
time are the map's elementwise work, the rest is the two products with X and the exponentials.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softmaxlab.core.threads import one_blas_thread
from softmaxlab.specialization.heads import Heads, forward
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order import OrderParameters
from softmaxlab.specialization.sampling import Samples, symmetric

SETS = 8  # independent sets of samples, for a standard error


@dataclass(frozen=True)
class Gradient:
    """∇Ẽ in m [head, feature], r [head, head], b [head] and v."""

    m: np.ndarray
    r: np.ndarray
    b: np.ndarray
    v: float


@dataclass(frozen=True)
class Slope:
    """The loss over some samples and its gradient in K [head, feature and head], b [head] and v.

    `noise` is E Σ_l c_l c_lᵀ [head, head], how much q⊥ grows by the noise of a batch, if asked for.
    """

    loss: float
    K: np.ndarray
    b: np.ndarray
    v: float
    noise: np.ndarray | None = None


@one_blas_thread()
def loss(model: SingleLocation, order: OrderParameters, samples: int, seed: int) -> tuple[float, float]:
    """Ẽ and its standard error, over independent sets of quasi-random samples."""
    sets = (symmetric(model, samples, (seed, "loss", k), order.p) for k in range(SETS))
    return standard_error([loss_over(model.map, order.K, order.b, order.v, drawn) for drawn in sets])


@one_blas_thread()
def gradient(model: SingleLocation, order: OrderParameters, samples: int, seed: int) -> Gradient:
    """∇Ẽ, over the same samples as `loss`."""
    sets = (symmetric(model, samples, (seed, "loss", k), order.p) for k in range(SETS))
    slopes = [slope_over(model.map, order.K, order.b, order.v, drawn) for drawn in sets]
    K, b, v = (np.mean([getattr(slope, name) for slope in slopes], axis=0) for name in ("K", "b", "v"))
    F = model.features
    return Gradient(np.linalg.solve(order.L_p.T, K[:, :F].T).T, K[:, F:], b, float(v))


def standard_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean of independent values, and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def loss_over(map: str, K: np.ndarray, b: np.ndarray, v: float, samples: Samples) -> float:
    """Ẽ as a mean over samples."""
    total = 0.0
    for X, weight in samples.chunks:
        res = _residual(forward(map, _scores(K, X), b, v))
        total += float(np.vdot(res, res * weight))
    return total


def slope_over(map: str, K: np.ndarray, b: np.ndarray, v: float, samples: Samples, noise: bool = False) -> Slope:
    """Ẽ and its gradient as means over samples."""
    H = len(K)
    loss, grad_v, grad_K, grad_b, cc = 0.0, 0.0, np.zeros_like(K), np.zeros(H), np.zeros((H, H))
    for X, weight in samples.chunks:
        heads = forward(map, _scores(K, X), b, v)
        res = _residual(heads)
        U = res * weight  # c, ∂b and ∂v are linear in U, so they come out weighted
        c, db, dv = heads.pullback(U)
        loss += float(np.vdot(res, U))
        grad_K += _flat(c) @ _flat(X).T
        grad_b += db.sum(axis=1)
        grad_v += float(dv.sum())
        if noise:
            cc += _flat(c) @ _flat(c / weight).T
    return Slope(loss, grad_K, grad_b, grad_v, cc if noise else None)


def _scores(K: np.ndarray, X: np.ndarray) -> np.ndarray:
    """χ [head, token, sample]."""
    return (K @ _flat(X)).reshape(len(K), *X.shape[1:])


def _residual(heads: Heads) -> np.ndarray:
    res = heads.w.copy()
    res[0] -= 1.0
    return res


def _flat(x: np.ndarray) -> np.ndarray:
    """Tokens and samples as one axis, for one product of matrices."""
    return x.reshape(len(x), -1)
