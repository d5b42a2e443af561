"""Gradient flow of a problem: in time t, or with the strength Γ as the clock.

Time is integrated as τ = log(1 + t). Which solver: explicit DOP853 for the logistic loss, whose flow slows down for
ever and is not stiff in τ; LSODA, which turns implicit when it has to, for losses that settle; DOP853 again for states
too large for a Jacobian. V is reduced to u = Vᵀβ* where that is exact (reduction.py).

With Γ as clock the flow is that of the loss −⟨β*, V s⟩, for which γ = 1: every loss with gradient −γ β* runs along
this same orbit, at its own speed dΓ/dt = γ. See docs/theory/polarization.md.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field as Bounds
from pydantic import model_validator

from softmaxlab.core.cost import Cost
from softmaxlab.core.ode import Limits, Run, integrate
from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.polarization import exact
from softmaxlab.polarization.certificate import (
    ACROSS,
    BALANCE,
    HALF,
    TENTH,
    Motion,
    balance_drift,
    certificate,
    distances,
    failed,
    invariant_drifts,
    movement,
    sizes_of,
)
from softmaxlab.polarization.equilibrium import Rest
from softmaxlab.polarization.flow.field import Field
from softmaxlab.polarization.flow.time_from_strength import REFINED, log_time, log_time_on_grid, refined
from softmaxlab.polarization.losses import LOSSES, Linear
from softmaxlab.polarization.maps import FUNCTIONS, SHARES
from softmaxlab.polarization.models import Parameters
from softmaxlab.polarization.problem import Problem
from softmaxlab.polarization.record import History, axes_of
from softmaxlab.polarization.reduction import is_aligned, rebuilt, reduced

Solver = Literal["DOP853", "LSODA", "BDF", "Radau"]
JACOBIAN_LIMIT = 1000  # variables; beyond, one factorisation of a dense Jacobian costs seconds
FIRST, FIRST_PART = 1e-2, 1e-4  # the first recorded time after 0: this, or this part of the end if that is less
LIMITS = Limits(evaluations=2_000_000, size=1e100, runaway=1e6, stall=50_000)
# local error a component may make beyond rtol of itself; not smaller than rounding, or noise round 0 stops the solver
ATOL, LEAST_ATOL = 1e-5, 1e-15
# DOP853 could take longer steps in τ, but between their ends its interpolant is then 1000 times worse than at them
LONGEST = {"DOP853": 2.0}
VANISHED = 1e-4  # a run that fails with Σf(a) this small, of what it was at t = 0, fails because weights f/Σf do

EVALUATIONS = 1000  # of a flow that meets no border
OVERHEAD, PER_NUMBER = 5e-5, 4e-9  # seconds of an evaluation, and of a number in it, within a factor of ten

Points = Annotated[int, Bounds(ge=2, le=1_000_000)]
Tolerance = Annotated[float, Bounds(ge=1e-13, le=1e-2)]
Positive = Annotated[float, Bounds(gt=0)]


class Flow(Problem):
    """Gradient flow to `t_end`, recorded at 0 and at `points − 1` log-spaced times, with local error `rtol`.

    `solver` overrides the choice; the result's notes say which one ran, and how many evaluations it took, and
    notes["certificate"] whether the flow is at rest and its numbers can be trusted (certificate.py).
    """

    t_end: Positive
    points: Points = 400
    rtol: Tolerance = 1e-9
    solver: Solver | None = None

    def estimate(self) -> Cost:
        return flow_cost(self, self.points)

    def _run(self, device: str) -> Result:
        small = reduced(self)
        loss = small.loss_of()
        field = Field(small, loss, with_strength=self.model == "value" and is_aligned(self))
        stiff = loss.settles and field.size <= JACOBIAN_LIMIT
        run = run_with(self.solver or ("LSODA" if stiff else "DOP853"), self.rtol)
        t = times(self.t_end, self.points)
        history = _record(small, field, t, run)
        return _result(self, history, {"t": t}, run, _certified(field, history.arrays(), t, run))


class StrengthFlow(Problem):
    """The orbit of a flow whose gradient is along β*, with Γ as clock: times far beyond 1e308 are reached.

    The result has `strength` in place of t, and `log_t`: to rounding for the logistic loss; for one of your own from
    1/γ taken as exponential between points of a grid, infinite where γ is below the least float.
    """

    version: ClassVar[int] = 2  # log_t by quadrature

    strength_end: Positive
    points: Points = 400
    rtol: Tolerance = 1e-9
    solver: Solver | None = None

    @model_validator(mode="after")
    def _has_strength(self) -> Self:
        if not LOSSES[self.loss].along_beta or self.model != "value":
            raise ValueError(
                f"needs model='value' and a loss of the margin (loss='logistic', or one registered with margin=True), "
                f"got {self.loss!r} and {self.model!r}"
            )
        return self

    def estimate(self) -> Cost:
        return flow_cost(self, self.points)

    def _run(self, device: str) -> Result:
        small = reduced(self)
        field = Field(small, Linear(small.given("beta")), with_strength=False)
        run = run_with(self.solver or "DOP853", self.rtol, clock="strength", pieces=[])
        strength = times(self.strength_end, self.points)
        exact = self.loss == "logistic"
        history = _record(small, field, strength if exact else refined(strength), run)
        arrays = history.arrays()
        m = (arrays["u"] * arrays["weights"]).sum(axis=-1)
        if exact:
            log_t = log_time(field, run.pieces or [], strength[: len(m)], m)
        else:
            gamma = small.loss_of().gamma(m[:, None] / small.given("beta"))
            log_t = log_time_on_grid(refined(strength)[: len(m)], gamma)[::REFINED]
            history.keep_every(REFINED)
            arrays, strength = history.arrays(), strength[: len(log_t)]
        certified = _certified(field, arrays, strength, run, float(log_t[-1]))
        result = _result(self, history, {"strength": strength}, run, certified)
        return Result(
            {**result.arrays, "log_t": log_t}, {**result.axes, "log_t": ("strength",)}, run.status, result.notes
        )


def run_with(solver: str, rtol: float, **more: Any) -> Run:
    """A run in log-time, τ = log(1 + t)."""
    atol, longest = max(ATOL * rtol, LEAST_ATOL), LONGEST.get(solver, np.inf)
    return Run(solver, rtol, atol, LIMITS, longest=longest, log_time=True, **more)


def flow_cost(problem: Problem, points: int) -> Cost:
    """The cost of a flow of so many points: its record, a dense Jacobian, some hundred evaluations."""
    size = problem.size()
    jacobian = 8.0 * 4 * min(size, JACOBIAN_LIMIT) ** 2
    return Cost(problem.record_memory(points) + jacobian, EVALUATIONS * (OVERHEAD + PER_NUMBER * size))


def times(end: float, points: int) -> np.ndarray:
    """0, then log-spaced times up to exactly `end`."""
    with np.errstate(over="ignore"):  # next to the largest float
        t = np.concatenate([[0.0], np.geomspace(min(FIRST, FIRST_PART * end), end, points - 1)])
    t[-1] = end
    return t


def notes_of(run: Run) -> dict[str, Any]:
    """The notes of a result about its run."""
    notes = {"solver": run.solver, "evaluations": run.evaluations, "events": run.events}
    return notes | ({"at_rest_from": run.time(run.tau)} if run.at_rest else {})


def _record(problem: Problem, field: Field, t: np.ndarray, run: Run) -> History:
    history = History(problem, len(t))
    guarded = field if field.kinks else None
    rest = Rest(field) if field.loss.settles else None
    run.look = float(np.log1p(_since(field, t[-1])))
    for rows in integrate(field, field.start, np.log1p(t), run, guarded=guarded, rest=rest):
        more = {"strength": rows[:, -1]} if field.with_strength else {}
        history.add(field.parameters(rows), **more)
    if not run.status.ok:
        start, last = (_denominator(problem, field.parameters(y[None])) for y in (field.start, run.y))
        if (last <= VANISHED * start).any():
            sentence = (
                f"Σf(a) reaches 0 at {run.clock} ≈ {np.expm1(run.tau):.6g}, where map {problem.map!r} divides by it"
            )
            run.status = Status(Outcome.SINGULAR, sentence)
    return history


def _denominator(problem: Problem, at: Parameters) -> np.ndarray:
    """|Σf| of each row of scores, of a map that divides by it; 1 for the others."""
    z = problem.model_of().scores(at)
    f = SHARES.get(problem.map)
    return np.abs(FUNCTIONS[f][0](z).sum(axis=-1)) if f else np.ones(z.shape[:-1])


def _since(field: Field, end: float) -> float:
    """The time since when movement counts."""
    return end * (HALF if field.loss.settles else TENTH)


def _certified(field: Field, arrays: dict[str, np.ndarray], t: np.ndarray, run: Run, log_t: float | None = None):
    """The certificate of a flow with the clock t, where log t is `log_t` if that is another; arrays of its problem."""
    if not run.status.ok or run.looked is None:
        return failed(run.status)
    problem, start = field.problem, field.problem.start()
    half, last = ({name: x[0] for name, x in field.parameters(y[None]).items()} for y in (run.looked, run.y))
    sizes = sizes_of(problem, start, last)
    ends = {name: np.stack([start[name], last[name]]) for name in start}
    drifts = invariant_drifts(problem, ends)
    drifts.pop(ACROSS, None)  # the reduction to u leaves it out
    if log_t is None and not field.kinks and len(arrays[field.model.valued]) == len(t):
        before_rest = t <= np.expm1(run.tau)
        at, then = {name: arrays[name][before_rest] for name in start}, t[before_rest]
        with np.errstate(all="ignore"):
            drift = balance_drift(then, arrays["loss"][before_rest], then * exact.squared_gradient(problem, at))
        drifts |= {} if drift is None else {BALANCE: drift}
    earlier, now = (at | {"weights": _weights(problem, at)} for at in (half, last))
    motion = Motion(
        run.clock,
        float(t[-1]),
        _since(field, float(t[-1])),
        movement(earlier, now, sizes),
        np.concatenate([last[name].ravel() for name in field.places]),
        field.velocity,
        {name: where for name, (where, _) in field.places.items()},
        sizes,
        settles=field.loss.settles,
        smooth=not (field.kinks and problem.model == "tied"),  # held at a border, the tied model follows no gradient
    )
    numbers, limit = distances(problem, arrays["weights"][-1], float(np.log(t[-1])) if log_t is None else log_t)
    more = {} if log_t is None else {"log_t": log_t}
    return more | numbers | certificate(motion, drifts, drifts, limit)


def _weights(problem: Problem, at: Parameters) -> np.ndarray:
    return problem.map_of().weights(problem.model_of().scores(at))


def _result(
    spec: Problem, history: History, clock: dict[str, np.ndarray], run: Run, certified: dict[str, Any]
) -> Result:
    arrays = history.arrays()
    ((time, t),) = clock.items()
    t = t[: len(arrays["loss"])]
    if is_aligned(spec):
        arrays["V"] = rebuilt(spec, arrays["u"])
    notes = notes_of(run) | {"converged": certified["kind"] == "minimum", "certificate": certified}
    valued = spec.model_of().valued
    if len(arrays[valued]) < len(t):
        notes[valued] = "at the first and the last time only: all times would take too much memory"
    arrays = {time: t, **arrays}
    return Result(arrays, axes_of(spec, arrays, time), run.status, notes)
