"""Maps with kinks in the tied model, where scores z = U a are not parameters and can be held at a border only by force.

The scores move as z′ = c + K x with c = ⟨s,a⟩ r and K = ‖a‖² I + U Uᵀ (from U′ = r sᵀ + x aᵀ, a′ = Uᵀx; see models.py;
no U Uᵀ if a is frozen), and x_i = f′(z_i) w_i. At a kink the slope f′ may be any number ξ between those of the two
sides (Clarke's gradient). Where both sides push at the border, the flow stays on it with the one ξ that makes it stay,
from z′ = 0 there: linear equations. It leaves when a ξ reaches the slope of a side, on that side.

Zeros: relu and abs, elementwise or as shares; any number of scores may be held at 0. Cap: linear_norm, |Σz| = 1 held by
x = g − μ, with μ between 0 and ⟨s,g⟩ (for Σz > 0).

Support: sparsemax. Tokens enter and leave the support S, and may be held at its border. Token i is at the border when
h_i = z_i − τ = 0 with τ = (Σ_S z − 1)/n, n = |S|. It moves as h_i′ = ⟨e_i, z′⟩ with e_i the unit vector of i minus 1/n
on S. With i in the support or out of it, x = Jᵀg differs by a multiple of e_i, so where both push at the border, the
flow stays on it with x = J_S g + Σ_held μ_i e_i and the μ that makes h′ = 0.
"""

import numpy as np

from softmaxlab.polarization.flow.kinks import Cap, Point, Zeros
from softmaxlab.polarization.maps import centred


def stiffness(now: Point, a_moves: bool) -> np.ndarray:
    """K."""
    U, a = now.at["U"], now.at["a"]
    return (a @ a) * np.eye(len(U)) + (U @ U.T if a_moves else 0.0)


def drift(now: Point) -> np.ndarray:
    """c."""
    return (now.s @ now.at["a"]) * now.r


def moved(now: Point, shift: np.ndarray) -> dict[str, np.ndarray]:
    """The least change of U that moves the scores by `shift`: it puts a score at its border exactly."""
    U, a = now.at["U"], now.at["a"]
    return {"U": U + np.outer(shift, a) / (a @ a)}


class TiedZeros:
    """relu and abs. A held score has slope 0 in the weights, and the x that keeps it at 0."""

    def __init__(self, z: np.ndarray, absolute: bool, share: bool, a_moves: bool):
        self.free = Zeros(z, absolute, share, scored="a")
        self.low = -1.0 if absolute else 0.0  # the slope below 0; above, it is 1
        self.held = z == 0
        self.a_moves = a_moves

    def weights(self, z: np.ndarray) -> np.ndarray:
        return self.free.weights(z)

    def pulled(self, now: Point) -> np.ndarray:
        return self._holding(now, self.held)

    def _holding(self, now: Point, held: np.ndarray) -> np.ndarray:
        """x with the entries `held` solved from z′ = 0."""
        x = np.where(held, 0.0, self.free.pulled(now))
        if held.any():
            K = stiffness(now, self.a_moves)
            x[held] = np.linalg.solve(K[np.ix_(held, held)], -(drift(now) + K @ x)[held])
        return x

    def guard(self, now: Point) -> np.ndarray:
        w, x = self.free.push(now), self.pulled(now)
        above = np.where(self.free.slope > 0, 1.0, -1.0)
        # x = ξ w with w < 0 and ξ between the slopes of the two sides
        return np.where(self.held, np.minimum(x - w, self.low * w - x), above * now.z)

    def switch(self, now: Point, hit: np.ndarray) -> dict[str, np.ndarray]:
        w, x = self.free.push(now), self._holding(now, self.held | hit)
        freed = hit & self.held
        caught = hit & ~self.held & (w < x) & (x < self.low * w)
        # freed upwards where ξ has come to 1, that is x to w; a score that is not caught goes over to the other side
        freed_to = np.where(np.abs(x - w) <= np.abs(x - self.low * w), 1.0, self.low)
        other = np.where(self.free.slope > 0, self.low, 1.0)
        after = np.where(caught, 0.0, np.where(freed, freed_to, other))
        self.free.slope = np.where(hit, after, self.free.slope)
        self.held = (self.held & ~freed) | caught
        return moved(now, np.where(hit, -now.z, 0.0))


class TiedCap:
    """linear_norm."""

    def __init__(self, z: np.ndarray, a_moves: bool):
        self.free = Cap(z)
        self.a_moves = a_moves

    def weights(self, z: np.ndarray) -> np.ndarray:
        return self.free.weights(z)

    def pulled(self, now: Point) -> np.ndarray:
        return now.g - self._mu(now) if self._is(Cap.ON) else self.free.pulled(now)

    def guard(self, now: Point) -> np.ndarray:
        if self._is(Cap.ON):
            return np.array([min(self._room(now))])
        total = float(self.free.side[0] * now.z.sum())
        return np.array([total - 1.0 if self._is(Cap.ABOVE) else 1.0 - abs(total)])

    def switch(self, now: Point, hit: np.ndarray) -> dict[str, np.ndarray]:
        if self._is(Cap.BELOW):
            self.free.side = np.sign(now.z.sum(keepdims=True))
        to_below, to_above = self._room(now)
        if self._is(Cap.ON):
            after = Cap.BELOW if to_below <= to_above else Cap.ABOVE
        elif min(to_below, to_above) > 0:
            after = Cap.ON
        else:
            after = Cap.ABOVE if self._is(Cap.BELOW) else Cap.BELOW
        self.free.mode = np.array([after])
        return moved(now, (self.free.side - now.z.sum()) / now.z.size * np.ones_like(now.z))

    def _is(self, mode: int) -> bool:
        return bool(self.free.mode[0] == mode)

    def _mu(self, now: Point) -> float:
        K = stiffness(now, self.a_moves)
        return float((drift(now) + K @ now.g).sum() / K.sum())

    def _room(self, now: Point) -> tuple[float, float]:
        """The distances of μ from its bounds: 0, of the formula below the cap, and ⟨s,g⟩, of the one above."""
        mu = float(self.free.side[0]) * self._mu(now)
        return mu, float(now.z @ now.g) - mu


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
