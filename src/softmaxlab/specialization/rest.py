"""Follow a flow to its last time, or beyond it until it is certified to be at rest.

Beyond `tau_end` it goes on from where it is as the certificate (certificate.py) says:

    moving        the same flow, for `LONGER` times as long
    undersampled  the flow over `FINER` times the samples, with a constant added to the velocity that makes it what many
                  more samples say it is where the flow is now. Around there its rest point is theirs, and it gets there
                  by exponential steps: each is the flow linearised at its beginning, for as long as that is close
    saddle        the same after a step aside, as long as the noise of a start: a flow that came along a saddle's stable
                  directions would stay, which no SGD does

Where r has decayed to nothing it is dropped: the loss then needs no samples of ξ, and a gradient costs a third.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core.progress import Progress
from softmaxlab.specialization.certificate import Looked, certificate, linear_flow, mean_velocity, negligible_r
from softmaxlab.specialization.integrate import Run, integrate
from softmaxlab.specialization.velocity import Velocity

if TYPE_CHECKING:
    from softmaxlab.specialization.flow import Flow

LONGER = 4
FINER = 4
LOOKS = 8  # certificates of one flow
STEPS = 16  # exponential steps between two of them
LENGTH = 0.05  # of such a step at most, relative to the state
REGION = 0.25  # how far they may go together before the constant is taken anew
ANCHORS = 3  # times that it is
RESTS = 1e-3  # a step that is shorter ends them
ASIDE = 0.01  # the noise of a start
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


def follow(spec: "Flow", run: Run) -> Path:
    """The path of a flow, with its certificate unless it fails."""
    first = velocity = Velocity(spec)
    grid, rows = spec.grid(), []
    with Progress(len(grid), "flow") as progress:
        for part in integrate(velocity, velocity.jacobian, velocity.start, grid, run):
            rows.append(part)
            progress.advance(len(part))
    states = np.concatenate(rows)
    path = Path(grid[: len(states)], states, first, velocity, states[-1])
    if not run.status.ok:
        return path
    end = float(grid[-1])
    half, last = path.rows[grid == end / 2][0], path.rows[-1]
    looked = certificate(velocity, half, last, end)
    for look in range(1, LOOKS):
        kind = looked.found["kind"]
        longer = (LONGER if kind == "moving" else 2) * end
        if spec.until != "rest" or kind == "minimum" or longer > LONGEST:
            break
        own = 0 if negligible_r(velocity, last) else velocity.own
        if kind == "moving":
            velocity = velocity.narrowed(last, own, velocity.points)
            stretch = np.array([0.0, longer / 2 - end, longer - end])
            found = np.concatenate(list(integrate(velocity, velocity.jacobian, velocity.start, stretch, run)))
        else:
            velocity = velocity.narrowed(last, own, FINER * first.points)
            velocity, last = _settled(velocity, looked, end)
            stretch, found = np.array([0.0, end]), np.stack([last, last])
        path.tau = np.append(path.tau, end + stretch[1 : len(found)])
        path.rows = np.vstack([path.rows, first.joined(*velocity.split(found[1:]))])
        path.velocity, path.last = velocity, found[-1]
        if not run.status.ok:
            return path
        end, half, last = longer, found[-2], found[-1]
        looked = certificate(velocity, half, last, end, look)
    path.certificate = looked.found
    return path


def _settled(velocity: Velocity, looked: Looked, tau: float) -> tuple[Velocity, np.ndarray]:
    """The corrected velocity and its rest point, or where it is after `ANCHORS` corrections."""

    def taken(x: np.ndarray) -> np.ndarray:
        return velocity.joined(*looked.velocity.split(x[None]))[0]

    y, here, slope = velocity.start, velocity, None if looked.slope is None else taken(looked.slope)
    if looked.way is not None:
        y, slope = y + ASIDE * taken(looked.way), None
    for _ in range(ANCHORS):
        if slope is None:
            slope = mean_velocity(velocity, y, looked)
        here, anchor, slope = velocity.corrected(y, slope, looked.samples), y, None
        for _ in range(STEPS):
            step = linear_flow(here, y, tau, LENGTH)
            y = y + step
            if np.linalg.norm(y - anchor) > REGION * np.linalg.norm(y):
                break
            if np.linalg.norm(step) < RESTS * np.linalg.norm(y):
                return here, y
    return here, y
