"""Follow a flow to its last time, or beyond it until it is certified to be at rest.

Beyond `tau_end` it goes on from where it is as the certificate (certificate.py) says:

    moving        the same flow, for `LONGER` times as long; but as below where it creeps, since it is slow where the
                  loss is nearly flat, and there its samples make the way
    undersampled  the flow with a linear function added to the velocity that makes it and its Jacobian what many more
                  samples say they are where the flow is now. Around there its rest point is theirs, and it gets there
                  by exponential steps: each is the flow linearised at its beginning, for as long as that is close
    saddle        the same after a step aside, as long as the noise of a start: a flow that came along a saddle's stable
                  directions would stay, which no SGD does

Where r has decayed to nothing it is dropped, unless the way out of a saddle is in r: the loss then needs no samples of
ξ, and a gradient costs a third.

A minimum that a flow has at `tau_end` must be the start's, not the samples': other samples have to lead there as well.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from softmaxlab.core.ode import Run, integrate
from softmaxlab.core.progress import Progress
from softmaxlab.specialization.flow.certificate import (
    SETS,
    Looked,
    around,
    certificate,
    linear_flow,
    mean_velocity,
    negligible_r,
    other_way,
)
from softmaxlab.specialization.flow.settings import FlowSettings
from softmaxlab.specialization.flow.velocity import Velocity

LONGER = 4
FINER = 4
LOOKS = 8  # certificates of one flow
STEPS = 16  # exponential steps between two of them
LENGTH = 0.05  # of such a step at most, relative to the state
REGION = 0.25  # how far they may go together before the constant is taken anew
CREEPS = 0.01  # relative movement since half its time of a flow that does
ANCHORS = 3  # times that it is
RESTS = 1e-3  # a step that is shorter ends them
ASIDE = 0.01  # the noise of a start
OTHERS, COARSER = 2, 2  # flows over other samples that must end at the same minimum, each over so many times fewer
LONGEST = 1e7  # the slowest feature of the paper's figures is learnt by τ = 1e5


@dataclass
class Path:
    """States `rows` [time, size] of the velocity `first` at the times `tau`, and the end: its velocity and state."""

    tau: np.ndarray
    rows: np.ndarray
    first: Velocity
    velocity: Velocity
    last: np.ndarray
    certificate: dict[str, Any] | None = None


def follow(spec: FlowSettings, run: Run) -> Path:
    """The path of a flow, with its certificate unless it fails."""
    first = velocity = Velocity(spec)
    grid, rows = spec.grid(), []
    with Progress(len(grid), "flow") as progress:
        for part in integrate(velocity, velocity.start, grid, run, velocity.jacobian):
            rows.append(part)
            progress.advance(len(part))
    states = np.concatenate(rows)
    path = Path(grid[: len(states)], states, first, velocity, states[-1])
    if not run.status.ok:
        return path
    end = float(grid[-1])
    half, last = path.rows[grid == end / 2][0], path.rows[-1]
    looked, exhausted = certificate(velocity, half, last, end), False
    for look in range(1, LOOKS):
        kind = looked.facts["kind"]
        longer = (LONGER if kind == "moving" else 2) * end
        if spec.until != "rest" or kind == "minimum" or longer > LONGEST or (exhausted and looked.exhausted):
            break
        exhausted = looked.exhausted
        if kind == "moving" and max(looked.facts["moved"].values()) <= CREEPS and negligible_r(velocity, last):
            looked, longer = around(velocity, last, end, look - 1, {}), 2 * end
        own = 0 if negligible_r(velocity, last) and not _in_r(looked) else first.own
        if looked.slope is None or looked.jacobian is None:
            velocity = velocity.narrowed(last, own, velocity.points)
            stretch = np.array([0.0, longer / 2 - end, longer - end])
            more = np.concatenate(list(integrate(velocity, velocity.start, stretch, run, velocity.jacobian)))
        else:
            velocity = velocity.narrowed(last, own, FINER * first.points)
            velocity, last = _settled(velocity, looked, looked.slope, looked.jacobian, end)
            stretch, more = np.array([0.0, end]), np.stack([last, last])
        path.tau = np.append(path.tau, end + stretch[1 : len(more)])
        path.rows = np.vstack([path.rows, first.joined(*velocity.split(more[1:]))])
        path.velocity, path.last = velocity, more[-1]
        if not run.status.ok:
            return path
        end, half, last = longer, more[-2], more[-1]
        looked = certificate(velocity, half, last, end, look)
    path.certificate = looked.facts
    if spec.until == "tau_end" and path.certificate["kind"] == "minimum":
        path.certificate = other_way(looked, velocity, [_other_end(velocity, end, run, k) for k in range(OTHERS)], last)
    return path


def _other_end(velocity: Velocity, tau: float, run: Run, k: int) -> np.ndarray | None:
    """Return where the flow from the same start is at τ over other samples; None if it does not get there.

    The samples are the k-th set beyond those of the certificate.
    """
    other = velocity.with_samples(velocity.unseen(SETS + k, max(1, velocity.points // COARSER)))
    run = Run("LSODA", run.rtol, run.atol, run.limits, clock=run.clock)
    states = np.concatenate(list(integrate(other, other.start, np.array([0.0, tau]), run, other.jacobian)))
    return states[-1] if run.status.ok else None


def _in_r(looked: Looked) -> bool:
    """Whether the way out of a saddle is in r."""
    if looked.way is None:
        return False
    shares = np.square(looked.way)
    return bool(shares[looked.velocity.blocks["r"]].sum() > shares.sum() / 2)


def _settled(
    velocity: Velocity, looked: Looked, slope: np.ndarray, jacobian: np.ndarray, tau: float
) -> tuple[Velocity, np.ndarray]:
    """The corrected velocity and its rest point, or where it is after `ANCHORS` corrections."""

    def taken(x: np.ndarray) -> np.ndarray:
        return velocity.joined(*looked.velocity.split(x[None]))[0]

    y = anchor = velocity.start
    here = velocity.corrected(y, taken(slope), looked.samples, velocity.widened(jacobian, looked.velocity))
    if looked.way is not None:
        y = y + ASIDE * taken(looked.way)
    for k in range(ANCHORS):
        if k:
            here, anchor = velocity.corrected(y, mean_velocity(velocity, y, looked), looked.samples), y
        for _ in range(STEPS):
            step = linear_flow(here, y, tau, LENGTH)
            y = y + step
            if np.linalg.norm(y - anchor) > REGION * np.linalg.norm(y):
                break
            if np.linalg.norm(step) < RESTS * np.linalg.norm(y):
                return here, y
    return here, y
