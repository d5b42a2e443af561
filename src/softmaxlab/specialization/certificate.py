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

from softmaxlab.specialization.population import mean_and_error
from softmaxlab.specialization.sampling import images
from softmaxlab.specialization.velocity import Velocity

MOVED = 2e-3  # relative movement since τ/2; LSODA at rest moves by its tolerance, rtol = 1e-3, at most
DRIFT = 1e-2  # relative drift ahead over the flow's own samples
STEP = 3e-2  # relative step to the rest point of other samples
KNOWN = STEP / 3  # standard error of that step, to be reached by more samples
SETS = 8
SURE = 2.4  # standard errors: Student's 95 % range of eight sets
FINER = 4  # as many more samples, again and again where a flow is to be followed to rest, else once at most
MOST_FOR_SLOPE, MOST_FOR_CURVATURE = 2**24, 2**22  # numbers in a set of samples; all sets take some 5 s each way
GROWTH = 3.0  # log of the growth of a disturbance that counts as an escape
AHEAD = 9.0  # in units of τ
SMALL = 1e-2  # r below this, relative to K, moves the loss by its square, 1e-4: it then counts as 0


@dataclass(frozen=True)
class Looked:
    """A certificate and, if independent samples were looked at, which, the velocity over them, and a saddle's way out.

    The velocity and the way are those of `velocity`, which may have fewer columns of r than the flow's.
    """

    found: dict[str, Any]
    velocity: Velocity
    sets: range = range(0)
    points: int = 0
    slope: np.ndarray | None = None
    way: np.ndarray | None = None

    @property
    def samples(self) -> int:
        return len(self.sets) * self.points * images(self.velocity.spec.model.prior)


def certificate(velocity: Velocity, half: np.ndarray, last: np.ndarray, tau: float, look: int = 0) -> Looked:
    """The certificate of a flow that was at `half` at τ/2 and at `last` at τ. Every `look` has samples of its own."""
    size = float(np.linalg.norm(last)) or 1.0
    moved = _moved(velocity, half, last)
    slope = velocity.over(velocity.samples, last) + velocity.correction
    found: dict[str, Any] = {"tau": tau, "moved": moved, "gradient": float(np.linalg.norm(slope))}
    if max(moved.values()) > MOVED:
        told = _told("moving", f"it moved by {_worst(moved)} since tau = {tau / 2:g}")
        return Looked(found | told, velocity)
    values, vectors = _eigen(-velocity.jacobian(tau, last), velocity, last)
    own = float(np.linalg.norm((vectors.T @ slope) * _reach(values, AHEAD * tau))) / size
    found |= {"drift": own, "eigenvalue_own": float(values[0])}
    if own > DRIFT:
        told = _told("moving", f"its gradient would move it by {own:.1%} until tau = {10 * tau:g}")
        return Looked(found | told, velocity)
    return _independent(velocity, last, tau, found, range(look * SETS, (look + 1) * SETS))


def _independent(velocity: Velocity, y: np.ndarray, tau: float, found: dict[str, Any], sets: range) -> Looked:
    """What independent samples say of a state that rests on the flow's own."""
    looking, y = _simplified(velocity, y)
    T, size = AHEAD * tau, float(np.linalg.norm(y)) or 1.0
    points = velocity.asked_points
    while True:
        drawn = (looking.unseen(k, points) for k in sets)
        slopes, hessians = zip(*((looking.over(one, y), -looking.jacobian_over(one, y)) for one in drawn))
        values, vectors = _eigen(np.mean(hessians, axis=0), looking, y)
        _, errors = mean_and_error([np.einsum("ia,ij,ja->a", vectors, H, vectors) for H in hessians])
        sure = (values - SURE * errors).min() * T >= -GROWTH or (values + SURE * errors).min() * T < -GROWTH
        if sure or not _fits(looking, FINER * points, MOST_FOR_CURVATURE):
            break
        points *= FINER
    reach = _reach(values, T)
    step, error = _step(slopes, vectors, reach, size)
    while error > KNOWN and step - SURE * error < STEP and _fits(looking, FINER * points, MOST_FOR_SLOPE):
        points *= FINER
        slopes = [looking.over(looking.unseen(k, points), y) for k in sets]
        step, error = _step(slopes, vectors, reach, size)
    least = int(np.argmin(values - SURE * errors))
    pulls, pull_errors = mean_and_error(np.array(slopes) @ vectors)
    found = found | {
        "eigenvalue": float(values[0]),
        "eigenvalue_error": float(errors[0]),
        "escape_time": float(-1 / values[0]) if values[0] < 0 else None,
        "gradient_independent": float(np.linalg.norm(pulls)),
        "gradient_independent_error": float(np.linalg.norm(pull_errors)),
        "step": step,
        "step_error": error,
    }
    curved = f"the smallest eigenvalue is {values[0]:.2g} ± {errors[0]:.1g}"
    lowest, way = (values - SURE * errors)[least], None
    if ((values < -SURE * errors) & (values * T < -GROWTH)).any():
        told = _told("saddle", f"{curved}, so it leaves in a time of about {-1 / values[0]:.3g}")
        way = vectors[:, 0]
    elif lowest * T < -GROWTH:
        unsure = f"{values[least]:.2g} ± {errors[least]:.1g}"
        told = _told("undersampled", f"an eigenvalue is {unsure}: more samples must tell its sign")
    elif error > KNOWN:
        told = _told("undersampled", f"independent samples know its step to {error:.1%} only: take more samples")
    elif step > STEP:
        told = _told("undersampled", f"independent samples would move it by {step:.1%}: take more samples")
    else:
        told = _told("minimum", f"{curved}, and independent samples would move it by {step:.2%}")
    looked = Looked(found | told, looking, sets, points, np.mean(slopes, axis=0), way)
    looked.found["samples_independent"] = looked.samples
    return looked


def mean_velocity(velocity: Velocity, y: np.ndarray, looked: Looked) -> np.ndarray:
    """dy/dτ at y over all the samples that were looked at."""
    return np.mean([velocity.over(velocity.unseen(k, looked.points), y) for k in looked.sets], axis=0)


def linear_flow(velocity: Velocity, y: np.ndarray, tau: float, length: float) -> np.ndarray:
    """How far the flow linearised at y goes in the time τ, cut at a length relative to y."""
    values, vectors = _eigen(-velocity.jacobian(tau, y), velocity, y)
    pulls = vectors.T @ (velocity.over(velocity.samples, y) + velocity.correction)
    step = vectors @ (pulls * _reach(values, tau))
    most, size = length * float(np.linalg.norm(y)), float(np.linalg.norm(step))
    return step * (most / size) if size > most else step


def _step(slopes: Sequence[np.ndarray], vectors: np.ndarray, reach: np.ndarray, size: float) -> tuple[float, float]:
    """How far the mean of the slopes moves the state, relative to its size, and the standard error of that."""
    pulls, errors = mean_and_error(np.array(slopes) @ vectors)
    return float(np.linalg.norm(pulls * reach)) / size, float(np.linalg.norm(errors * reach)) / size


def _fits(velocity: Velocity, points: int, most: int) -> bool:
    """Whether a set of so many base points is small enough for this flow."""
    model = velocity.spec.model
    numbers = points * images(model.prior) * model.length * (model.features + velocity.own)
    return numbers <= most and (velocity.spec.until == "rest" or points <= FINER * velocity.asked_points)


def _told(kind: str, why: str) -> dict[str, str]:
    heads = {
        "moving": "still moving",
        "saddle": "at a saddle",
        "undersampled": "at rest on its own samples only",
        "minimum": "at a minimum",
    }
    return {"kind": kind, "sentence": f"{heads[kind]}: {why}"}


def _moved(velocity: Velocity, half: np.ndarray, last: np.ndarray) -> dict[str, float]:
    """The movement of m, b and v relative to themselves, of r relative to K, which it leaves."""
    (m0, m1), (r0, r1), (b0, b1), (v0, v1) = velocity.split(np.stack([half, last]))
    heads = float(np.linalg.norm(np.hstack([m1, r1]))) or 1.0
    norms = {"m": float(np.linalg.norm(m1)) or 1.0, "r": heads, "b": max(1.0, float(np.linalg.norm(b1)))}
    gaps = {"m": m1 - m0, "r": r1 - r0, "b": b1 - b0}
    moved = {name: float(np.linalg.norm(gap)) / norms[name] for name, gap in gaps.items()}
    return moved | {"v": float(abs(v1 - v0)) / max(1.0, float(abs(v1)))}


def _worst(moved: dict[str, float]) -> str:
    name = max(moved, key=lambda name: moved[name])
    return f"{moved[name]:.2%} of {'the heads' if name == 'r' else name}"


def _reach(values: np.ndarray, T: float) -> np.ndarray:
    """φ(λ) = (1 − e^{−λT})/λ, at most that of a growth by e^GROWTH: beyond it a direction is judged by its sign."""
    x = np.maximum(values * T, -GROWTH)
    small = np.abs(x) < 1e-8
    return T * np.where(small, 1.0, -np.expm1(-x) / np.where(small, 1.0, x))


def _simplified(velocity: Velocity, y: np.ndarray) -> tuple[Velocity, np.ndarray]:
    """With one column of r in place of all where r counts as 0: the Hessian is then the same for each column."""
    if not negligible_r(velocity, y):
        return velocity, y
    fewer = velocity.narrowed(y, own=1, points=velocity.points)
    return fewer, fewer.start


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
