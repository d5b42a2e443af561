"""Descent as a plain NumPy loop, written from the formulas with explicit Jacobians: the truth for the kernels.

Rows: a [rows, p] (one row but in the matrix model), V [d, p]; β = V σ(z) for each row, L the mean of ℓ(β) over rows.
"""

from collections.abc import Callable

import numpy as np


def _sigmoid(z):
    return 1 / (1 + np.exp(-z))


# f and f'
ELEMENTWISE: dict[str, tuple[Callable, Callable]] = {
    "sigmoid": (_sigmoid, lambda z: _sigmoid(z) * (1 - _sigmoid(z))),
    "elu": (lambda z: np.where(z > 0, z + 1, np.exp(z)), lambda z: np.where(z > 0, 1.0, np.exp(z))),
    "linear": (lambda z: z, np.ones_like),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
    "square": (lambda z: z**2, lambda z: 2 * z),
    "abs": (np.abs, np.sign),
}
SHARES = {
    "softmax": (np.exp, np.exp),
    "bayes_softmax": (np.exp, np.exp),
    "softmax1": (np.exp, np.exp),  # with 1 more in the sum
    "uniform": (np.ones_like, np.zeros_like),
    "sum": ELEMENTWISE["linear"],
    **{f"{name}_norm": pair for name, pair in ELEMENTWISE.items() if name != "linear"},
}


def weights(map: str, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """s [rows, p] and J [rows, p, p], J_ij = ∂s_i/∂z_j."""
    unit = np.eye(z.shape[-1])
    if map in ELEMENTWISE:
        f, slope = ELEMENTWISE[map]
        return f(z), slope(z)[:, None, :] * unit
    if map == "linear_norm":
        total = z.sum(axis=-1)[:, None]
        bound = np.maximum(np.abs(total), 1)
        pull = z * np.where(np.abs(total) < 1, 0, np.sign(total) / bound**2)
        return z / bound, unit / bound[:, :, None] - pull[:, :, None]
    f, slope = SHARES[map]
    total = f(z).sum(axis=-1)[:, None] + (map == "softmax1")
    s = f(z) / total
    return s, slope(z)[:, None, :] * (unit - s[:, :, None]) / total[:, :, None]


def loss_gradient(loss: str, beta: np.ndarray, data: dict[str, np.ndarray]) -> np.ndarray:
    """∇ℓ [rows, d]."""
    if loss == "logistic":
        return -data["beta"] / (1 + np.exp(beta @ data["beta"]))[:, None]
    if loss == "square":
        return beta - data["beta"]
    if loss == "regression":
        return 2 * (beta @ data["X"].T - data["beta"]) @ data["X"]
    if loss == "cross_entropy":
        return np.exp(beta) / np.exp(beta).sum(axis=-1)[:, None] - data["target"]
    if loss == "kl":
        return -data["target"] / beta
    samples = data["target"][:, None] * data["X"]
    return -(1 / (1 + np.exp(beta @ samples.T))) @ samples / len(samples)


def gradients(problem: tuple[str, str, str], data: dict, a: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """∇_a and ∇_V; `problem` is (loss, map, model)."""
    loss, map, model = problem
    s, J = weights(map, a @ V.T if model == "tied" else a)
    g = loss_gradient(loss, s @ V.T, data) / len(a)
    h = (J.transpose(0, 2, 1) @ (g @ V)[:, :, None])[:, :, 0]
    if model == "tied":
        return h @ V, g.T @ s + h.T @ a
    return h, g.T @ s


def descend(problem: tuple[str, str, str], data: dict, a, V, lr: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """a and V after `steps` steps of gradient descent."""
    for _ in range(steps):
        grad_a, grad_V = gradients(problem, data, a, V)
        a, V = a - lr * grad_a, V - lr * grad_V
    return a, V
