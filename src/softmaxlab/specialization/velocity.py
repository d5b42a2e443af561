"""The velocity of a flow in the order parameters, as one vector field for the solvers.

y = (m̂, r, b, v), without b and v where the map does not learn them; q⊥ in place of r with a batch's noise
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.specialization.heads import learns_bias, learns_gain
from softmaxlab.specialization.population import Slope, slope_over
from softmaxlab.specialization.root import symmetric_root
from softmaxlab.specialization.sampling import Samples, default_points, plain, symmetric

if TYPE_CHECKING:
    from softmaxlab.specialization.flow import Flow

PLAIN_POINTS = 100_000  # the paper's
# A Jacobian is taken over 1/PART of the points, but no fewer than LEAST. Over all of them flows of softmax-1 take up to
# 2.7 times as long; over 1/8 those of Bayes-softmax take more steps than it saves.
PART, LEAST = 4, 256
DIFFERENCE = 1e-6


class Velocity:
    """`velocity(tau, y)` is dy/dτ; `start` is y at τ = 0."""

    def __init__(self, spec: "Flow"):
        self.spec, self.order = spec, spec.order()
        self.map, self.F, self.H = spec.model.map, spec.model.features, spec.model.heads
        self.with_b, self.with_v = learns_bias(self.map), learns_gain(self.map)
        self.noisy = spec.batch_noise > 0
        self.fresh = generator(spec.seed, "specialization/fresh samples") if spec.sampling == "fresh" else None
        default = default_points(spec.model.prior) if spec.sampling == "symmetric" else PLAIN_POINTS
        self.points = spec.samples or default
        self.samples = self._drawn(self.points)
        r = self.order.r @ self.order.r.T if self.noisy else self.order.r
        self.start = self._joined(self.order.m_hat, r, self.order.b, self.order.v)

    def _drawn(self, points: int) -> Samples:
        if self.spec.sampling == "symmetric":
            return symmetric(self.spec.model, points, self.spec.seed, self.order.p)
        return plain(self.spec.model, points, self.fresh or self.spec.seed, self.order.p)

    def __call__(self, tau: float, y: np.ndarray) -> np.ndarray:
        if self.fresh:
            self.samples = self._drawn(self.points)
        return self._over(self.samples, y)

    def jacobian(self, tau: float, y: np.ndarray) -> np.ndarray:
        """∂(dy/dτ)/∂y by differences, over some of the samples: implicit steps need it only roughly."""
        some = self._some
        here, shifts = self._over(some, y), DIFFERENCE * np.maximum(1.0, np.abs(y))
        return np.stack([(self._over(some, there) - here) / h for there, h in zip(y + np.diag(shifts), shifts)], axis=1)

    @cached_property
    def _some(self) -> Samples:
        return self._drawn(max(self.points // PART, min(self.points, LEAST)))

    def _over(self, samples: Samples, y: np.ndarray) -> np.ndarray:
        """dy/dτ over given samples."""
        slope = self.slope(y, samples)
        grad_r = slope.K[:, self.F :]
        if slope.noise is not None:
            r = self.split(y[None])[1][0]
            descent = grad_r @ r.T
            grad_r = descent + descent.T - self.spec.batch_noise * slope.noise
        return -self._joined(slope.K[:, : self.F], grad_r, slope.b, slope.v)

    def slope(self, y: np.ndarray, samples: Samples | None = None) -> Slope:
        """The sampled loss and its gradient at one state."""
        m_hat, r, b, v = (part[0] for part in self.split(y[None]))
        return slope_over(self.map, np.hstack([m_hat, r]), b, float(v), samples or self.samples, noise=self.noisy)

    def rate(self, slope: Slope) -> float:
        """|∇Ẽ|, over what is learned."""
        return float(np.linalg.norm(self._gradient(slope)))

    def descent(self, y: np.ndarray) -> float:
        """−dẼ/dτ along the flow: |∇Ẽ|², unless the noise of batches moves q⊥ too."""
        gradient, moves = self._gradient(self.slope(y)), self._over(self.samples, y)
        if self.noisy:
            own = slice(self.H * self.F, self.H * (self.F + self.H))
            q, dq = (x[own].reshape(self.H, self.H) for x in (y, moves))
            moves[own] = _root_moves(q, dq).ravel()
        return -float(gradient @ moves)

    def _gradient(self, slope: Slope) -> np.ndarray:
        return self._joined(slope.K[:, : self.F], slope.K[:, self.F :], slope.b, slope.v)

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """m̂ [time, head, feature], r [time, head, head], b [time, head] and v [time] of states [time, size]."""
        T, H, F = len(rows), self.H, self.F
        m_hat, r, rest = np.split(rows, [H * F, H * (F + H)], axis=1)
        r = r.reshape(T, H, H)
        b = rest[:, :H] if self.with_b else np.tile(self.order.b, (T, 1))
        v = rest[:, -1] if self.with_v else np.full(T, self.order.v)
        return m_hat.reshape(T, H, F), _root(r) if self.noisy else r, b, v

    def _joined(self, m_hat: np.ndarray, r: np.ndarray, b: np.ndarray, v: float) -> np.ndarray:
        parts = [m_hat.ravel(), r.ravel(), *([b] if self.with_b else []), *([[v]] if self.with_v else [])]
        return np.concatenate(parts)


def _root(q: np.ndarray) -> np.ndarray:
    """√q⊥ [time, head, head]; NaN, which a solver notices, where q⊥ is not finite."""
    return symmetric_root(q) if np.isfinite(q).all() else np.full_like(q, np.nan)


def _root_moves(q: np.ndarray, dq: np.ndarray) -> np.ndarray:
    """How r = √q⊥ moves while q⊥ [head, head] moves by dq: the dr with r dr + dr r = dq."""
    values, vectors = np.linalg.eigh(q)
    s = np.sqrt(np.maximum(values, 0.0))
    sums, turned = s[:, None] + s, vectors.T @ dq @ vectors
    return vectors @ np.divide(turned, sums, where=sums > 0, out=np.zeros_like(turned)) @ vectors.T
