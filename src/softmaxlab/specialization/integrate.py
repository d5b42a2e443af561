"""Solve dy/dτ = velocity(y) on a grid of times: SciPy's adaptive solvers, or Euler's steps of fixed length.

The error of a flow comes from its samples, not from its steps, so the tolerances may be coarse. Euler is here because
the paper uses it, and because no other solver can have new samples at every step.
"""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from softmaxlab.core.result import Outcome, Status

Solver = Literal["RK45", "DOP853", "LSODA", "Euler"]
Velocity = Callable[[float, np.ndarray], np.ndarray]
BUDGET = 100_000  # gradients; LSODA takes a few hundred to tau = 1e5 with one-hot spikes, Euler as many as it has steps
LARGE = 1e50  # a state beyond this has diverged; its loss and the square of that are still finite

stopping: ContextVar[threading.Event | None] = ContextVar("stopping", default=None)  # set: end the flows of this thread


class _Stop(Exception):
    """Ends a solver from within, where it would try for ever, with a status."""


@dataclass
class Run:
    """How to integrate, and how it went."""

    solver: Solver
    rtol: float
    atol: float
    step: float
    evaluations: int = 0
    jacobians: int = 0
    status: Status = field(default_factory=Status)


@dataclass
class Step:
    """One step of a solver: where it ends, the state there, and the states [time, size] at times within it."""

    tau: float
    y: np.ndarray
    between: Callable[[np.ndarray], np.ndarray]


def integrate(
    velocity: Velocity, jacobian: Velocity, y: np.ndarray, grid: np.ndarray, run: Run
) -> Iterator[np.ndarray]:
    """States [time, size] at the times of `grid`, in parts, the start first; not all of them if `run.status` fails.

    `jacobian` is ∂velocity/∂y [size, size], at least roughly; LSODA uses it when it turns implicit.
    """

    def counted(tau: float, y: np.ndarray) -> np.ndarray:
        _check_budget(tau, run)
        run.evaluations += 1
        with np.errstate(all="ignore"):  # what is not finite becomes a status
            slope = velocity(tau, y)
        if tau == 0.0 and not np.isfinite(slope).all():  # no solver has a step to shorten yet
            raise _Stop(Status(Outcome.DIVERGED, "the gradient is not finite at the start"))
        return slope

    def counted_jacobian(tau: float, y: np.ndarray) -> np.ndarray:
        run.jacobians += 1
        with np.errstate(all="ignore"):
            return jacobian(tau, y)

    end = float(grid[-1])
    adaptive = run.solver != "Euler"
    steps = _adaptive(counted, counted_jacobian, y, end, run) if adaptive else _euler(counted, y, end, run)
    yield y[None]
    try:
        yield from _on_grid(steps, grid, run)
    except _Stop as stop:
        run.status = stop.args[0]


def _on_grid(steps: Iterator[Step], grid: np.ndarray, run: Run) -> Iterator[np.ndarray]:
    """The states at the times of the grid after the first, until a step has diverged."""
    done = 1
    for step in steps:
        if not (np.abs(step.y) < LARGE).all():  # also NaN
            grown = f"the order parameters grow beyond {LARGE:.0e} at tau = {step.tau:.6g}"
            run.status = Status(Outcome.DIVERGED, grown)
            return
        upto = int(np.searchsorted(grid, step.tau, side="right"))
        if upto > done:
            rows = step.between(grid[done:upto])
            if grid[upto - 1] == step.tau:
                rows[-1] = step.y  # not through the interpolant
            yield rows
        done = upto


def _check_budget(tau: float, run: Run) -> None:
    if (event := stopping.get()) is not None and event.is_set():
        raise _Stop(Status(Outcome.FAILED, f"stopped from outside at tau = {tau:.6g}"))
    if run.evaluations >= BUDGET:
        raise _Stop(Status(Outcome.LIMIT, f"{run.solver} stopped at tau = {tau:.6g} after {run.evaluations} gradients"))


def _adaptive(velocity: Velocity, jacobian: Velocity, y: np.ndarray, end: float, run: Run) -> Iterator[Step]:
    from scipy import integrate as scipy_integrate

    options = {"rtol": run.rtol, "atol": run.atol} | ({"jac": jacobian} if run.solver == "LSODA" else {})
    solver: Any = getattr(scipy_integrate, run.solver)(velocity, 0.0, y, end, **options)
    while solver.status == "running":
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LSODA warns where it fails; the status says it
            message = solver.step()
        if solver.status == "failed":
            run.status = _why(solver, run, message)
            return
        yield Step(solver.t, solver.y, _transposed(solver.dense_output()))


def _transposed(dense: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda times: np.ascontiguousarray(dense(times).T)


def _why(solver: Any, run: Run, message: str | None) -> Status:
    """Why a solver does not go on."""
    if np.isfinite(solver.fun(solver.t, solver.y)).all():
        return Status(
            Outcome.FAILED, f"{run.solver} cannot go beyond tau = {solver.t:.6g}: {message or 'no reason given'}"
        )
    return Status(Outcome.DIVERGED, f"the gradient is not finite at tau = {solver.t:.6g}")


def _euler(velocity: Velocity, y: np.ndarray, end: float, run: Run) -> Iterator[Step]:
    """Steps of length `run.step`, the last one shorter if need be; straight lines between them."""
    steps = int(np.ceil(end / run.step * (1 - 1e-12)))
    for k in range(steps):
        before = k * run.step
        after = end if k == steps - 1 else (k + 1) * run.step
        slope = velocity(before, y)
        between = _line(before, y, slope)
        with np.errstate(all="ignore"):
            y = y + (after - before) * slope
        yield Step(after, y, between)


def _line(before: float, y: np.ndarray, slope: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda times: y + (times - before)[:, None] * slope
