"""Integrate dy/dτ = f(τ, y) on a grid of times: SciPy's solvers or Euler's, events, budgets, and a status at the end.

The loop is ours, not solve_ivp's: it hands out rows in batches (a state may be large), restarts at events, stops at a
budget of evaluations, when it gets nowhere or when it is told to from outside, and says why.
"""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from softmaxlab.core.result import Outcome, Status

Velocity = Callable[[float, np.ndarray], np.ndarray]
Dense = Callable[[Any], np.ndarray]  # states [size] at a time, or [size, time] at several, within a step
STALLED = 1e-6  # progress in τ below which a run gets nowhere
BATCH = 2**22  # numbers handed out at once
PROBES = (0.25, 0.5, 0.75, 1.0)  # of a step, where guards are looked at

stopping: ContextVar[threading.Event | None] = ContextVar("stopping", default=None)  # set: end the runs of this thread


class Stop(Exception):
    """Ends a run from inside a solver, with a status."""

    def __init__(self, outcome: Outcome, sentence: str):
        super().__init__(sentence)
        self.status = Status(outcome, sentence)


class Guarded(Protocol):
    """A velocity with modes: smooth while its guards are positive, and another one after `switch`."""

    def __call__(self, tau: float, y: np.ndarray) -> np.ndarray: ...
    def mode(self) -> Any: ...
    def unit(self, y: np.ndarray) -> float: ...
    def guard(self, tau: float, y: np.ndarray) -> np.ndarray: ...
    def switch(self, tau: float, y: np.ndarray, hit: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Limits:
    """The limits that end a run before its last time."""

    evaluations: int
    size: float  # a state beyond this has diverged
    runaway: float = np.inf  # a state beyond this, where the solver cannot go on, goes to infinity in finite time
    stall: float = np.inf  # evaluations in which τ must advance by STALLED: slower never arrives


@dataclass
class Run:
    """The solver and its limits; after `integrate` also how far it came and why it ended."""

    solver: str  # a name of SciPy's, or "Euler"
    rtol: float
    atol: float
    limits: Limits
    step: float = np.nan  # the length of Euler's steps
    longest: float = np.inf  # the longest step of the other solvers
    clock: str = "t"
    log_time: bool = False  # τ = log(1 + clock)
    evaluations: int = 0
    jacobians: int = 0
    events: int = 0
    status: Status = field(default_factory=Status)
    tau: float = 0.0  # how far it came
    y: np.ndarray = field(default_factory=lambda: np.empty(0))  # the state there
    at_rest: bool = False  # it stopped there because nothing moves any more
    pieces: list[tuple[float, Dense, Any]] | None = None  # if a list, gets each step's end, interpolant and mode
    look: float = np.inf  # a τ at which the state is kept
    looked: np.ndarray | None = None  # that state
    checked: tuple[int, float] = (0, 0.0)  # evaluations and τ when it was last known to get on

    def at(self, tau: float) -> str:
        """A time in words."""
        return f"{self.clock} = {self.time(tau):.6g}"

    def time(self, tau: float) -> float:
        return float(np.expm1(tau)) if self.log_time else tau


class Euler:
    """Steps of fixed length, the last one shorter if need be, with the interface of SciPy's solvers.

    The papers use it, and no other solver can have new samples at every step.
    """

    def __init__(self, fun: Velocity, t0: float, y0: np.ndarray, t_bound: float, step: float):
        self.fun, self.t0, self.t_bound, self.length = fun, t0, t_bound, step
        self.t = self.t_old = t0
        self.y, self.status, self.made = y0, "running", 0
        self.steps = int(np.ceil((t_bound - t0) / step * (1 - 1e-12)))

    def step(self) -> None:
        before, self.made = self.t0 + self.made * self.length, self.made + 1
        after = self.t_bound if self.made == self.steps else self.t0 + self.made * self.length
        slope, y = self.fun(before, self.y), self.y
        self.t_old, self.t, self.y = before, after, y + (after - before) * slope
        self._line = y, slope

    def dense_output(self) -> Dense:
        (y, slope), before = self._line, self.t_old
        return lambda times: np.add.outer(y, 0 * times) + np.multiply.outer(slope, times - before)


def integrate(
    f: Velocity,
    y: np.ndarray,
    grid: np.ndarray,
    run: Run,
    jacobian: Velocity | None = None,
    guarded: Guarded | None = None,
    rest: Callable[[float, np.ndarray], bool] | None = None,
) -> Iterator[np.ndarray]:
    """Yield batches of states [time, size] at the times of `grid`, the start first; fewer if `run.status` fails.

    `jacobian` is ∂f/∂y [size, size], at least roughly; LSODA uses it when it turns implicit. The run ends early where
    `rest(tau, y)` is true: its last state is then the state at all later times.
    """
    run.tau, run.y = float(grid[0]), y
    yield y[None]
    try:
        yield from _rows(_Solver(f, jacobian, run, grid), grid, run, guarded, rest)
    except Stop as stop:
        run.status = stop.status


def _rows(solver: "_Solver", grid: np.ndarray, run: Run, guarded: Guarded | None, rest: Any) -> Iterator[np.ndarray]:
    """The states after the first."""
    done = 1
    while done < len(grid):
        dense = solver.step()
        if dense is None:
            return
        end, hit = _first_event(guarded, dense, solver, run.rtol) if guarded else (solver.t, None)
        last = solver.y if hit is None else dense(end)
        upto = int(np.searchsorted(grid, end, side="right"))
        for batch in _batches(grid[done:upto], last.size):
            rows = np.ascontiguousarray(dense(batch).T)
            if batch[-1] == end:
                rows[-1] = last  # not through the interpolant
            yield rows
        done = upto
        if run.looked is None and end >= run.look:
            run.looked = dense(run.look)
        run.tau, run.y = end, last
        if run.pieces is not None:
            run.pieces.append((end, dense, guarded.mode() if guarded else None))
        if guarded and hit is not None:
            run.events += 1
            run.y = guarded.switch(end, last, hit)
            solver.restart()
        if rest and done < len(grid) and rest(end, run.y):
            run.at_rest = True
            run.looked = run.y if run.looked is None else run.looked
            yield from (np.repeat(run.y[None], len(part), axis=0) for part in _batches(grid[done:], run.y.size))
            return


def _batches(times: np.ndarray, size: int) -> list[np.ndarray]:
    return np.array_split(times, min(len(times), 1 + len(times) * size // BATCH)) if len(times) else []


class _Solver:
    """A solver from where the run has come to, whose evaluations are counted and whose failure is a status."""

    def __init__(self, f: Velocity, jacobian: Velocity | None, run: Run, grid: np.ndarray):
        self.f, self.jacobian, self.run = f, jacobian, run
        self.start, self.end = float(grid[0]), float(grid[-1])
        self.restart()

    def restart(self) -> None:
        self._solver: Any = None

    @property
    def t(self) -> float:
        return self._solver.t

    @property
    def t_old(self) -> float:
        return self._solver.t_old

    @property
    def y(self) -> np.ndarray:
        return self._solver.y

    def step(self) -> Dense | None:
        """Make a step; its interpolant, or None with the run's status set."""
        with np.errstate(all="ignore"), warnings.catch_warnings():  # what is not finite becomes a status
            warnings.simplefilter("ignore")  # LSODA warns where it fails; the status says it
            self._solver = self._solver or self._built()
            message = self._solver.step()
            failed = self._solver.status == "failed" or np.isnan(self.y).any()
            dense = None if failed else self._solver.dense_output()
            if failed or self._stalled() or np.abs(self.y).max() >= self.run.limits.size:
                self.run.status = self._why(message)
        return dense if self.run.status.ok else None

    def _built(self) -> Any:
        from scipy import integrate as scipy_integrate

        run = self.run
        if run.solver == "Euler":
            return Euler(self._counted, run.tau, run.y, self.end, run.step)
        options: dict[str, Any] = {"rtol": run.rtol, "atol": run.atol, "max_step": run.longest}
        if run.solver == "LSODA" and self.jacobian is not None:
            options["jac"] = self._counted_jacobian
        return getattr(scipy_integrate, run.solver)(self._counted, run.tau, run.y, self.end, **options)

    def _counted(self, tau: float, y: np.ndarray) -> np.ndarray:
        run, stop = self.run, stopping.get()
        if stop is not None and stop.is_set():
            raise Stop(Outcome.FAILED, f"stopped from outside at {run.at(tau)}")
        if run.evaluations >= run.limits.evaluations:
            raise Stop(Outcome.LIMIT, self._spent(tau))
        run.evaluations += 1
        slope = self.f(tau, y)
        if tau == self.start and not np.isfinite(slope).all():  # no solver has a step to shorten yet
            raise Stop(Outcome.DIVERGED, "the gradient is not finite at the start")
        return slope

    def _counted_jacobian(self, tau: float, y: np.ndarray) -> np.ndarray:
        assert self.jacobian is not None
        self.run.jacobians += 1
        return self.jacobian(tau, y)

    def _stalled(self) -> bool:
        """Whether τ has hardly advanced in many evaluations."""
        run = self.run
        spent, advance = run.evaluations - run.checked[0], self.t - run.checked[1]
        if advance > STALLED:
            run.checked = (run.evaluations, self.t)
        return spent > run.limits.stall and advance <= STALLED

    def _why(self, message: str | None) -> Status:
        """Return why the run does not go on."""
        run, at, largest = self.run, self.run.at(self.t), np.nanmax(np.abs(self.y), initial=0.0)
        if largest >= run.limits.size:
            return Status(Outcome.DIVERGED, f"the parameters grow beyond {run.limits.size:.0e} at {at}")
        if largest > run.limits.runaway:
            return Status(Outcome.DIVERGED, f"the parameters run to infinity at {at}")
        if self._solver.status != "failed" and np.isfinite(self.y).all():
            return Status(Outcome.LIMIT, self._spent(self.t))
        if np.isfinite(self.f(self.t, self.y)).all():
            return Status(Outcome.FAILED, f"{run.solver} cannot go beyond {at}: {message or 'its step is too small'}")
        return Status(Outcome.DIVERGED, f"the gradient is not finite at {at}")

    def _spent(self, tau: float) -> str:
        run = self.run
        spent = f"{run.solver} stopped at {run.at(tau)} after {run.evaluations} evaluations of the gradient"
        return f"{spent}; choose another solver or an earlier end"


def _first_event(guarded: Guarded, dense: Dense, solver: _Solver, tolerance: float) -> tuple[float, np.ndarray | None]:
    """The time in the last step at which a guard first reaches 0, and which guards do; or the step's end and None.

    A guard below 0 by no more than the solver's own error is noise, not an event.
    """
    left = solver.t_old
    tolerance *= guarded.unit(dense(left))
    for part in PROBES:
        right = solver.t if part == 1 else solver.t_old + part * (solver.t - solver.t_old)
        out = np.flatnonzero(guarded.guard(right, dense(right)) < -tolerance)
        if out.size:
            roots = np.array([_root(guarded, dense, int(i), left, right) for i in out])
            hit = np.zeros(guarded.guard(left, dense(left)).size, dtype=bool)
            hit[out[roots == roots.min()]] = True
            return float(roots.min()), hit
        left = right
    return solver.t, None


def _root(guarded: Guarded, dense: Dense, i: int, left: float, right: float) -> float:
    from scipy.optimize import brentq

    def guard(tau: float) -> float:
        return guarded.guard(tau, dense(tau))[i]

    if guard(left) <= 0:  # at its border already
        return left
    root: Any = brentq(guard, left, right, xtol=1e-300, rtol=4 * np.finfo(float).eps)
    return float(root)
