"""The flow as a vector field in log-time: dy/dτ = −e^τ ∇L with τ = log(1 + t), so dt = e^τ dτ.

y holds the parameters that move, flat, and last the strength Γ where the loss has a γ: dΓ/dτ = e^τ γ.

Chart: for f = x² the losers' scores shrink like e^{−log²t}, so y holds log|a| in place of a. With ℓ = log|a|,
ℓ′ = a′/a, which is 2 (g − ⟨s,g⟩)/Σa² for the share and 2 g for the plain square.
"""

from copy import deepcopy

import numpy as np

from softmaxlab.polarization.flow.kinks import Cap, Kinks, Point, Support, Zeros
from softmaxlab.polarization.flow.tied_kinks import TiedCap, TiedSupport, TiedZeros
from softmaxlab.polarization.losses import Loss
from softmaxlab.polarization.maps import SOFTMAX, VectorMap, centred
from softmaxlab.polarization.models import Parameters
from softmaxlab.polarization.problem import Problem

DEAD = -1e6  # stands for log 0: its exponential is 0, and it is finite for the solver

LOG_MAPS = {
    "square": VectorMap(lambda x: np.exp(2.0 * x), lambda x, s, g: 2.0 * g),
    "square_norm": VectorMap(
        lambda x: SOFTMAX.weights(2.0 * x),
        lambda x, s, g: 2.0 * centred(s, g) / np.exp(2.0 * x).sum(axis=-1, keepdims=True),
    ),
}


class Field:
    """`field(tau, y)` is dy/dτ. With kinks it has a mode, which `switch` changes."""

    def __init__(self, problem: Problem, loss: Loss, with_strength: bool):
        self.problem, self.loss, self.with_strength = problem, loss, with_strength
        self.model = problem.model_of()
        self.map = problem.map_of()
        self.kinks = kinks_of(problem)
        self.signs = None
        start = problem.start()
        if problem.map in LOG_MAPS and problem.model != "tied" and problem.freeze != "a":
            self.map, self.signs = LOG_MAPS[problem.map], np.sign(start[self.model.scored])
        self._lay_out(start)

    def _lay_out(self, start: Parameters) -> None:
        self.still = {name: value for name, value in start.items() if name == self.problem.frozen()}
        self.places: dict[str, tuple[slice, tuple[int, ...]]] = {}
        end = 0
        for name, value in start.items():
            if name not in self.still:
                self.places[name] = (slice(end, end + value.size), value.shape)
                end += value.size
        self.size = end + self.with_strength
        self.start = np.zeros(self.size)
        self._write(self.start, {name: self._to_chart(name, start[name]) for name in self.places})

    def __call__(self, tau: float, y: np.ndarray) -> np.ndarray:
        now, output = self._point(tau, y)
        x = self.kinks.pulled(now) if self.kinks else self.map.pullback(now.z, now.s, now.g)
        dy = np.empty(self.size)
        self._write(dy, self.model.push(now.at, now.s, now.r, x))
        if self.with_strength:
            dy[-1] = self.loss.gamma(output, tau)
        return dy

    def mode(self) -> Kinks | None:
        """A copy of the present mode, to be put back as `kinks`."""
        return deepcopy(self.kinks)

    def margin_growth(self, y: np.ndarray) -> float:
        """dm/dt = ‖velocity‖² of a linear loss, whose m is −L."""
        velocity = self(0.0, y)
        if self.signs is not None:
            where, _ = self.places[self.model.scored]
            velocity[where] *= np.exp(y[where])  # a′ = a ℓ′
        return float(velocity @ velocity)

    def velocity(self, x: np.ndarray) -> np.ndarray:
        """dx/dt of the parameters that move, flat and out of the chart; in the present mode if there are kinks."""
        if self.kinks:
            return self(0.0, np.append(x, 0.0) if self.with_strength else x)[: x.size]
        at = {name: x[where].reshape(shape) for name, (where, shape) in self.places.items()} | self.still
        velocity = self.model.velocity(self.loss, self.problem.map_of(), at)
        return np.concatenate([velocity[name].ravel() for name in self.places])

    def unit(self, y: np.ndarray) -> float:
        """The size of a guard that counts as 1: guards of small scores are small."""
        at = {name: y[where].reshape(shape) for name, (where, shape) in self.places.items()} | self.still
        return min(1.0, float(np.abs(self.model.scores(at)).max()))

    def guard(self, tau: float, y: np.ndarray) -> np.ndarray:
        """Positive while the mode lasts, flat."""
        with np.errstate(all="ignore"):
            return self._modes().guard(self._guarded_point(tau, y)).ravel()

    def switch(self, tau: float, y: np.ndarray, hit: np.ndarray) -> np.ndarray:
        """Enter the next mode, where the guards `hit` are at their root; the state to go on from."""
        y = y.copy()
        with np.errstate(all="ignore"):
            now = self._guarded_point(tau, y)
            self._write(y, self._modes().switch(now, hit.reshape(self._modes().guard(now).shape)))
        return y

    def parameters(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """All parameters over time, frozen ones included, from states [t, size]."""
        moving = {
            name: self._from_chart(name, rows[:, where].reshape(-1, *shape))
            for name, (where, shape) in self.places.items()
        }
        return moving | {name: np.repeat(x[None], len(rows), axis=0) for name, x in self.still.items()}

    def _point(self, tau: float, y: np.ndarray) -> tuple[Point, np.ndarray]:
        at = {name: y[where].reshape(shape) for name, (where, shape) in self.places.items()} | self.still
        z = self.model.scores(at)
        s = (self.kinks or self.map).weights(z)
        output = self.model.output(at, s)
        r = -self.loss.gradient(output, tau)
        return Point(at, z, s, r, self.model.signal(at, r)), output

    def _guarded_point(self, tau: float, y: np.ndarray) -> Point:
        # Some guards are velocities. Of a loss that settles they are taken in t, not in τ: once r is 0 but for
        # rounding, e^τ r is noise that grows without end.
        return self._point(0.0 if self.loss.settles else tau, y)[0]

    def _modes(self) -> Kinks:
        if self.kinks is None:
            raise ValueError("a smooth map has no modes")
        return self.kinks

    def _write(self, y: np.ndarray, values: Parameters) -> None:
        for name, (where, _) in self.places.items():
            if name in values:
                y[where] = values[name].ravel()

    def _to_chart(self, name: str, value: np.ndarray) -> np.ndarray:
        if self.signs is None or name != self.model.scored:
            return value
        return np.log(np.abs(value), where=value != 0, out=np.full(value.shape, DEAD))

    def _from_chart(self, name: str, rows: np.ndarray) -> np.ndarray:
        return self.signs * np.exp(rows) if self.signs is not None and name == self.model.scored else rows


def kinks_of(problem: Problem) -> Kinks | None:
    """The problem's map with its modes, if its velocity jumps somewhere the scores can go."""
    model, name, tied = problem.model_of(), problem.map, problem.model == "tied"
    if problem.frozen() == model.scored and not tied:
        return None
    z = model.scores(problem.start())
    a_moves = problem.freeze != "a"
    if name in ("relu", "relu_norm", "abs", "abs_norm"):
        kind = {"absolute": name.startswith("abs"), "share": name.endswith("_norm")}
        return TiedZeros(z, a_moves=a_moves, **kind) if tied else Zeros(z, scored=model.scored, **kind)
    if name == "linear_norm":
        return TiedCap(z, a_moves) if tied else Cap(z)
    if name == "sparsemax":
        s = problem.map_of().weights(z)
        return TiedSupport(s, a_moves) if tied else Support(s)
    return None
