"""The velocity of a flow in the order parameters, as one vector field for the solvers.

y = (m̂, r, b, v), without b and v where the map does not learn them; q⊥ in place of r with a batch's noise
"""

from copy import copy
from functools import cached_property
from itertools import combinations

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.specialization.flow.settings import PLAIN_POINTS, FlowSettings
from softmaxlab.specialization.heads import CLOSED_FORM, learns_bias, learns_gain
from softmaxlab.specialization.hessian import hessian_over
from softmaxlab.specialization.order_parameters import OrderParameters
from softmaxlab.specialization.population import Slope, slope_over
from softmaxlab.specialization.sampling import Samples, Seed, default_points, plain, symmetric
from softmaxlab.specialization.symmetric_root import symmetric_root

# A Jacobian by differences is taken over 1/PART of the points, but no fewer than LEAST.
PART, LEAST = 4, 256
DIFFERENCE = 1e-6
ROUNDING = 1e-9  # a rotation of r that changes it by less, relative to the state, is none


class Velocity:
    """`velocity(tau, y)` is dy/dτ; `start` is y at τ = 0."""

    def __init__(
        self,
        spec: FlowSettings,
        order: OrderParameters | None = None,
        points: int | None = None,
        own: int | None = None,
    ):
        """Build the velocity at `order` over `points` base points, with `own` columns of r (the others stay 0)."""
        self.spec, self.order = spec, order or spec.order()
        self.map, self.F, self.H = spec.model.map, spec.model.features, spec.model.heads
        self.own = self.H if own is None else own
        self.with_b, self.with_v = learns_bias(self.map), learns_gain(self.map)
        self.noisy, self.closed_form = spec.batch_noise > 0, self.map in CLOSED_FORM
        self.fresh = generator(spec.seed, "specialization/fresh samples") if spec.sampling == "fresh" else None
        default = default_points(spec.model.prior) if spec.sampling == "symmetric" else PLAIN_POINTS
        self.asked_points = spec.samples or default
        self.points = points or self.asked_points
        self.corrected_by = 0  # samples
        r = self.order.r @ self.order.r.T if self.noisy else self.order.r[:, : self.own]
        self.start = self._joined(self.order.m_hat, r, self.order.b, self.order.v)
        self._anchor, self._shift, self._tilt = self.start, np.zeros(0), np.zeros((0, 0))  # see `corrected`

    @cached_property
    def samples(self) -> Samples:
        return self._drawn(self.points, self.spec.seed)

    def narrowed(self, y: np.ndarray, own: int, points: int) -> "Velocity":
        """The velocity from y on with r = 0 but for `own` columns, over another number of points."""
        m_hat, r, b, v = (part[0] for part in self.split(y[None]))
        r = r if own == self.H else np.zeros_like(r)
        order = OrderParameters(m=m_hat @ self.order.L_p.T, r=r, b=b, v=float(v), p=self.order.p)
        return Velocity(self.spec, order, points, own)

    def corrected(
        self, y: np.ndarray, slope: np.ndarray, samples: int, jacobian: np.ndarray | None = None
    ) -> "Velocity":
        """The velocity with a linear function added that makes it `slope` at y, and its derivative `jacobian`.

        Both are means over many more samples. The rest point is then nearly theirs, and so is how the flow gets there.
        Without a Jacobian the function is a constant.
        """
        other = copy(self)
        other._anchor, other.corrected_by = y, samples
        other._shift = slope - self.over(self.samples, y)
        size = (len(y), len(y))
        other._tilt = np.zeros(size) if jacobian is None else jacobian - self.jacobian_over(self.samples, y)
        return other

    def with_samples(self, samples: Samples) -> "Velocity":
        """The velocity over given samples in place of its own."""
        other = copy(self)
        other.samples, other.fresh = samples, None
        other.__dict__.pop("_some", None)
        return other

    def unseen(self, k: int, points: int | None = None) -> Samples:
        """Return the k-th set of samples that the flow has not seen, as many as its own if not given."""
        return self._drawn(points or self.points, (self.spec.seed, "certificate", k))

    def _drawn(self, points: int, seed: Seed) -> Samples:
        if self.spec.sampling == "symmetric":
            return symmetric(self.spec.model, points, seed, self.order.p, self.own, paired=True)
        drawn_by = self.fresh if self.fresh and not isinstance(seed, tuple) else seed
        return plain(self.spec.model, points, drawn_by, self.order.p, self.own)

    def __call__(self, tau: float, y: np.ndarray) -> np.ndarray:
        if self.fresh:
            self.samples = self._drawn(self.points, self.spec.seed)
        own = self.over(self.samples, y)
        return own + self._shift + self._tilt @ (y - self._anchor) if self.corrected_by else own

    def jacobian(self, tau: float, y: np.ndarray) -> np.ndarray:
        """∂(dy/dτ)/∂y over some of the samples: implicit steps need it only roughly."""
        own = self.jacobian_over(self._some, y)
        return own + self._tilt if self.corrected_by else own

    def jacobian_over(self, samples: Samples, y: np.ndarray) -> np.ndarray:
        """∂(dy/dτ)/∂y over given samples: in closed form where the velocity is a gradient, else by differences."""
        if self.closed_form and not self.noisy:
            m_hat, r, b, v = (part[0] for part in self.split(y[None]))
            K = np.hstack([m_hat, r[:, : self.own]])
            return -self._reordered(hessian_over(self.map, K, b, float(v), samples))
        here, shifts = self.over(samples, y), DIFFERENCE * np.maximum(1.0, np.abs(y))
        ahead = (self.over(samples, there) for there in y + np.diag(shifts))
        return np.stack([(there - here) / h for there, h in zip(ahead, shifts)], axis=1)

    def _reordered(self, hessian: np.ndarray) -> np.ndarray:
        """A matrix in the order (K, b, v) in the order of y: m̂ of all heads, r of all heads, b, v."""
        K = np.arange(self.H * (self.F + self.own)).reshape(self.H, -1)
        rest = np.arange(K.size, len(hessian))
        order = np.concatenate([K[:, : self.F].ravel(), K[:, self.F :].ravel(), rest])
        return hessian[np.ix_(order, order)]

    @cached_property
    def _some(self) -> Samples:
        if self.closed_form and not self.noisy:
            return self.samples
        return self._drawn(max(self.points // PART, min(self.points, LEAST)), self.spec.seed)

    def over(self, samples: Samples, y: np.ndarray) -> np.ndarray:
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
        K = np.hstack([m_hat, r[:, : self.own]])
        return slope_over(self.map, K, b, float(v), samples or self.samples, noise=self.noisy)

    def rate(self, slope: Slope) -> float:
        """|∇Ẽ|, over what is learned."""
        return float(np.linalg.norm(self._gradient(slope)))

    def _gradient(self, slope: Slope) -> np.ndarray:
        return self._joined(slope.K[:, : self.F], slope.K[:, self.F :], slope.b, slope.v)

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """m̂ [time, head, feature], r [time, head, head], b [time, head] and v [time] of states [time, size]."""
        T, H, F = len(rows), self.H, self.F
        m_hat, own, rest = np.split(rows, [H * F, H * (F + self.own)], axis=1)
        r = np.zeros((T, H, H))
        r[:, :, : self.own] = own.reshape(T, H, self.own)
        b = rest[:, :H] if self.with_b else np.tile(self.order.b, (T, 1))
        v = rest[:, -1] if self.with_v else np.full(T, self.order.v)
        return m_hat.reshape(T, H, F), _root(r) if self.noisy else r, b, v

    @property
    def blocks(self) -> dict[str, slice]:
        """Return where m, r, b and v are in y."""
        m, r, size = self.H * self.F, self.H * (self.F + self.own), len(self.start)
        end = size - self.with_v
        return {"m": slice(m), "r": slice(m, r), "b": slice(r, end), "v": slice(end, size)}

    def widened(self, matrix: np.ndarray, other: "Velocity") -> np.ndarray:
        """A matrix of `other`, which has another number of columns of r, one that stands for each, uncoupled from m."""
        if self.own == other.own:
            return matrix
        r, mine = other.blocks["r"], self.blocks["r"]
        rest, here = np.delete(np.arange(len(matrix)), r), np.delete(np.arange(len(self.start)), mine)
        wide = np.zeros((len(self.start), len(self.start)))
        wide[np.ix_(here, here)] = matrix[np.ix_(rest, rest)]
        wide[mine, mine] = np.kron(matrix[r, r], np.eye(self.own))
        return wide

    def directions(self, y: np.ndarray) -> np.ndarray:
        """An orthonormal basis [size, direction] of the states around y that differ in more than a rotation of r.

        With the noise of batches q⊥ is in place of r, and its antisymmetric part is nothing.
        """
        H, own = self.H, self.own
        if own < 2:
            return np.eye(len(y))
        r = np.eye(H) if self.noisy else y[H * self.F : H * (self.F + own)].reshape(H, own)
        turns = np.zeros((own * (own - 1) // 2, len(y)))
        for turn, (i, j) in zip(turns, combinations(range(own), 2)):
            A = np.zeros((own, own))
            A[i, j], A[j, i] = 1.0, -1.0
            turn[H * self.F : H * (self.F + own)] = (r @ A).ravel()
        _, sizes, basis = np.linalg.svd(turns)
        rank = int((sizes > ROUNDING * max(1.0, float(np.linalg.norm(y)))).sum())
        return basis[rank:].T

    def joined(self, m_hat: np.ndarray, r: np.ndarray, b: np.ndarray, v: np.ndarray) -> np.ndarray:
        """States [time, size] of what `split` gives."""
        r = r[:, :, : self.own] if not self.noisy else r @ r.swapaxes(1, 2)
        return np.stack([self._joined(*at) for at in zip(m_hat, r, b, v)])

    def _joined(self, m_hat: np.ndarray, r: np.ndarray, b: np.ndarray, v: float) -> np.ndarray:
        parts = [m_hat.ravel(), r.ravel(), *([b] if self.with_b else []), *([[v]] if self.with_v else [])]
        return np.concatenate(parts)


def _root(q: np.ndarray) -> np.ndarray:
    """√q⊥ [time, head, head]; NaN, which a solver notices, where q⊥ is not finite."""
    return symmetric_root(q) if np.isfinite(q).all() else np.full_like(q, np.nan)
