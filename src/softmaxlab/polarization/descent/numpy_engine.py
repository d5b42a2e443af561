"""Descent step by step in NumPy, for what is not compiled: sparsemax, entmax15, and maps or losses of your own.

The gradients are those of models.py (from autograd where the map or loss is a torch function). About a hundred times
slower than the kernels: 20 to 500 µs a step.
"""

from typing import Any

import numpy as np

from softmaxlab.polarization.descent.compiled import optimizers
from softmaxlab.polarization.descent.compiled.gradient import HUGE
from softmaxlab.polarization.descent.settings import DescentSettings


class Plain:
    """An engine (engine.py) that takes every step in NumPy."""

    path = "plain"

    def __init__(self, spec: DescentSettings):
        self.spec, self.strength = spec, 0.0
        self.has_strength = spec.has_strength()
        self.map, self.model = spec.map_of(), spec.model_of()
        self.loss: Any = spec.loss_of()  # with a γ if it has a strength
        self.at = {name: np.array(value, order="C") for name, value in spec.start().items()}
        self.memory = {name: np.zeros((2, x.size)) for name, x in self.at.items()}

    def advance(self, start: int, stop: int) -> int:
        for step in range(start, stop):
            z = self.model.scores(self.at)
            s = self.map.weights(z)
            output = self.model.output(self.at, s)
            velocity = self.model.pull(self.map, self.at, z, s, -self.loss.gradient(output))
            if not all(_sane(x) for x in (*self.at.values(), *velocity.values(), self.loss.value(output))):
                return step
            if self.has_strength:
                self.strength += self.spec.lr * float(self.loss.gamma(output))
            self._step({name: -v for name, v in velocity.items()}, step)
        return stop

    def _step(self, grads: dict[str, np.ndarray], step: int) -> None:
        code, settings = optimizers.CODES[self.spec.optimizer], optimizers.settings(self.spec)
        for name, x in self.at.items():
            if name != self.spec.frozen():
                memory = self.memory[name]
                optimizers.update(code, settings, x.ravel(), grads[name].ravel(), memory[0], memory[1], step + 1)

    def parameters(self) -> dict[str, np.ndarray]:
        return self.at


def _sane(x: np.ndarray) -> bool:
    return bool((np.abs(x) < HUGE).all())
