"""When a flow whose loss settles has come to rest, so that it need not be followed to t_end.

After convergence nothing moves but rounding, which e^τ blows up: no solver gets to t = 1e100 that way. The flow is at
rest when, over the last two decades of t, no parameter has moved by more than the solver's own error, and the gradient
has fallen to a millionth of what it was. What could still move then has a rate below rtol/t.
"""

from collections.abc import Callable

import numpy as np

WINDOW = np.log(100.0)  # in τ
FALLEN = 1e-6
EVERY = 0.5  # in τ, between looks: each costs an evaluation


class Rest:
    """`rest(tau, y)` is True once the flow with velocity `f` in τ is at rest."""

    def __init__(self, f: Callable[[float, np.ndarray], np.ndarray], rtol: float):
        self.f, self.rtol = f, rtol
        self.fastest = 0.0
        self.past: list[tuple[float, np.ndarray]] = []

    def __call__(self, tau: float, y: np.ndarray) -> bool:
        if self.past and tau < self.past[-1][0] + EVERY:
            return False
        speed = float(np.abs(self.f(0.0, y)).max())  # at τ = 0 the velocity is that in t
        self.fastest = max(self.fastest, speed)
        self.past.append((tau, y.copy()))
        while len(self.past) > 1 and self.past[1][0] <= tau - WINDOW:
            self.past.pop(0)
        if self.past[0][0] > tau - WINDOW or speed > FALLEN * self.fastest:
            return False
        moved = max(float(np.abs(y - then).max()) for _, then in self.past)
        return moved <= self.rtol * float(np.abs(y).max())
