"""Whether a flow or a descent can be trusted and is at rest, by three questions.

(a) numerics   how far what the flow conserves (exact.py) has drifted, and the balance L(t_1) − L(t) = ∫‖∇L‖² dt, which
               errors of the solver break even where all that is conserved is a sum, which every solver keeps
(b) movement   of values, scores and weights between t/2 and t (t/10 and t where the loss has no minimum); and the drift
               that the gradient makes along eigenvectors of the Hessian in the time T = 9t, until ten times t
(c) curvature  the smallest eigenvalue λ of the Hessian; 1/|λ| is the time of escape if λ < 0

    undersampled   (a) is not small, so no other number is to be trusted; or (c) cannot be told
    moving         (b) is not small; always so for a loss without a minimum, as long as anything moves
    saddle         λ is negative beyond its error, by enough to escape in the time T
    minimum        none of these: a minimum, or a point of a flat set of minima

Parameters are flat vectors here, `blocks` tells which part is which tensor. A drift or a movement is relative to the
tensor's size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from softmaxlab.attention import MAPS
from softmaxlab.core.result import Status
from softmaxlab.polarization import exact
from softmaxlab.polarization.equilibrium import rounding
from softmaxlab.polarization.models import Parameters
from softmaxlab.polarization.problem import Problem

TRUSTED = 1e-5  # drift of what is conserved; at the default rtol = 1e-9 flows to t = 1e100 are wrong by 5e-7 at most
MOVED = 1e-4  # relative movement since t/2, far above the solver's errors
DRIFT = (
    1e-4  # relative drift until 10t; what grows like a power of log t, as margins do, drifts by more at any t < 1e308
)
AHEAD = 9.0  # in units of t
LATEST = 1e300  # T beyond this would overflow
STILL = 1e-12  # movement that is rounding: beyond it a flow whose loss has no minimum goes on for ever
STIFF = 100.0  # λT above which a drift ends at g/λ; below, 1/λ may be t itself, as where parameters grow like log t
GROWTH = 3.0  # log of the growth of a disturbance that counts as an escape
STEP = np.finfo(float).eps ** (1 / 3)  # of central differences, relative
KNOWN = 1e-9  # error of an eigenvalue by those, relative to the largest: they leave out some 10 · STEP²
DENSE = 300  # parameters; with more only the smallest eigenvalue is computed, and drifts are bounded by T‖∇L‖
LANCZOS = 20  # restarts, some 400 products with the Hessian: what two Jacobians of LSODA take at DENSE parameters
SPLINE = 5  # degree, for the integral of ‖∇L‖² over recorded times
LEAST_POINTS = 16  # recorded times for that
SHARPEST = 0.2  # part of the loss's fall between two recorded times; a sharper one lies between the spline's points
HALF, TENTH = 0.5, 0.1  # of the end: movement counts since then, and since a tenth where parameters go like log t
ACROSS, BALANCE = "V − β*uᵀ/b", "L + ∫‖∇L‖² dt"  # names of two invariants; the other names are in exact.py


@dataclass(frozen=True)
class Motion:
    """The movement of parameters from `since` to `t`, both on the named clock, and the velocity −∇L where they are.

    `settles` is False for a loss without a minimum. `smooth` is False where differences of the velocity say nothing of
    the curvature, and `rate` is None where the velocity in t is not that of the motion (Adam's steps).
    """

    clock: str
    t: float
    since: float
    moved: Mapping[str, float]
    last: np.ndarray
    velocity: Callable[[np.ndarray], np.ndarray]
    blocks: Mapping[str, slice]
    sizes: Mapping[str, float]
    settles: bool
    smooth: bool = True
    rate: float | None = 1.0


def certificate(motion: Motion, drifts: Mapping[str, float], judged: Mapping[str, float], limit: str = "") -> dict:
    """The certificate of a motion: `drifts` of all that is conserved, of which those `judged` must be small.

    `limit` is a clause on the distance from the limit of a flow that never rests.
    """
    with np.errstate(all="ignore"):
        g = motion.velocity(motion.last)
    numbers: dict[str, Any] = {
        motion.clock: motion.t,
        "since": motion.since,
        "moved": dict(motion.moved),
        "gradient": _norm(g),
        "invariants": dict(drifts),
    }
    worst = max(judged, key=lambda name: judged[name], default=None)
    if worst is not None and not judged[worst] <= TRUSTED:
        why = f"{worst} should not change but did by {_percent(judged[worst])}: choose a smaller rtol"
        return numbers | _verdict("undersampled", why)
    name = max(motion.moved, key=lambda name: motion.moved[name])
    sentence = f"{name} moved by {_percent(motion.moved[name])} since {motion.clock} = {motion.since:.3g}"
    if not motion.settles and motion.moved[name] > STILL:
        return numbers | _verdict("moving", f"{sentence}; its loss has no minimum, so it never rests{limit}")
    if not motion.moved[name] <= MOVED:
        return numbers | _verdict("moving", sentence)
    return numbers | _at_rest(motion, g)


def failed(status: Status) -> dict[str, Any]:
    """The certificate of a run that did not come to its end."""
    return {"kind": "moving", "sentence": status.sentence}


def _at_rest(motion: Motion, g: np.ndarray) -> dict[str, Any]:
    """Drift, curvature and verdict of what has hardly moved."""
    T = min(AHEAD * motion.t * (motion.rate or 0.0), LATEST)
    with np.errstate(all="ignore"):
        noise = rounding(motion.velocity, motion.last, g, np.random.default_rng(0))
        pull = np.where(np.abs(g) <= noise, 0.0, g)
        dense = motion.smooth and motion.last.size <= DENSE
        values, vectors = np.linalg.eigh(_hessian(motion)) if dense else (np.zeros(0), np.zeros((0, 0)))
    if dense:
        drift = _relative(motion, vectors @ ((vectors.T @ pull) * _reach(values, T)))
    else:
        drift = _relative(motion, T * pull)
    numbers: dict[str, Any] = {"drift": drift if motion.rate else None}
    if not drift <= DRIFT:
        ahead = f"{motion.clock} = {10 * motion.t:.3g}"
        return numbers | _verdict("moving", f"its gradient would move it by {_percent(drift)} until {ahead}")
    if not motion.smooth:
        return numbers | _verdict("minimum", "nothing moves; the map has kinks, so the curvature is not computed")
    least, largest = (values[0], np.abs(values).max()) if dense else _extremes(motion)
    if not np.isfinite(least):
        return numbers | _verdict("undersampled", "nothing moves, but its curvature could not be computed")
    error = KNOWN * float(largest)
    numbers |= {"eigenvalue": float(least), "eigenvalue_error": error, "escape_time": None}
    curved = f"the smallest eigenvalue is {least:.2g} ± {error:.1g}"
    if least < -error and (motion.rate is None or least * T < -GROWTH):
        if motion.rate is not None:
            numbers["escape_time"] = float(-1 / (least * motion.rate))
            curved += f", so it leaves in a time of about {numbers['escape_time']:.3g}"
        return numbers | _verdict("saddle", curved)
    return numbers | _verdict("minimum", curved)


def _verdict(kind: str, why: str) -> dict[str, str]:
    heads = {
        "moving": "still moving",
        "saddle": "at a saddle",
        "undersampled": "not to be trusted",
        "minimum": "at a minimum",
    }
    return {"kind": kind, "sentence": f"{heads[kind]}: {why}"}


def _norm(x: np.ndarray) -> float:
    """Return the length of a vector, also where squares would underflow."""
    largest = float(np.abs(x).max(initial=0.0)) or 1.0
    return largest * float(np.linalg.norm(x / largest))


def _percent(part: float) -> str:
    return f"{100 * part:.2g} %"


def _reach(values: np.ndarray, T: float) -> np.ndarray:
    """Return the distance that a unit gradient moves along each eigenvector in the time T."""
    stiff = values * T > STIFF
    return np.where(stiff, 1.0 / np.where(stiff, values, 1.0), T)


def _relative(motion: Motion, step: np.ndarray) -> float:
    return max(float(np.linalg.norm(step[part])) / motion.sizes[name] for name, part in motion.blocks.items())


def _steps(motion: Motion) -> np.ndarray:
    """The step of each parameter in differences, relative to the size of a number in its tensor."""
    steps = np.empty(motion.last.size)
    for name, part in motion.blocks.items():
        steps[part] = STEP * motion.sizes[name] / np.sqrt(part.stop - part.start)
    return steps


def _hessian(motion: Motion) -> np.ndarray:
    steps = _steps(motion)
    columns = [_difference(motion, np.eye(1, steps.size, i)[0] * h) / h for i, h in enumerate(steps)]
    return -(np.array(columns) + np.array(columns).T) / 2


def _difference(motion: Motion, step: np.ndarray) -> np.ndarray:
    return (motion.velocity(motion.last + step) - motion.velocity(motion.last - step)) / 2


def _extremes(motion: Motion) -> tuple[float, float]:
    """The smallest eigenvalue and the largest magnitude, by Lanczos; NaN if that does not converge."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    size = motion.last.size
    step = float(_steps(motion).min())

    def product(x: np.ndarray) -> np.ndarray:
        x, length = x.ravel(), float(np.linalg.norm(x)) or 1.0
        h = step * np.sqrt(size)
        return -_difference(motion, x * (h / length)) * (length / h)

    hessian: Any = LinearOperator((size, size), matvec=product, dtype=float)  # pyright: ignore[reportCallIssue]
    start, lanczos = np.random.default_rng(0).standard_normal(size), cast(Any, eigsh)
    try:
        options = {"v0": start, "maxiter": LANCZOS, "tol": 1e-3}
        eigenvalues = [lanczos(hessian, 1, which=which, **options)[0][0] for which in ("LM", "SA")]
    except ArpackError:
        return np.nan, np.nan
    return float(eigenvalues[1]), float(abs(eigenvalues[0]))


def invariant_drifts(problem: Problem, ends: Parameters) -> dict[str, float]:
    """The drift of each quantity that the flow conserves between two ends [2, …].

    Relative to the terms that it is made of, which are squares of parameters or less.
    """
    size = max(1.0, *(float(np.square(x).max()) for x in ends.values()))
    return {
        name: float(np.abs(x[-1] - x[0]).max()) / max(size, float(np.abs(x[0]).max()))
        for name, x in exact.invariants(problem, ends).items()
    }


def sizes_of(problem: Problem, start: Parameters, last: Parameters) -> dict[str, float]:
    """Return the size of each parameter: its larger norm at both ends; for scores at least 1.

    Scores of 1 are large for every map but those that do not feel their scale.
    """
    scale_free = problem.map in exact.HOMOGENEOUS
    least = {name: 1.0 if name == problem.model_of().scored and not scale_free else 0.0 for name in last}
    return {
        name: max(least[name], *map(float, map(np.linalg.norm, (start[name], x)))) or 1.0 for name, x in last.items()
    }


def movement(earlier: Parameters, last: Parameters, sizes: Mapping[str, float]) -> dict[str, float]:
    """The movement of each array, relative to its size or, where that is not given, to what it is now."""
    gaps = {name: float(np.linalg.norm(last[name] - x)) for name, x in earlier.items()}
    return {name: gap / (sizes.get(name) or float(np.linalg.norm(last[name])) or 1.0) for name, gap in gaps.items()}


def distances(problem: Problem, s: np.ndarray, log_t: float | None) -> tuple[dict[str, float], str]:
    """Distances of the weights from one-hot and, at a time of the flow, from their asymptotic law; and as text."""
    if not MAPS[problem.map].row_stochastic:
        return {}, ""
    rest = float((1.0 - np.abs(s).max(axis=-1) / np.abs(s).sum(axis=-1)).max())
    numbers, clause = {"one_hot": rest}, f"; its largest weight is {rest:.2g} short of 1"
    softmax = problem.map in ("softmax", "bayes_softmax") and problem.model == "value" and problem.freeze is None
    if softmax and problem.loss == "logistic" and s.size > 1 and log_t is not None and log_t > 1.0:
        beta = problem.given("beta")
        numbers["s_log2_t"] = float(np.delete(s, s.argmax()).mean() * log_t**2)
        numbers["s_log2_t_limit"] = exact.loser_constant(float(beta @ beta), s.size)
        clause += f", and s_i log² t is {numbers['s_log2_t']:.3g} on its way to {numbers['s_log2_t_limit']:.3g}"
    return numbers, clause


def balance_drift(t: np.ndarray, loss: np.ndarray, speed: np.ndarray) -> float | None:
    """The relative distance of L(t_1) − L(t) from ∫‖∇L‖² dt, beyond the error of the integral over recorded times.

    `speed` is t‖∇L‖², the integrand in log t; t_1 is the first recorded time after 0. None if there are
    too few times to tell.
    """
    if len(t) <= LEAST_POINTS:
        return None
    from scipy.interpolate import make_interp_spline

    x, y = np.log(t[1:]), speed[1:]
    first = (len(x) - 1) % 2  # so that every second time includes the last
    fine, coarse = (
        float(make_interp_spline(x[first::k], y[first::k], k=SPLINE).integrate(x[first], x[-1])) for k in (1, 2)
    )
    fall = float(loss[1 + first] - loss[-1])
    if np.abs(np.diff(loss[1:])).max() > SHARPEST * abs(fall):
        return None
    gap = abs(fall - fine) - abs(fine - coarse)
    return max(0.0, gap) / max(abs(float(loss[1 + first])), abs(fall), np.finfo(float).tiny)
