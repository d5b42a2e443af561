"""Descents with noise in the gradient, all seeds at once: Gaussian, its norm a given part of the gradient's norm.

The noise of a run comes from its own seed, and is the same at every learning rate and for every optimizer.

The logistic value model by hand, since the engines of `Descent` are deterministic; without noise both agree (tested).
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.polarization import Descent

BLOCK = 256  # steps whose noise is drawn at once, since each seed has a generator of its own


def noisy_ends(specs: list[Descent], noise: float, seeds: Sequence[int]) -> np.ndarray:
    """The last weights [seed, token] of specs that differ in their start only."""
    spec = specs[0]
    beta, V, a = (np.array([getattr(one, name) for one in specs]) for name in ("beta", "V", "a"))
    parameters = [a, V]
    step = _Optimizer(spec, parameters)
    for number, drawn in enumerate(islice(_noise(seeds, a[0].size + V[0].size), spec.steps), start=1):
        a, V = parameters
        s = np.exp(a - a.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        u = np.einsum("kd,kdp->kp", beta, V)
        m = (s * u).sum(axis=1, keepdims=True)
        gamma = 1.0 / (1.0 + np.exp(m))  # −L'(⟨s, u⟩)
        gradients = [-gamma * s * (u - m), -gamma[..., None] * beta[..., None] * s[:, None, :]]
        parts = np.split(drawn, [a[0].size], axis=1)
        gradients = [_disturbed(g, x.reshape(g.shape), noise) for g, x in zip(gradients, parts)]
        parameters = step(parameters, gradients, number)
    a = parameters[0]
    s = np.exp(a - a.max(axis=1, keepdims=True))
    return s / s.sum(axis=1, keepdims=True)


def _noise(seeds: Sequence[int], size: int) -> Iterator[np.ndarray]:
    """Yield the noise of each step, one row for each seed."""
    generators = [generator(seed, "gradient noise") for seed in seeds]
    while True:
        block = np.stack([rng.standard_normal((BLOCK, size)) for rng in generators], axis=1)
        yield from block


def _disturbed(gradient: np.ndarray, drawn: np.ndarray, noise: float) -> np.ndarray:
    axes = tuple(range(1, gradient.ndim))
    size, length = (np.sqrt((x**2).sum(axis=axes, keepdims=True)) for x in (gradient, drawn))
    return gradient + noise * size / length * drawn


class _Optimizer:
    """The four optimizers, by the rules of torch."""

    def __init__(self, spec: Descent, parameters: list[np.ndarray]):
        self.spec = spec
        self.first = [np.zeros_like(x) for x in parameters]
        self.second = [np.zeros_like(x) for x in parameters]

    def __call__(self, parameters: list[np.ndarray], gradients: list[np.ndarray], number: int) -> list[np.ndarray]:
        return [self._moved(i, x, g, number) for i, (x, g) in enumerate(zip(parameters, gradients))]

    def _moved(self, i: int, x: np.ndarray, g: np.ndarray, number: int) -> np.ndarray:
        spec = self.spec
        if spec.optimizer == "adamw":
            x = x * (1.0 - spec.lr * spec.weight_decay)
        else:
            g = g + spec.weight_decay * x
        if spec.optimizer == "gd":
            return x - spec.lr * g
        if spec.optimizer == "momentum":
            self.first[i] = spec.momentum * self.first[i] + g
            return x - spec.lr * self.first[i]
        beta1, beta2 = spec.betas
        self.first[i] = beta1 * self.first[i] + (1.0 - beta1) * g
        self.second[i] = beta2 * self.second[i] + (1.0 - beta2) * g**2
        root = np.sqrt(self.second[i] / (1.0 - beta2**number)) + spec.eps
        return x - spec.lr / (1.0 - beta1**number) * self.first[i] / root
