"""The population loss and its gradient, as means over samples.

    Ẽ = E Σ_l res_l²,  res = w − e_0,   χ = K X,  K = [m̂ | r]                                     eqs. (10), (11)
    ∇_K = E Σ_l c_l X_lᵀ,   ∇_b = E ∂b,   ∇_v = E ∂v

with c, ∂b, ∂v of heads.py at U = res. The samples go through in chunks that stay in a core's cache; the map's
elementwise work is compiled (compiled/pull.py), the two products with X are BLAS's.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from softmaxlab.core.progress import Progress
from softmaxlab.core.threads import one_blas_thread
from softmaxlab.errors import SpecError
from softmaxlab.specialization.heads import CLOSED_FORM, forward, residual
from softmaxlab.specialization.order_parameters import OrderParameters
from softmaxlab.specialization.problem import Problem
from softmaxlab.specialization.sampling import Samples, base_points, symmetric

SETS = 8  # independent sets of samples, for a standard error
POINTS = 2**13  # base points in each, where they are not chosen by the number of samples


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


def sets(model: Problem, samples: int, seed: int, name: str, p: np.ndarray | None = None) -> Iterator[Samples]:
    """Independent sets of quasi-random samples, `samples` in each with all images."""
    points = base_points(model.prior, samples)
    with Progress(SETS, name) as progress:
        for k in range(SETS):
            yield symmetric(model, points, (seed, name, k), p)
            progress.advance()


@one_blas_thread()
def loss(model: Problem, order: OrderParameters, samples: int, seed: int) -> tuple[float, float]:
    """Ẽ and its standard error, over independent sets of quasi-random samples."""
    state = model.map, order.K, order.b, order.v
    with np.errstate(all="ignore"):  # what is not finite is refused
        estimate = standard_error([loss_over(*state, drawn) for drawn in sets(model, samples, seed, "loss", order.p)])
    _require_finite("loss", estimate, order)
    return estimate


@one_blas_thread()
def gradient(model: Problem, order: OrderParameters, samples: int, seed: int) -> Gradient:
    """∇Ẽ, over the same samples as `loss`."""
    state = model.map, order.K, order.b, order.v
    with np.errstate(all="ignore"):  # what is not finite is refused
        slopes = [slope_over(*state, drawn) for drawn in sets(model, samples, seed, "loss", order.p)]
        K, b, v = (np.mean([getattr(slope, name) for slope in slopes], axis=0) for name in ("K", "b", "v"))
    _require_finite("gradient", (K, b, v), order)
    F = model.features
    return Gradient(np.linalg.solve(order.L_p.T, K[:, :F].T).T, K[:, F:], b, float(v))


def standard_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean of independent values, and its standard error."""
    mean, error = mean_and_error(values)
    return float(mean), float(error)


def mean_and_error(values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The means over the first axis, of independent values, and their standard errors."""
    values = np.asarray(values)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def _require_finite(what: str, values: Iterable[ArrayLike], order: OrderParameters) -> None:
    if not all(np.isfinite(value).all() for value in values):
        largest = {name: np.abs(getattr(order, name)).max() for name in ("m", "r", "b", "v")}
        given = ", ".join(f"{name} {value:.3g}" for name, value in largest.items())
        raise SpecError(f"the {what} is not finite at order parameters as large as {given}")


def loss_over(map: str, K: np.ndarray, b: np.ndarray, v: float, samples: Samples) -> float:
    """Ẽ as a mean over samples."""
    total = 0.0
    for X, weight in samples.chunks:
        res = residual(forward(map, _scores(K, X), b, v).w)
        total += float(np.vdot(res, res * weight))
    return total


def slope_over(map: str, K: np.ndarray, b: np.ndarray, v: float, samples: Samples, noise: bool = False) -> Slope:
    """Ẽ and its gradient as means over samples."""
    H = len(K)
    loss, grad_v, grad_K, grad_b, cc = 0.0, 0.0, np.zeros_like(K), np.zeros(H), np.zeros((H, H))
    pull = _compiled(map) if map in CLOSED_FORM else partial(_pull, map)
    for X, weight in samples.chunks:
        c = _scores(K, X)
        part, dv = pull(c, weight, b, v, grad_b)
        loss += part
        grad_v += dv
        grad_K += _flat(c) @ _flat(X).T
        if noise:
            cc += _flat(c) @ _flat(c / weight).T
    return Slope(loss, grad_K, grad_b, grad_v, cc if noise else None)


def _pull(
    map: str, chi: np.ndarray, weight: np.ndarray, b: np.ndarray, v: float, db: np.ndarray
) -> tuple[float, float]:
    """The loss and ∂v of scores χ, which become c; ∂b is added to db. c, ∂b and ∂v are linear in U, so weighted."""
    heads = forward(map, chi, b, v)
    res = residual(heads.w)
    U = res * weight
    chi[:], each_b, each_v = heads.pullback(U)
    db += each_b.sum(axis=1)
    return float(np.vdot(res, U)), float(each_v.sum())


def _compiled(map: str) -> Callable[..., tuple[float, float]]:
    """`_pull` of a map in closed form."""
    from softmaxlab.specialization.compiled import pull

    kernel: Callable[..., tuple[float, float]] = getattr(pull, f"pull_{map}")

    def pulled(chi: np.ndarray, weight: np.ndarray, b: np.ndarray, v: float, db: np.ndarray) -> tuple[float, float]:
        H, L, _ = chi.shape
        room = np.empty((H * L + L + 4, pull.BLOCK))
        s, w, rows = np.split(room, [H * L, (H + 1) * L])
        return kernel(chi, weight, b, v, s.reshape(H, L, -1), w, rows, db)

    return pulled


def _scores(K: np.ndarray, X: np.ndarray) -> np.ndarray:
    """χ [head, token, sample]."""
    return (K @ _flat(X)).reshape(len(K), *X.shape[1:])


def _flat(x: np.ndarray) -> np.ndarray:
    """Tokens and samples as one axis, for one product of matrices."""
    return x.reshape(len(x), -1)
