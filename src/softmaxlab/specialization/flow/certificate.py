"""Whether a flow is at rest, by three questions: does it move, which way does the loss curve, are the samples enough?

(a) movement   m̂, r, b and v between τ/2 and τ; and d = g φ(λ), φ(λ) = (1 − e^{−λT})/λ, the drift that the gradient g
               makes along eigenvectors of the Hessian, of eigenvalues λ, in the time T = 9τ: until ten times τ
(b) curvature  the smallest λ over independent samples, without the directions r A (A antisymmetric) along which
               r rᵀ, so the loss, is constant; 1/|λ| is the time of escape if λ < 0
(c) samples    g over independent sets, each as large as the flow's own or, where g is not known well enough, larger;
               its drift is how far the rest point is the sample's, its scatter and that of λ over the sets their errors

    moving        (a) is not small, so nothing else is asked
    saddle        λ is negative beyond its error
    undersampled  (c) would move the state or is not known well, or an error of λ leaves room for an escape in time T
    minimum       none of these

A flow with the noise of batches is no gradient flow: there λ is that of the symmetric part of its Jacobian.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softmaxlab.specialization.flow.velocity import Velocity
from softmaxlab.specialization.population import mean_and_error
from softmaxlab.specialization.sampling import images

MOVED = 2e-3  # relative movement since τ/2; LSODA at rest moves by its tolerance, rtol = 1e-3, at most
DRIFT = 1e-2  # relative drift ahead over the flow's own samples
STEP = 3e-2  # relative step to the rest point of other samples
KNOWN = STEP / 4  # standard error of that step, to be reached by more samples
APART = 0.1  # relative distance of two flows from one start over different samples that have gone different ways
SETS = 8
SURE = 2.4  # standard errors: Student's 95 % range of eight sets
FINER = 4  # as many more samples at a time
# Most points in a set, relative to the flow's own, at a given time and on the way to rest: which way a flow goes is the
# choice of its own samples, for which many more cannot vouch.
MOST_AT_END, MOST_TO_REST = 4, 16
GROWTH = 3.0  # log of the growth of a disturbance that counts as an escape
AHEAD = 9.0  # in units of τ
SMALL = 1e-2  # r below this, relative to K, moves the loss by its square, 1e-4: it then counts as 0
# Most work for a set of samples, in numbers gone through: all eight sets take some 5 s each way. A Hessian of D
# parameters goes D/64 + 1 times through the heads' D numbers of a token.
MOST_FOR_SLOPE, MOST_FOR_CURVATURE = 2**25, 2**26


@dataclass(frozen=True)
class Looked:
    """A certificate and, if independent samples were looked at, which, and the velocity's mean and Jacobian over them.

    They and the `way` out, if it is a saddle, belong to `velocity`: it has one column of r where r counts as 0, else
    all. `exhausted` means that even the most samples left the answer open.
    """

    facts: dict[str, Any]
    velocity: Velocity
    sets: range = range(0)
    points: int = 0
    slope: np.ndarray | None = None
    jacobian: np.ndarray | None = None
    way: np.ndarray | None = None
    exhausted: bool = False

    @property
    def samples(self) -> int:
        spec = self.velocity.spec
        return len(self.sets) * self.points * (images(spec.model.prior) if spec.sampling == "symmetric" else 1)


@dataclass(frozen=True)
class Curvature:
    """Eigenvalues, the smallest first, their standard errors and eigenvectors [size, direction] of the mean Hessian."""

    values: np.ndarray
    errors: np.ndarray
    vectors: np.ndarray
    hessian: np.ndarray
    points: int

    def escapes(self, T: float) -> bool:
        """Whether a disturbance surely grows in the time T."""
        return bool(((self.values < -SURE * self.errors) & (self.values * T < -GROWTH)).any())

    def stays(self, T: float) -> bool:
        """Whether every disturbance surely does not."""
        return bool((self.values - SURE * self.errors).min() * T >= -GROWTH)


def certificate(velocity: Velocity, half: np.ndarray, last: np.ndarray, tau: float, look: int = 0) -> Looked:
    """The certificate of a flow that was at `half` at τ/2 and at `last` at τ. Every `look` has samples of its own."""
    moved = _shares(velocity, last, last - half)
    slope = velocity(tau, last)
    facts: dict[str, Any] = {"tau": tau, "moved": moved, "gradient": float(np.linalg.norm(slope))}
    if max(moved.values()) > MOVED:
        verdict = _verdict("moving", f"it moved by {_worst(moved)} since tau = {tau / 2:g}")
        return Looked(facts | verdict, velocity)
    values, vectors = _eigen(-velocity.jacobian(tau, last), velocity, last)
    own = _largest(velocity, last, vectors @ ((vectors.T @ slope) * _reach(values, AHEAD * tau)))
    facts |= {"drift": own, "eigenvalue_own": float(values[0])}
    if own > DRIFT:
        verdict = _verdict("moving", f"its gradient would move it by {own:.1%} until tau = {10 * tau:g}")
        return Looked(facts | verdict, velocity)
    return around(velocity, last, tau, look, facts)


def other_way(
    looked: Looked, velocity: Velocity, ends: Sequence[np.ndarray | None], last: np.ndarray
) -> dict[str, Any]:
    """Return the certificate of a minimum at `last`, given where flows over other samples from the same start end.

    An end is None if the flow could not be followed.
    """
    if any(end is None for end in ends):
        return looked.facts | _verdict("undersampled", "a flow over other samples could not be followed to its end")
    apart = max(_largest(velocity, last, end - last) for end in ends if end is not None)
    facts = looked.facts | {"apart": apart}
    if apart <= APART:
        return facts
    why = f"over other samples the flow from the same start ends {apart:.0%} away: take more samples"
    return facts | _verdict("undersampled", why)


def around(velocity: Velocity, y: np.ndarray, tau: float, look: int, facts: dict[str, Any]) -> Looked:
    """Judge a state that rests on the flow's own samples by independent ones; `facts` are what is known of it.

    To go to their rest point, their slope has to be known well also where it is clearly not 0.
    """
    T, points, sets = AHEAD * tau, velocity.asked_points, range(look * SETS, (look + 1) * SETS)
    if negligible_r(velocity, y):
        # at r = 0 nothing couples r to the rest, its slope is 0, and its Hessian is the same for each column
        one = velocity.narrowed(y, own=1, points=points)
        beside = _curvature(one, one.start, T, sets, max(1, points // FINER**2), one.blocks["r"])
        velocity = velocity.narrowed(y, own=0, points=points)
        y = velocity.start
    else:
        one, beside = velocity, None
    within = _curvature(velocity, y, T, sets, points)
    points, reach = within.points, _reach(within.values, T)
    slopes = [velocity.over(velocity.unseen(k, points), y) for k in sets]
    step, error = _step(slopes, velocity, y, within.vectors, reach)
    used = velocity.spec.until == "rest" and not within.escapes(T)
    while error > KNOWN and (used or step - SURE * error < STEP) and (more := _finer(velocity, points, slope=True)):
        points = more
        slopes = [velocity.over(velocity.unseen(k, points), y) for k in sets]
        step, error = _step(slopes, velocity, y, within.vectors, reach)
    curvature = within if beside is None else _joint(within, beside, one)
    values, errors = curvature.values, curvature.errors
    pulls, pull_errors = mean_and_error(slopes)
    facts = facts | {
        "eigenvalue": float(values[0]),
        "eigenvalue_error": float(errors[0]),
        "escape_time": float(-1 / values[0]) if values[0] < 0 else None,
        "gradient_independent": float(np.linalg.norm(pulls)),
        "gradient_independent_error": float(np.linalg.norm(pull_errors)),
        "step": step,
        "step_error": error,
    }
    curved = f"the smallest eigenvalue is {values[0]:.2g} ± {errors[0]:.1g}"
    way, exhausted = None, False
    if curvature.escapes(T):
        verdict = _verdict("saddle", f"{curved}, so it leaves in a time of about {-1 / values[0]:.3g}")
        way = curvature.vectors[:, 0]
    elif not curvature.stays(T):
        least = int(np.argmin(values - SURE * errors))
        unsure = f"{values[least]:.2g} ± {errors[least]:.1g}"
        verdict = _verdict("undersampled", f"an eigenvalue is {unsure}: more samples must tell its sign")
        exhausted = True
    elif error > KNOWN:
        verdict = _verdict("undersampled", f"independent samples know its step to {error:.1%} only: take more samples")
        exhausted = step - SURE * error < STEP
    elif step > STEP:
        verdict = _verdict("undersampled", f"independent samples would move it by {step:.1%}: take more samples")
    else:
        verdict = _verdict("minimum", f"{curved}, and independent samples would move it by {step:.2%}")
    slope = one.joined(*velocity.split(pulls[None]))[0]
    looked = Looked(facts | verdict, one, sets, points, slope, -curvature.hessian, way, exhausted)
    looked.facts["samples_independent"] = looked.samples
    return looked


def _curvature(
    velocity: Velocity, y: np.ndarray, T: float, sets: range, points: int, block: slice | None = None
) -> Curvature:
    """The curvature over independent sets, in all directions or in one block of y, with as many points as it needs."""
    kept = velocity.directions(y) if block is None else np.eye(len(y))[:, block]
    while True:
        drawn = (velocity.unseen(k, points) for k in sets)
        hessians = [kept.T @ -velocity.jacobian_over(one, y) @ kept for one in drawn]
        mean = np.mean(hessians, axis=0)
        values, vectors = np.linalg.eigh((mean + mean.T) / 2)
        _, errors = mean_and_error([np.einsum("ia,ij,ja->a", vectors, H, vectors) for H in hessians])
        curvature = Curvature(values, errors, kept @ vectors, kept @ mean @ kept.T, points)
        more = _finer(velocity, points, slope=False)
        if curvature.stays(T) or curvature.escapes(T) or not more:
            return curvature
        points = more


def _joint(within: Curvature, beside: Curvature, one: Velocity) -> Curvature:
    """The curvature without r and that in one column of r as one, of the velocity `one` with that column."""
    kept = np.delete(np.eye(len(one.start)), one.blocks["r"], axis=1)
    values, errors = np.append(within.values, beside.values), np.append(within.errors, beside.errors)
    order = np.argsort(values)
    vectors = np.hstack([kept @ within.vectors, beside.vectors])[:, order]
    hessian = kept @ within.hessian @ kept.T + beside.hessian
    return Curvature(values[order], errors[order], vectors, hessian, within.points)


def mean_velocity(velocity: Velocity, y: np.ndarray, looked: Looked) -> np.ndarray:
    """dy/dτ at y over all the samples that were looked at."""
    return np.mean([velocity.over(velocity.unseen(k, looked.points), y) for k in looked.sets], axis=0)


def linear_flow(velocity: Velocity, y: np.ndarray, tau: float, length: float) -> np.ndarray:
    """The step of the flow linearised at y in the time τ, cut at a length relative to y."""
    values, vectors = _eigen(-velocity.jacobian(tau, y), velocity, y)
    step = vectors @ ((vectors.T @ velocity(tau, y)) * _reach(values, tau))
    most, size = length * float(np.linalg.norm(y)), float(np.linalg.norm(step))
    return step * (most / size) if size > most else step


def _step(
    slopes: Sequence[np.ndarray], velocity: Velocity, y: np.ndarray, vectors: np.ndarray, reach: np.ndarray
) -> tuple[float, float]:
    """The distance that the mean of the slopes moves the state, relative to its size, and its standard error."""
    step, errors = mean_and_error((np.array(slopes) @ vectors * reach) @ vectors.T)
    return _largest(velocity, y, step), _largest(velocity, y, errors)


def _finer(velocity: Velocity, points: int, slope: bool) -> int:
    """More base points for a set, for a slope or for a Hessian; 0 if there are enough for this flow."""
    model, n = velocity.spec.model, velocity.F + velocity.own
    most = (MOST_TO_REST if velocity.spec.until == "rest" else MOST_AT_END) * velocity.asked_points
    more = min(FINER * points, most)
    tokens, D = more * images(model.prior) * model.length, model.heads * n
    small = tokens * (model.heads + n) <= MOST_FOR_SLOPE if slope else tokens * D * (1 + D / 64) <= MOST_FOR_CURVATURE
    return more if small and more > points else 0


def _verdict(kind: str, why: str) -> dict[str, str]:
    heads = {
        "moving": "still moving",
        "saddle": "at a saddle",
        "undersampled": "at rest on its own samples only",
        "minimum": "at a minimum",
    }
    return {"kind": kind, "sentence": f"{heads[kind]}: {why}"}


def _shares(velocity: Velocity, y: np.ndarray, step: np.ndarray) -> dict[str, float]:
    """The largest entries of a step in m, r, b and v relative to those of y (r: to K, b and v: at least to 1)."""
    blocks = velocity.blocks
    largest = {name: float(np.abs(y[where]).max(initial=0.0)) for name, where in blocks.items()}
    heads = max(largest["m"], largest["r"]) or 1.0
    sizes = {"m": largest["m"] or 1.0, "r": heads, "b": max(1.0, largest["b"]), "v": max(1.0, largest["v"])}
    return {name: float(np.abs(step[where]).max(initial=0.0)) / sizes[name] for name, where in blocks.items()}


def _largest(velocity: Velocity, y: np.ndarray, step: np.ndarray) -> float:
    return max(_shares(velocity, y, step).values())


def _worst(moved: dict[str, float]) -> str:
    name = max(moved, key=lambda name: moved[name])
    return f"{moved[name]:.2%} of {'the heads' if name == 'r' else name}"


def _reach(values: np.ndarray, T: float) -> np.ndarray:
    """φ(λ) = (1 − e^{−λT})/λ, at most that of a growth by e^GROWTH: beyond it a direction is judged by its sign."""
    x = np.maximum(values * T, -GROWTH)
    small = np.abs(x) < 1e-8
    return T * np.where(small, 1.0, -np.expm1(-x) / np.where(small, 1.0, x))


def negligible_r(velocity: Velocity, y: np.ndarray) -> bool:
    """Whether r counts as 0 in a gradient flow, where it stays so."""
    m_hat, r, *_ = velocity.split(y[None])
    small = float(np.linalg.norm(r)) <= SMALL * float(np.linalg.norm(m_hat))
    return small and velocity.closed_form and not velocity.noisy


def _eigen(hessian: np.ndarray, velocity: Velocity, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, the smallest first, and eigenvectors without the directions in which nothing can change."""
    kept = velocity.directions(y)
    values, vectors = np.linalg.eigh(kept.T @ ((hessian + hessian.T) / 2) @ kept)
    return values, kept @ vectors
