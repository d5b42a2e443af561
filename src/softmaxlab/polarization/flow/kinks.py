"""Maps with kinks, for the flow: smooth in a mode, with guards that tell when the mode ends.

A solver that steps over a jump of the velocity loses its order, and hangs where the two sides push at each other. So a
mode's formula is continued smoothly beyond its border, a guard (positive inside) is watched, and at its root the
mode changes. This file has the value and matrix models, whose scores are parameters; modes are kept per row of scores.

Zeros: relu, abs and their shares. A score that reaches 0 stays there: for relu it is dead, for |x| both sides push
towards 0, until they push away (never for the logistic loss); then it leaves as descent does, on the side it came from.
A score that starts at 0 never moves, as torch's slope there is 0. Support: sparsemax. A token whose weight reaches 0
leaves the support and never comes back, since its score and the threshold both stand still. Cap: linear_norm, where
|Σa| = 1 is crossed, or held with velocity g − mean(g) when both sides push at it (the only mixture of the two
velocities that stays on the border).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from softmaxlab.polarization.maps import centred
from softmaxlab.polarization.models import Parameters


@dataclass(frozen=True)
class Point:
    """A state on the way: parameters, scores z, weights s, r = −∇ℓ and the signal g (see models.py)."""

    at: Parameters
    z: np.ndarray
    s: np.ndarray
    r: np.ndarray
    g: np.ndarray


class Kinks(Protocol):
    """A map in a mode."""

    def weights(self, z: np.ndarray) -> np.ndarray: ...

    def pulled(self, now: Point) -> np.ndarray:
        """The scores' velocity x = Jᵀg."""
        ...

    def guard(self, now: Point) -> np.ndarray:
        """Positive while the mode lasts."""
        ...

    def switch(self, now: Point, hit: np.ndarray) -> dict[str, np.ndarray]:
        """Enter the next mode, where the guards `hit` are 0; the parameters to change, if any."""
        ...


class Zeros:
    """s = f(a) or f(a)/Σf(a) with f = relu or |x|; `slope` is f′, or 0 at rest; `alive` is f′ when not."""

    def __init__(self, z: np.ndarray, absolute: bool, share: bool, scored: str):
        self.slope = np.sign(z) if absolute else (z > 0).astype(float)
        self.alive = self.slope
        self.revives = (self.slope != 0) & absolute
        self.share = share
        self.scored = scored

    def weights(self, z: np.ndarray) -> np.ndarray:
        w = self.slope * z
        return w / _total(w) if self.share else w

    def pulled(self, now: Point) -> np.ndarray:
        return self.slope * self.push(now)

    def push(self, now: Point) -> np.ndarray:
        """w = x/f′: what moves a score of slope 1."""
        return centred(now.s, now.g) / _total(self.slope * now.z) if self.share else now.g

    def guard(self, now: Point) -> np.ndarray:
        at_rest = np.where(self.revives, -self.push(now), np.inf)
        return np.where(self.slope != 0, self.slope * now.z, at_rest)

    def switch(self, now: Point, hit: np.ndarray) -> dict[str, np.ndarray]:
        after = np.where(self.slope != 0, 0.0, self.alive)
        self.slope = np.where(hit, after, self.slope)
        return {self.scored: np.where(hit, 0.0, now.z)}


class Support:
    """Sparsemax: s = a − τ on the support, τ = (Σ a − 1)/size."""

    def __init__(self, s: np.ndarray):
        self.inside = (s > 0).astype(float)

    def weights(self, z: np.ndarray) -> np.ndarray:
        size = self.inside.sum(axis=-1, keepdims=True)
        tau = ((self.inside * z).sum(axis=-1, keepdims=True) - 1.0) / size
        return self.inside * (z - tau)

    def pulled(self, now: Point) -> np.ndarray:
        return self.inside * centred(self.inside / self.inside.sum(axis=-1, keepdims=True), now.g)

    def guard(self, now: Point) -> np.ndarray:
        return np.where(self.inside > 0, now.s, np.inf)

    def switch(self, now: Point, hit: np.ndarray) -> dict[str, np.ndarray]:
        self.inside = np.where(hit, 0.0, self.inside)
        return {}


class Cap:
    """linear_norm: s = a/max(|Σa|, 1). Per row, `side` is the sign of Σa, and `mode` below, above or on the cap."""

    BELOW, ABOVE, ON = 0, 1, 2

    def __init__(self, z: np.ndarray):
        total = _total(z)
        self.side = np.where(total < 0, -1.0, 1.0)
        self.mode = np.where(np.abs(total) < 1.0, self.BELOW, self.ABOVE)

    def weights(self, z: np.ndarray) -> np.ndarray:
        return np.where(self.mode == self.ABOVE, z / (self.side * _total(z)), z)

    def pulled(self, now: Point) -> np.ndarray:
        above = (now.g - self.side * _total(now.s * now.g)) / (self.side * _total(now.z))
        held = now.g - now.g.mean(axis=-1, keepdims=True)
        return np.select([self.mode == self.ABOVE, self.mode == self.ON], [above, held], now.g)

    def guard(self, now: Point) -> np.ndarray:
        total = self.side * _total(now.z)
        below, above = self.speeds(now)
        # below, −Σa may reach the cap as well: then the side is the other one
        modes = [self.mode == self.ABOVE, self.mode == self.ON]
        return np.select(modes, [total - 1.0, np.minimum(below, -above)], 1.0 - np.abs(total))

    def switch(self, now: Point, hit: np.ndarray) -> dict[str, np.ndarray]:
        self.side = np.where(hit & (self.mode == self.BELOW), np.sign(_total(now.z)), self.side)
        below, above = self.speeds(now)
        free = np.where(below <= -above, self.BELOW, self.ABOVE)  # which of the two conditions to hold gave way
        held = (self.mode != self.ON) & (below > 0) & (above < 0)
        crossed = np.where(self.mode == self.BELOW, self.ABOVE, self.BELOW)
        after = np.where(self.mode == self.ON, free, np.where(held, self.ON, crossed))
        self.mode = np.where(hit, after, self.mode)
        return {}

    def speeds(self, now: Point) -> tuple[np.ndarray, np.ndarray]:
        """Return the speed of |Σa| at |Σa| = 1, by the formula below the cap and by the one above."""
        below = self.side * _total(now.g)
        # above, a′ = g − side ⟨s,g⟩, and s = a on the cap
        return below, below - now.z.shape[-1] * _total(now.z * now.g)


def _total(x: np.ndarray) -> np.ndarray:
    return x.sum(axis=-1, keepdims=True)
