"""Sparsemax in the tied model: tokens enter and leave the support S, and may be held at its border (see tied_kinks.py).

Token i is at the border when h_i = z_i − τ = 0 with τ = (Σ_S z − 1)/n, n = |S|. It moves as h_i′ = ⟨e_i, z′⟩ with
e_i the unit vector of i minus 1/n on S. With i in the support or out of it, x = Jᵀg differs by a multiple of e_i, so
where both push at the border, the flow stays on it with x = J_S g + Σ_held μ_i e_i and the μ that makes h′ = 0.
"""

import numpy as np

from softmaxlab.polarization.flow.kinks import Point
from softmaxlab.polarization.flow.tied_kinks import drift, moved, stiffness
from softmaxlab.polarization.maps import centred


class TiedSupport:
    """`inside` is the support; `held` tokens are at its border, with weight 0."""

    def __init__(self, s: np.ndarray, a_moves: bool):
        self.inside = s > 0
        self.held = np.zeros(s.shape, dtype=bool)
        self.a_moves = a_moves

    def weights(self, z: np.ndarray) -> np.ndarray:
        return np.where(self.inside, self._above(z), 0.0)

    def pulled(self, now: Point) -> np.ndarray:
        return self._pulled(now, self.inside, self.held)

    def guard(self, now: Point) -> np.ndarray:
        above = self._above(now.z)
        guards = np.where(self.inside, above, -above)
        for i in np.flatnonzero(self.held):
            out, into = self._speeds(now, int(i))
            guards[i] = min(out, -into)
        return guards

    def switch(self, now: Point, hit: np.ndarray) -> dict[str, np.ndarray]:
        shift = np.where(hit, -self._above(now.z), 0.0)
        for i in np.flatnonzero(hit):
            was_held, was_inside = self.held[i], self.inside[i]
            self.held[i] = self.inside[i] = False
            out, into = self._speeds(now, int(i))
            if was_held:  # which of the two pushes gave way
                self.inside[i] = -into < out
            elif out > 0 and into < 0:
                self.held[i] = True
            else:
                self.inside[i] = not was_inside
        return moved(now, shift)

    def _above(self, z: np.ndarray) -> np.ndarray:
        """h = z − τ."""
        return z - (z[self.inside].sum() - 1.0) / self.inside.sum()

    def _pulled(self, now: Point, inside: np.ndarray, held: np.ndarray) -> np.ndarray:
        share = inside / inside.sum()
        x = inside * centred(share, now.g)
        if not held.any():
            return x
        E = np.eye(len(share))[held] - share
        K = stiffness(now, self.a_moves)
        return x - np.linalg.solve(E @ K @ E.T, E @ (drift(now) + K @ x)) @ E

    def _speeds(self, now: Point, i: int) -> tuple[float, float]:
        """h_i′ with token i out of the support and in it, the other held tokens held."""
        one = np.arange(len(now.z)) == i
        outside, others = self.inside & ~one, self.held & ~one
        e = one - outside / outside.sum()
        K = stiffness(now, self.a_moves)
        speeds = (e @ (drift(now) + K @ self._pulled(now, support, others)) for support in (outside, outside | one))
        out, into = speeds
        return float(out), float(into)
