"""The unspecialised manifold, all heads alike, and the gradient of the loss on it (Lemmas A.1, A.2).

    M_u:  m = 1_H m̃ᵀ,   r = r̃1 I_H + r̃2 1_H 1_Hᵀ,   b = b̃ 1_H
    at m̃ = x E θ:  ∇_{m_h} Ẽ = −c^(1)(x, r, b, v) E θ + e,   e ⟂ E θ                                       eq. (22)

The flow does not leave M_u, because heads are exchangeable. The paper has e = 0 always. It is 0 at x = 0, and for every
prior with E[θ | θ·E θ] parallel to E θ (flipping and one-hot spikes); for others the part of θ orthogonal to E θ is not
independent of the scores, and e ≠ 0.
"""

from dataclasses import dataclass

import numpy as np

from softmaxlab.errors import SpecError
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters
from softmaxlab.specialization.population import POINTS, SETS, mean_and_error, slope_over
from softmaxlab.specialization.sampling import symmetric


@dataclass(frozen=True)
class MeanGradient:
    """c^(1) and e [feature] of the gradient of one head, each with its standard error."""

    c1: float
    c1_error: float
    e: np.ndarray
    e_error: np.ndarray


def unspecialised(
    model: SingleLocation, m: np.ndarray, r1: float = 0.0, r2: float = 0.0, b: float = 0.0, v: float = 1.0
) -> OrderParameters:
    """The point of M_u with m̃ = m [feature], r̃1, r̃2, b̃ = b and v."""
    H = model.heads
    return OrderParameters(m=np.tile(m, (H, 1)), r=r1 * np.eye(H) + r2, b=np.full(H, b), v=v).of(model)


def mean_gradient(
    model: SingleLocation, x: float, r1: float, r2: float = 0.0, b: float = 0.0, v: float = 1.0, points: int = POINTS
) -> MeanGradient:
    """c^(1)(x, r, b, v) and what the gradient has beside it, over independent sets of quasi-random points."""
    mean, _ = model.prior.moments()
    if not mean.any():
        raise SpecError("c^(1) needs a prior with E θ ≠ 0")
    order = unspecialised(model, x * mean, r1, r2, b, v)
    means = []
    for k in range(SETS):
        slope = slope_over(model.map, order.K, order.b, order.v, symmetric(model, points, (0, "mean gradient", k)))
        means.append(slope.K[:, : model.features].mean(axis=0))
    c1 = -(np.array(means) @ mean) / (mean @ mean)
    e = np.array(means) + np.outer(c1, mean)
    mean_of, error = mean_and_error(np.column_stack([c1, e]))
    return MeanGradient(float(mean_of[0]), float(error[0]), mean_of[1:], error[1:])
