"""An independent route to every flow: the loss written in torch, its gradient by autograd, and another kind of solver.

The solver is Gragg–Bulirsch–Stoer: modified midpoint steps extrapolated to order 2·K in raw time t, with the step
adapted to the difference of the last two columns. It shares neither formula, nor time variable, nor reduction, nor solver family with softmaxlab.polarization.
"""

import numpy as np
import torch

from softmaxlab.attention import MAPS, weights
from softmaxlab.polarization.problem import Problem

K = 7  # columns of the extrapolation: order 14
ERROR = 1e-13  # of a step, relative to the largest parameter


def torch_loss(problem: Problem, at: dict[str, torch.Tensor]) -> torch.Tensor:
    """L of the parameters, from the definitions."""
    if problem.model == "matrix":
        s = _weights(problem.map, at["A"])
        outputs = s @ at["V"]
    elif problem.model == "tied":
        s = _weights(problem.map, (at["U"] @ at["a"])[None])[0]
        outputs = (at["U"] @ s)[None]
    else:
        s = _weights(problem.map, at["a"][None])[0]
        outputs = (at["V"] @ s)[None]
    return torch.stack([_row_loss(problem, output) for output in outputs]).mean()


def _weights(name: str, rows: torch.Tensor) -> torch.Tensor:
    if MAPS[name].normalise == "sum" and name == "sum":
        return rows / rows.sum(dim=-1, keepdim=True)
    return weights(name, rows[None])[0]


def _row_loss(problem: Problem, output: torch.Tensor) -> torch.Tensor:
    given = {n: torch.tensor(getattr(problem, n)) for n in ("beta", "X", "target") if getattr(problem, n) is not None}
    match problem.loss:
        case "logistic":
            return torch.nn.functional.softplus(-given["beta"] @ output, threshold=1e9)
        case "square":
            return 0.5 * (given["beta"] - output).square().sum()
        case "regression":
            return (given["beta"] - given["X"] @ output).square().sum()
        case "cross_entropy":
            return -given["target"] @ torch.log_softmax(output, dim=0)
        case "kl":
            return -given["target"] @ torch.log(output)
        case "dataset":
            labels = given.get("target", torch.ones(len(given["X"]), dtype=output.dtype))
            return torch.nn.functional.softplus(-labels * (given["X"] @ output), threshold=1e9).mean()
    raise ValueError(problem.loss)


def gradient(problem: Problem, at: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """∇L by autograd."""
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in at.items()}
    slopes = torch.autograd.grad(torch_loss(problem, tensors), list(tensors.values()), allow_unused=True)
    return {n: np.zeros(x.shape) if g is None else g.numpy() for (n, x), g in zip(tensors.items(), slopes)}


def solve(problem: Problem, t_end: float) -> dict[str, np.ndarray]:
    """The parameters at t_end."""
    start = problem.start()
    moving = [name for name in start if name != problem.frozen()]
    ends = np.cumsum([start[name].size for name in moving])[:-1]

    def unpack(y):
        parts = zip(moving, np.split(y, ends))
        return start | {name: part.reshape(start[name].shape) for name, part in parts}

    def velocity(y):
        slopes = gradient(problem, unpack(y))
        return -np.concatenate([slopes[name].ravel() for name in moving])

    y = np.concatenate([start[name].ravel() for name in moving])
    t, h = 0.0, min(t_end, 0.1)
    while t < t_end:
        h = min(h, t_end - t)
        after, error = _extrapolated(velocity, y, h)
        ratio = error / (ERROR * np.abs(y).max())
        if ratio <= 1:
            t, y = t + h, after
        h *= np.clip(0.8 * np.maximum(ratio, 1e-30) ** (-1 / (2 * K - 1)), 0.1, 4.0)
    return unpack(y)


def _extrapolated(f, y, h):
    """One step of length h, and its error: midpoints with 2, 4, …, 2K substeps, extrapolated to substep 0 in h²."""
    first = f(y)
    table = []
    for k in range(1, K + 1):
        row = [_midpoint(f, y, first, h, 2 * k)]
        for j in range(1, k):
            row.append(row[-1] + (row[-1] - table[-1][j - 1]) / ((k / (k - j)) ** 2 - 1))
        table.append(row)
    error = np.abs(table[-1][-1] - table[-1][-2]).max()
    return table[-1][-1], error if np.isfinite(error) else 1e300


def _midpoint(f, y, first, h, n):
    step = h / n
    before, now = y, y + step * first
    for _ in range(n - 1):
        before, now = now, before + 2 * step * f(now)
    return 0.5 * (before + now + step * f(now))
