"""The kernels as engines of engine.py: arrays laid out once, then moved in place."""

import numpy as np

from softmaxlab.polarization.descent.compiled import gradient, loop, losses, maps, optimizers, reduced
from softmaxlab.polarization.descent.settings import DescentSettings


class Full:
    """Every compiled loss, map, model and optimizer."""

    path = "compiled"

    def __init__(self, spec: DescentSettings):
        self.spec, self.strength = spec, 0.0
        model = spec.model_of()
        start = spec.start()
        self.transposed = spec.model != "matrix"  # W has one row per token
        W = np.array(start[model.valued].T if self.transposed else start[model.valued], order="C")
        a = np.array(np.atleast_2d(start[model.scored]), order="C")
        self.tensors = (a, W, a.ravel(), W.ravel())
        grads = (np.zeros_like(a), np.zeros_like(W))
        data = _data(spec)
        p, d = W.shape
        self.arguments = (
            (gradient.CODES[spec.model], maps.CODES[spec.map], losses.CODES[spec.loss]),
            data,
            self.tensors,
            (*grads, grads[0].ravel(), grads[1].ravel()),
            (*np.empty((5, p)), *np.empty((2, d)), np.empty(len(data[1]))),
            optimizers.CODES[spec.optimizer],
            optimizers.settings(spec),
            (*np.zeros((2, a.size)), *np.zeros((2, W.size))),
            (spec.frozen() != model.scored, spec.frozen() != model.valued),
        )

    def advance(self, start: int, stop: int) -> int:
        reached, total = loop.advance(*self.arguments, start, stop)
        self.strength += self.spec.lr * total
        return reached

    def parameters(self) -> dict[str, np.ndarray]:
        a, W = self.tensors[:2]
        model = self.spec.model_of()
        values = W.T if self.transposed else W
        return {model.valued: values, model.scored: a.reshape(self.spec.start()[model.scored].shape)}


class Reduced:
    """The logistic value model under plain gradient descent, in (a, u)."""

    path = "reduced"

    def __init__(self, spec: DescentSettings):
        self.spec, self.strength = spec, 0.0
        self.a, self.V0, self.beta = np.array(spec.a), np.array(spec.V), np.array(spec.beta)
        self.u0 = self.beta @ self.V0
        self.u = self.u0.copy()
        self.b = float(self.beta @ self.beta)
        self.keep = 1.0 - spec.lr * spec.weight_decay
        self.kept = 1.0  # keep^step
        self.work = (np.empty_like(self.a), np.empty_like(self.a))

    def advance(self, start: int, stop: int) -> int:
        rates = (self.spec.lr, self.keep)
        made, total = reduced.advance(maps.CODES[self.spec.map], rates, self.b, self.a, self.u, self.work, stop - start)
        self.strength += self.spec.lr * total
        self.kept *= self.keep**made
        return start + made

    def parameters(self) -> dict[str, np.ndarray]:
        moved = np.outer(self.beta, (self.u - self.kept * self.u0) / self.b)
        return {"V": self.kept * self.V0 + moved, "a": self.a}


def _data(spec: DescentSettings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(y, X, Xᵀ) as the losses want them, of one type whatever the loss."""
    y = spec.target if spec.beta is None else spec.beta
    X = np.zeros((1, 1)) if spec.X is None else spec.X
    if spec.loss == "dataset" and spec.target is not None:
        X = spec.target[:, None] * X
    if spec.loss == "regression" and y is not None:
        y, X = 2 * y @ X, 2 * X.T @ X
    return np.zeros(1) if y is None else np.array(y), np.array(X, order="C"), np.array(X.T, order="C")
