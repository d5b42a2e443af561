"""Solve dy/dτ = field(τ, y) on a grid of times, with SciPy's solvers, events of kinked maps, and a status at the end.

The loop is ours, not solve_ivp's: it hands out rows in batches (a state may be large), restarts at events, stops at a
budget of evaluations or when it gets nowhere, and says why.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from softmaxlab.core.result import Outcome, Status

BUDGET = 2_000_000  # evaluations
STALL, STALLED = 50_000, 1e-6  # evaluations in which τ must advance by so much: slower never arrives
LARGE = 1e100  # a state beyond this has diverged
RUNAWAY = 1e6  # a state beyond this, where the solver cannot go on, goes to infinity in finite time
BATCH = 2**22  # numbers handed out at once
PROBES = (0.25, 0.5, 0.75, 1.0)  # of a step, where guards are looked at
# local error a component may make beyond rtol of itself; not smaller than rounding, or noise round 0 stops the solver
ATOL, LEAST_ATOL = 1e-5, 1e-15
# DOP853 could take longer steps in τ, but between their ends its interpolant is then 1000 times worse than at them
LONGEST = {"DOP853": 2.0}


class Guarded(Protocol):
    """A field with modes."""

    def __call__(self, tau: float, y: np.ndarray) -> np.ndarray: ...
    def mode(self) -> Any: ...
    def unit(self, y: np.ndarray) -> float: ...
    def guard(self, tau: float, y: np.ndarray) -> np.ndarray: ...
    def switch(self, tau: float, y: np.ndarray, hit: np.ndarray) -> np.ndarray: ...


@dataclass
class Run:
    """How to integrate, and how it went."""

    solver: str
    rtol: float
    clock: str = "t"  # what log(1 + …) of is τ
    evaluations: int = 0
    events: int = 0
    status: Status = field(default_factory=Status)
    tau: float = 0.0  # how far it came
    y: np.ndarray = field(default_factory=lambda: np.empty(0))  # the state there
    at_rest: bool = False  # it stopped there because nothing moves any more
    pieces: list[tuple[float, Callable, Any]] | None = None  # if a list, gets each step's end, interpolant and mode
    look: float = np.inf  # a τ at which the state is kept
    looked: np.ndarray | None = None  # that state
    checked: tuple[int, float] = (0, 0.0)  # evaluations and τ when it was last known to get on

    def notes(self) -> dict[str, Any]:
        """What the result says about the run."""
        notes = {"solver": self.solver, "evaluations": self.evaluations, "events": self.events}
        return notes | ({"at_rest_from": float(np.expm1(self.tau))} if self.at_rest else {})


def integrate(
    f: Callable,
    y: np.ndarray,
    grid: np.ndarray,
    run: Run,
    guarded: Guarded | None = None,
    rest: Callable[[float, np.ndarray], bool] | None = None,
) -> Iterator[np.ndarray]:
    """Batches of states [t, size] at the times of `grid`, the start first; fewer than all if `run.status` fails."""
    yield y[None]
    done, solver = 1, None
    run.tau, run.y = float(grid[0]), y
    while done < len(grid):
        solver = solver or _solver(f, run, grid[-1])
        dense = _step(solver, run)
        if dense is None:
            return
        end, hit = _first_event(guarded, dense, solver, run.rtol) if guarded else (solver.t, None)
        last = solver.y if hit is None else dense(end)
        upto = int(np.searchsorted(grid, end, side="right"))
        for batch in _batches(grid[done:upto], y.size):
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
            run.y, solver = guarded.switch(end, last, hit), None
        if rest and done < len(grid) and rest(end, run.y):
            run.at_rest = True
            run.looked = run.y if run.looked is None else run.looked
            yield from (np.repeat(run.y[None], len(part), axis=0) for part in _batches(grid[done:], y.size))
            return


def _batches(times: np.ndarray, size: int) -> list[np.ndarray]:
    return np.array_split(times, 1 + len(times) * size // BATCH) if len(times) else []


def _solver(f: Callable, run: Run, end: float) -> Any:
    """A solver that starts where the run has come to."""
    from scipy import integrate as scipy_integrate

    kind = getattr(scipy_integrate, run.solver)
    tolerances = {"rtol": run.rtol, "atol": max(ATOL * run.rtol, LEAST_ATOL)}
    with np.errstate(all="ignore"):
        solver = kind(f, run.tau, run.y, end, max_step=LONGEST.get(run.solver, np.inf), **tolerances)
    run.evaluations += solver.nfev
    return solver


def _step(solver: Any, run: Run) -> Callable | None:
    """One step: its interpolant, or None with the status set."""
    before = solver.nfev
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LSODA warns where it fails; the status says it
        message = solver.step()
        failed = solver.status == "failed" or np.isnan(solver.y).any()
        dense = None if failed else solver.dense_output()
    run.evaluations += solver.nfev - before
    spent, tau = run.evaluations - run.checked[0], solver.t - run.checked[1]
    if tau > STALLED:
        run.checked = (run.evaluations, solver.t)
    stalled = spent > STALL and tau <= STALLED
    if dense is None or stalled or run.evaluations > BUDGET or np.abs(solver.y).max() >= LARGE:
        run.status = _why(solver, run, message)
    return dense if run.status.ok else None


def _why(solver: Any, run: Run, message: str | None) -> Status:
    """Why a run does not go on."""
    at, largest = f"{run.clock} = {np.expm1(solver.t):.6g}", np.nanmax(np.abs(solver.y), initial=0.0)
    if largest >= LARGE:
        return Status(Outcome.DIVERGED, f"the parameters grow beyond {LARGE:.0e} at {at}")
    if run.evaluations <= BUDGET and largest > RUNAWAY:
        return Status(Outcome.DIVERGED, f"the parameters run to infinity at {at}")
    if solver.status == "failed" or np.isnan(solver.y).any():
        return Status(Outcome.FAILED, f"{run.solver} cannot go beyond {at}: {message or 'its step is too small'}")
    spent = f"{run.solver} stopped at {at} after {run.evaluations} evaluations"
    return Status(Outcome.LIMIT, f"{spent}; choose another solver or an earlier end")


def _first_event(guarded: Guarded, dense: Callable, solver: Any, tolerance: float) -> tuple[float, np.ndarray | None]:
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


def _root(guarded: Guarded, dense: Callable, i: int, left: float, right: float) -> float:
    from scipy.optimize import brentq

    def guard(tau: float) -> float:
        return guarded.guard(tau, dense(tau))[i]

    if guard(left) <= 0:  # at its border already
        return left
    root: Any = brentq(guard, left, right, xtol=1e-300, rtol=4 * np.finfo(float).eps)
    return float(root)
