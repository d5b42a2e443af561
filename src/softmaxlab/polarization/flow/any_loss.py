"""Gradient flow of any differentiable torch loss of named tensors: θ′ = −∇L(θ), in log-time as in field.py."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmaxlab.core.arrays import frozen_array
from softmaxlab.core.ode import Run, integrate
from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.polarization.certificate import BALANCE, HALF, Motion, balance_drift, certificate, failed, movement
from softmaxlab.polarization.equilibrium import Rest
from softmaxlab.polarization.flow.flow import JACOBIAN_LIMIT, notes_of, run_with, times


def gradient_flow(
    loss_fn: Callable[..., Tensor], params: Mapping[str, Any], t_end: float, points: int = 400, rtol: float = 1e-9
) -> Result:
    """The flow of `loss_fn` from `params` to `t_end`: t, loss and each tensor over time, under its own name.

    `loss_fn` takes the tensors by name, `loss_fn(V=…, a=…)`, or all of them in one dict; it returns a scalar. The
    tensors are float64. They may not be called `t` or `loss`. notes["certificate"] says whether the flow is at rest.
    """
    start = _checked(params, t_end, points, rtol)
    objective = _Objective(loss_fn, start)
    solver = "LSODA" if objective.size <= JACOBIAN_LIMIT else "DOP853"
    run = run_with(solver, rtol, look=float(np.log1p(HALF * t_end)))
    t = times(float(t_end), points)
    y = np.concatenate([value.ravel() for value in start.values()])
    rows = np.concatenate(list(integrate(objective, y, np.log1p(t), run, rest=Rest(objective))))
    losses, slopes = zip(*(objective.value_and_slope(row) for row in rows))
    arrays = {"t": t[: len(rows)], "loss": losses}
    axes: dict[str, tuple[str, ...]] = {"t": ("t",), "loss": ("t",)}
    for name, value in objective.split(rows).items():
        arrays[name] = value
        axes[name] = ("t", *(f"{name}_{i}" for i in range(value.ndim - 1)))
    certified = _certified(objective, y, t, np.array(losses), np.square(slopes).sum(axis=1), run)
    notes = notes_of(run) | {"converged": certified["kind"] == "minimum", "certificate": certified}
    return Result(arrays, axes, run.status, notes)


def _certified(
    objective: "_Objective", start: np.ndarray, t: np.ndarray, loss: np.ndarray, squared: np.ndarray, run: Run
) -> dict[str, Any]:
    """The certificate of a flow of which ‖∇L‖² is `squared` at the times t."""
    if not run.status.ok or run.looked is None:
        return failed(run.status)
    blocks, last, half = objective.blocks(), run.y, run.looked
    sizes = {name: max(_norm(start[part]), _norm(last[part])) or 1.0 for name, part in blocks.items()}
    earlier, now = ({name: y[part] for name, part in blocks.items()} for y in (half, last))
    moved = movement(earlier, now, sizes)
    before_rest = t <= np.expm1(run.tau)
    drift = balance_drift(t[before_rest], loss[before_rest], (t * squared)[before_rest])
    drifts = {} if drift is None else {BALANCE: drift}
    end = float(t[-1])
    motion = Motion("t", end, HALF * end, moved, last, lambda y: objective(0.0, y), blocks, sizes, settles=True)
    return certificate(motion, drifts, drifts)


def _norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(x))


def _checked(params: Mapping[str, Any], t_end: float, points: int, rtol: float) -> dict[str, np.ndarray]:
    if not isinstance(params, Mapping) or not params or set(params) & {"t", "loss"}:
        raise SpecError("params must map names (not 't' or 'loss') to tensors, at least one")
    if not (np.isfinite(t_end) and t_end > 0):
        raise SpecError(f"t_end must be positive and finite, got {t_end}")
    if points < 2:
        raise SpecError(f"points must be at least 2, got {points}")
    if not 1e-13 <= rtol <= 1e-2:
        raise SpecError(f"rtol must be between 1e-13 and 0.01, got {rtol}")
    try:
        return {name: frozen_array(value) for name, value in params.items()}
    except ValueError as error:
        raise SpecError(f"params: {error}") from None


class _Objective:
    """L and −e^τ ∇L of all tensors in one flat vector."""

    def __init__(self, loss_fn: Callable[..., Tensor], start: Mapping[str, np.ndarray]):
        self.loss_fn = loss_fn
        self.shapes = {name: value.shape for name, value in start.items()}
        self.ends = np.cumsum([value.size for value in start.values()])
        self.size = int(self.ends[-1])
        self.by_name = _takes_names(loss_fn, start)
        self._check(np.concatenate([value.ravel() for value in start.values()]))

    def __call__(self, tau: float, y: np.ndarray) -> np.ndarray:
        return -np.exp(tau) * self.value_and_slope(y)[1]

    def value_and_slope(self, y: np.ndarray) -> tuple[float, np.ndarray]:
        """L and ∇L."""
        flat, loss = self._evaluate(y)
        (slope,) = torch.autograd.grad(loss, flat)
        return float(loss.detach()), slope.numpy()

    def blocks(self) -> dict[str, slice]:
        """Return which part of the vector is which tensor."""
        return {name: slice(a, b) for name, a, b in zip(self.shapes, [0, *self.ends[:-1].tolist()], self.ends.tolist())}

    def split(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Each tensor over time, from flat rows."""
        parts = np.split(rows, self.ends[:-1], axis=1)
        return {name: part.reshape(-1, *shape) for part, (name, shape) in zip(parts, self.shapes.items())}

    def _evaluate(self, y: np.ndarray) -> tuple[Tensor, Tensor]:
        flat = torch.tensor(y, dtype=torch.float64, requires_grad=True)
        sizes = np.diff(self.ends, prepend=0).tolist()
        tensors = {n: part.reshape(shape) for part, (n, shape) in zip(flat.split(sizes), self.shapes.items())}
        return flat, self.loss_fn(**tensors) if self.by_name else self.loss_fn(tensors)

    def _check(self, y: np.ndarray) -> None:
        try:
            _, loss = self._evaluate(y)
        except (TypeError, KeyError, RuntimeError, ValueError) as error:
            raise SpecError(f"loss_fn fails on the given tensors: {error}") from error
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise SpecError("loss_fn must return one number, as a tensor that depends on the given ones")
        if not bool(torch.isfinite(loss)):
            raise SpecError(f"loss_fn is not finite at the start, got {float(loss.detach())}")


def _takes_names(loss_fn: Callable, start: Mapping[str, np.ndarray]) -> bool:
    """Whether the function takes the tensors as keywords, rather than one dict."""
    parameters = inspect.signature(loss_fn).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return True
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return set(start) <= names
