"""Closed-form Taylor coefficients of the loss at the unspecialised saddle m = r = 0, b = b̃ 1.

Second order (Lemmas III.1 and A.5, corrected). For m with m E θ = 0, with C = Cov θ and b = b̃ 1 + b̄,

    Ẽ = Ẽ_0 + ∇_b Ẽ·b̄ + c1 Σ_hh' (m mᵀ + r rᵀ)_hh' + (c2 + c4) Σ_hh' (m C mᵀ)_hh' − (c3 + c4) tr(m C mᵀ) + c5 (Σ_h b̄_h)²
           + c0 tr(m mᵀ + r rᵀ) + c6 Σ_h b̄_h² + third order

c0, c6 and ∇_b Ẽ are ours: they vanish for softmax and Bayes-softmax, and for softmax-1 on the curve L v = L + e^b̃ which
the paper assumes; with them the form holds at every b̃ and v. With s = 1/(L + e^b̃), s0 = 1 − L s and
excess = L v s − 1 (s = 1/L, v = 1 and excess = 0 for the other two maps):

    c1 = L c2,   c2 = (v s/H)² ((1−s)² + (L−1) s²)         sums over l, l' and over l only of (∂w_l/∂χ_hl')²
    c3 = (v s/H) (1−2s) ((1−s) − v s s0),   c4 = 0
    c3 = (L−1)/(H L²) − c4,   c4 = 2 (L−1)/(H² L³)         Bayes-softmax
    c5 = L (v s s0/H)²,   c6 = excess (v/H) s s0 (2 s0 − 1),   c0 = excess (v/H) s (1−2s) s0

Fourth order (Lemmas III.2 and A.6, softmax, E θ = 0, independent θ_f). For columns u and m̄ orthogonal to 1_H, of a
feature f not yet learnt and of one learnt, with variances ν and ν̄, and a = 1/L,

    uᵀ ∇²_{m_f} Ẽ(m̄) u = uᵀ ∇²_{m_f} Ẽ(0) u + c1 |m̄|² |u|² + c2 Σ_h m̄_h² u_h² + c3 (m̄·u)² + O(m̄³)

    c1 = (ν ν̄/H²) a² (1−a) (1−2a)²
    c2 = (1/H) a (1−a) (1−2a) (6 a (ν + ν̄) − ν ν̄ (1 − 12 a (1−a)))
    c3 = (2/H²) a (1−a) (1−2a) (1 + a (ν + ν̄) + a (1−2a) ν ν̄)

These are c1 = (νν̄/H²) Σ_l (D²_{l,11})², c3 = (2/H²) Σ_{lpq} (D²_{l,pq})² (1+νδ_{p1})(1+ν̄δ_{q1}) and
c2 = (1/H) Σ_l (a − δ_{l1}) Σ_pq D⁴_{l,ppqq} (1+νδ_{p1})(1+ν̄δ_{q1}), D^k_l the derivatives of softmax at 0: joint
cumulants of the indicators of a uniform choice among L, which sum to zero over any index.
"""

from dataclasses import dataclass

import numpy as np

from softmaxlab.errors import SpecError
from softmaxlab.specialization.heads import CLOSED_FORM
from softmaxlab.specialization.model import SingleLocation


@dataclass(frozen=True)
class HessianCoefficients:
    """c1 … c5 of Lemma A.5, and c0, c6, which vanish where the lemma's fixed-point condition holds."""

    c0: float
    c1: float
    c2: float
    c3: float
    c4: float
    c5: float
    c6: float

    def quadratic_form(self, m: np.ndarray, r: np.ndarray, b: np.ndarray, covariance: np.ndarray) -> float:
        """The second-order part of Ẽ(m, r, b̃ 1 + b, v), for m E θ = 0."""
        kernel, signal = m @ m.T + r @ r.T, m @ covariance @ m.T
        common = self.c1 * kernel.sum() + (self.c2 + self.c4) * signal.sum() + self.c5 * b.sum() ** 2
        own = self.c0 * np.trace(kernel) - (self.c3 + self.c4) * np.trace(signal) + self.c6 * (b @ b)
        return float(common + own)


@dataclass(frozen=True)
class QuarticCoefficients:
    """c1, c2, c3 of Lemma A.6, for one learnt feature."""

    c1: float
    c2: float
    c3: float

    def quadratic_form(self, u: np.ndarray, learnt: np.ndarray) -> float:
        """The change of uᵀ ∇² Ẽ u that a learnt column [head] brings, to second order in it."""
        squares = (learnt @ learnt) * (u @ u), (learnt**2) @ (u**2), (learnt @ u) ** 2
        return float(np.dot((self.c1, self.c2, self.c3), squares))


def require_closed_form(model: SingleLocation, what: str) -> None:
    if not model.closed_form:
        raise SpecError(f"{what} are known in closed form for the maps {', '.join(CLOSED_FORM)}, got {model.map!r}")


def hessian_coefficients(model: SingleLocation, b: float = 0.0, v: float = 1.0) -> HessianCoefficients:
    """The coefficients at m = r = 0, every b_h = b; b and v matter for softmax-1 only."""
    require_closed_form(model, "Hessian coefficients")
    H, L = model.heads, model.length
    if model.map == "bayes_softmax":
        c1, c4 = (L - 1) / (H * L) ** 2, 2 * (L - 1) / (H**2 * L**3)
        return HessianCoefficients(c0=0.0, c1=c1, c2=c1 / L, c3=(L - 1) / (H * L**2) - c4, c4=c4, c5=0.0, c6=0.0)
    s, s0, v = _uniform_weights(model, b, v)
    c2 = (v * s / H) ** 2 * ((1 - s) ** 2 + (L - 1) * s**2)
    excess = (L * v * s - 1) * v * s * s0 / H
    return HessianCoefficients(
        c0=excess * (1 - 2 * s),
        c1=L * c2,
        c2=c2,
        c3=v * s / H * (1 - 2 * s) * ((1 - s) - v * s * s0),
        c4=0.0,
        c5=L * (v * s * s0 / H) ** 2,
        c6=excess * (2 * s0 - 1),
    )


def mean_gradient_at_origin(model: SingleLocation, b: float = 0.0, v: float = 1.0) -> float:
    """c^(1) of Lemma A.2 at m = r = 0: ∇_{m_h} Ẽ = −c^(1) E θ, c^(1) = (2vs/H) ((1−s) − v s s0)."""
    require_closed_form(model, "gradients at the origin")
    s, s0, v = _uniform_weights(model, b, v)
    return 2 * v * s / model.heads * ((1 - s) - v * s * s0)


def quartic_coefficients(model: SingleLocation, nu: float, nu_learnt: float) -> QuarticCoefficients:
    """The coefficients for a feature of variance nu while one of variance nu_learnt is learnt; softmax."""
    if model.map != "softmax":
        raise SpecError(f"Lemma A.6 is about map 'softmax', got {model.map!r}")
    H, a = model.heads, 1 / model.length
    both, product = nu + nu_learnt, nu * nu_learnt
    third = a * (1 - a) * (1 - 2 * a)
    return QuarticCoefficients(
        c1=product / H**2 * third * a * (1 - 2 * a),
        c2=third / H * (6 * a * both - product * (1 - 12 * a * (1 - a))),
        c3=2 * third / H**2 * (1 + a * both + a * (1 - 2 * a) * product),
    )


def _uniform_weights(model: SingleLocation, b: float, v: float) -> tuple[float, float, float]:
    """Each token's weight s in a head at χ = 0, the weight s0 put nowhere, and the gain that counts."""
    if model.map != "softmax1":
        return 1 / model.length, 0.0, 1.0
    s = 1 / (model.length + np.exp(b))
    return s, float(np.exp(b) * s), v
