"""An independent route to every flow: the loss written in torch, its gradient by autograd, and another kind of solver.

Smooth maps: Gragg–Bulirsch–Stoer, that is modified midpoint steps extrapolated to order 2·K in raw time t, the step
adapted to the difference of the last two columns. It shares neither formula, nor time variable, nor reduction, nor
solver family with softmaxlab.polarization. Maps that kill scores: SciPy's events on a loss of the living scores only.
"""

from collections.abc import Callable

import numpy as np
import torch
from scipy.integrate import solve_ivp

from softmaxlab.attention import weights
from softmaxlab.polarization import Problem

K = 7  # columns of the extrapolation: order 14
ERROR = 1e-13  # of a step, relative to the largest parameter


def torch_loss(problem: Problem, at: dict[str, torch.Tensor], sigma: Callable | None = None) -> torch.Tensor:
    """L of the parameters, from the definitions; `sigma` maps rows of scores to weights."""
    sigma = sigma or _sigma(problem.map)
    if problem.model == "matrix":
        outputs = sigma(at["A"]) @ at["V"]
    elif problem.model == "tied":
        outputs = (at["U"] @ sigma((at["U"] @ at["a"])[None])[0])[None]
    else:
        outputs = (at["V"] @ sigma(at["a"][None])[0])[None]
    return torch.stack([_row_loss(problem, output) for output in outputs]).mean()


def _sigma(name: str) -> Callable:
    if name == "sum":  # softmaxlab.attention gives an empty row where Σ = 0, which has no gradient to compare
        return lambda rows: rows / rows.sum(dim=-1, keepdim=True)
    return lambda rows: weights(name, rows[None])[0]


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


def gradient(problem: Problem, at: dict[str, np.ndarray], sigma: Callable | None = None) -> dict[str, np.ndarray]:
    """∇L by autograd."""
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in at.items()}
    slopes = torch.autograd.grad(torch_loss(problem, tensors, sigma), list(tensors.values()), allow_unused=True)
    return {n: np.zeros(x.shape) if g is None else g.numpy() for (n, x), g in zip(tensors.items(), slopes)}


class Flat:
    """The moving parameters of a problem in one vector."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.start = problem.start()
        self.moving = [name for name in self.start if name != problem.frozen()]
        self.ends = np.cumsum([self.start[name].size for name in self.moving])[:-1]

    def pack(self, at: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([at[name].ravel() for name in self.moving])

    def unpack(self, y: np.ndarray) -> dict[str, np.ndarray]:
        parts = zip(self.moving, np.split(y, self.ends))
        return self.start | {name: part.reshape(self.start[name].shape) for name, part in parts}

    def velocity(self, y: np.ndarray, sigma: Callable | None = None) -> np.ndarray:
        return -self.pack(gradient(self.problem, self.unpack(y), sigma))


def solve(problem: Problem, t_end: float) -> dict[str, np.ndarray]:
    """The parameters at t_end, for a smooth map."""
    flat = Flat(problem)
    y, t, h = flat.pack(flat.start), 0.0, min(t_end, 0.1)
    with np.errstate(all="ignore"):  # a step that was too long may overflow; its error then is not finite
        while t < t_end:
            h = min(h, t_end - t)
            after, error = _extrapolated(flat.velocity, y, h)
            ratio = error / (ERROR * np.abs(y).max()) if np.isfinite(error) else 1e99
            if ratio <= 1:
                t, y = t + h, after
            h *= np.clip(0.8 * max(ratio, 1e-30) ** (-1 / (2 * K - 1)), 0.1, 4.0)
    return flat.unpack(y)


def _extrapolated(f: Callable, y: np.ndarray, h: float) -> tuple[np.ndarray, float]:
    """One step of length h, and its error: midpoints with 2, 4, …, 2K substeps, extrapolated to substep 0 in h²."""
    first = f(y)
    table: list[list[np.ndarray]] = []
    for k in range(1, K + 1):
        row = [_midpoint(f, y, first, h, 2 * k)]
        for j in range(1, k):
            row.append(row[-1] + (row[-1] - table[-1][j - 1]) / ((k / (k - j)) ** 2 - 1))
        table.append(row)
    return table[-1][-1], np.abs(table[-1][-1] - table[-1][-2]).max()


def _midpoint(f: Callable, y: np.ndarray, first: np.ndarray, h: float, n: int) -> np.ndarray:
    step = h / n
    before, now = y, y + step * first
    for _ in range(n - 1):
        before, now = now, before + 2 * step * f(now)
    return 0.5 * (before + now + step * f(now))


def solve_with_deaths(problem: Problem, t_end: float) -> tuple[dict[str, np.ndarray], int]:
    """The parameters at t_end, and the number of deaths, for relu, abs, their shares and sparsemax (not tied).

    The loss is that of the living scores: `keep` masks the others. |x| is 1 · x on |a|, and the signs are put back.
    """
    flat, scored = Flat(problem), "A" if problem.model == "matrix" else "a"
    at = dict(flat.start)
    signs = np.where(at[scored] < 0, -1.0, 1.0) if problem.map.startswith("abs") else np.ones_like(at[scored])
    at[scored] = signs * at[scored]
    keep = _sigma(problem.map)(torch.tensor(at[scored]).reshape(1, -1, at[scored].shape[-1])).numpy() > 0
    keep = keep.reshape(at[scored].shape)
    t, deaths = 0.0, 0
    while t < t_end:
        sigma = _living(problem.map, torch.tensor(keep, dtype=torch.float64))
        events = [_death(flat, sigma, scored, tuple(i)) for i in np.argwhere(keep)]
        run = solve_ivp(
            lambda _, y, sigma=sigma: flat.velocity(y, sigma),
            (t, t_end), flat.pack(at), "DOP853", events=events, rtol=1e-12, atol=1e-14,
        )  # fmt: skip
        t, at = run.t[-1], flat.unpack(run.y[:, -1])
        for i, hits in zip(np.argwhere(keep), run.t_events):
            if len(hits):
                deaths += 1
                keep[tuple(i)] = False
                if problem.map != "sparsemax":
                    at[scored] = at[scored].copy()
                    at[scored][tuple(i)] = 0.0
    at[scored] = signs * at[scored]
    return at, deaths


def _living(name: str, keep: torch.Tensor) -> Callable:
    def sigma(rows: torch.Tensor) -> torch.Tensor:
        rows = keep.reshape(rows.shape) * rows
        if name == "sparsemax":
            size = keep.reshape(rows.shape).sum(dim=-1, keepdim=True)
            return keep.reshape(rows.shape) * (rows - (rows.sum(dim=-1, keepdim=True) - 1) / size)
        return rows / rows.sum(dim=-1, keepdim=True) if name.endswith("_norm") else rows

    return sigma


def _death(flat: Flat, sigma: Callable, scored: str, i: tuple[int, ...]) -> Callable:
    def weight(_: float, y: np.ndarray) -> float:
        rows = torch.tensor(flat.unpack(y)[scored])
        return float(sigma(rows.reshape(1, -1, rows.shape[-1])).reshape(rows.shape)[i])

    weight.terminal, weight.direction = True, -1
    return weight
