"""Decide when a flow whose loss settles has come to rest, so that it need not be followed to t_end.

After convergence nothing moves but rounding, which e^τ blows up: no solver gets to t = 1e100 that way. The flow is at
rest when every component of its velocity is as small as rounding alone would make it: no larger than what changes when
the state is shifted by a few units in the last place. A slow component keeps a velocity far above that, however slow.
"""

from collections.abc import Callable

import numpy as np

Velocity = Callable[[np.ndarray], np.ndarray]

EVERY = 0.5  # in τ, between looks: each costs a few evaluations
SHIFTS = 4  # states tried beside the present one
RELATIVE = 16 * np.finfo(float).eps
ABSOLUTE = 1e-15  # the solver's own least error: what is this close to 0 has decayed


class Rest:
    """`rest(tau, y)` is True once the flow with velocity `f` in τ is at rest."""

    def __init__(self, f: Callable[[float, np.ndarray], np.ndarray]):
        self.f = f
        self.looked = -np.inf
        self.signs = np.random.default_rng(0)

    def __call__(self, tau: float, y: np.ndarray) -> bool:
        if tau < self.looked + EVERY:
            return False
        self.looked = tau
        with np.errstate(all="ignore"):
            velocity = self._velocity(y)
            return bool((np.abs(velocity) <= rounding(self._velocity, y, velocity, self.signs)).all())

    def _velocity(self, y: np.ndarray) -> np.ndarray:
        return self.f(0.0, y)  # at τ = 0 the velocity is that in t


def rounding(velocity: Velocity, y: np.ndarray, here: np.ndarray, signs: np.random.Generator) -> np.ndarray:
    """The size that rounding alone gives each component of the velocity, which at y is `here`."""
    shift = RELATIVE * np.abs(y) + ABSOLUTE
    shifted = [y + signs.choice((-1.0, 1.0), y.size) * shift for _ in range(SHIFTS)]
    return np.max([np.abs(velocity(other) - here) for other in shifted], axis=0)
