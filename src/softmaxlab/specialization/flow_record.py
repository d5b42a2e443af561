"""What the result of a flow holds: order parameters at all times, the loss out of sample, whether it has settled.

Settled means two things at once, both of the sampled loss: it changed by less than `SETTLED` in the second half of the
time, and at its present rate −dẼ/dτ it changes by less than that in as much time again. A plateau that is left later
passes both, and there are such plateaus: settled does not prove convergence.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.specialization.integrate import Run
from softmaxlab.specialization.population import SETS, loss_over, standard_error
from softmaxlab.specialization.sampling import images, symmetric
from softmaxlab.specialization.velocity import Velocity

if TYPE_CHECKING:
    from softmaxlab.specialization.flow import Flow

SETTLED = 1e-3
UNSEEN = 2**11  # samples in each of the sets that give the loss and its standard error; never more than the flow uses
AXES = {
    "tau": ("tau",),
    "m": ("tau", "head", "feature"),
    "r": ("tau", "head", "other_head"),
    "q": ("tau", "head", "other_head"),
    "b": ("tau", "head"),
    "v": ("tau",),
    "loss": ("tau",),
    "loss_error": ("tau",),
    "p": ("feature", "other_feature"),
}


def recorded(spec: "Flow", velocity: Velocity, rows: np.ndarray, run: Run) -> Result:
    """The result of a flow with states `rows` [time, size] at the first times of its grid."""
    grid = spec.grid()[: len(rows)]
    shown = np.isin(grid, spec.times())
    m_hat, r, b, v = velocity.split(rows[shown])
    order, tau = velocity.order, grid[shown]
    K = np.concatenate([m_hat, r], axis=2)
    with np.errstate(all="ignore"):  # what is not finite becomes a status
        losses = np.array([_losses(spec, velocity, K, b, v, k) for k in range(SETS)])
        loss, error = np.transpose([standard_error(each) for each in losses.T])
    arrays = {
        "tau": tau,
        "m": m_hat @ order.L_p.T,
        "r": r,
        "q": K @ K.swapaxes(1, 2),
        "b": b,
        "v": v,
        "loss": loss,
        "loss_error": error,
        "p": order.p,
    }
    sound = int(np.isfinite(loss + error).cumprod().sum())
    status = run.status
    if status.ok and sound < len(tau):
        status = Status(Outcome.DIVERGED, f"the loss is not finite at tau = {tau[sound]:.6g}")
    status, notes = _settled(velocity, grid, rows) if status.ok else (status, {"converged": False})
    return result_of(arrays, sound, status, _notes(spec, velocity, run) | notes)


def result_of(arrays: Mapping[str, np.ndarray], sound: int, status: Status, notes: Mapping[str, Any]) -> Result:
    """A result of the first `sound` times, those of a finite loss.

    The start stays in any case, since it is known; it has no loss if that is not finite.
    """
    kept = {name: array for name, array in arrays.items() if sound or not name.startswith("loss")}
    kept = {name: array[: max(sound, 1)] if AXES[name][0] == "tau" else array for name, array in kept.items()}
    return Result(kept, {name: AXES[name] for name in kept}, status, notes)


def _losses(spec: "Flow", velocity: Velocity, K: np.ndarray, b: np.ndarray, v: np.ndarray, k: int) -> list[float]:
    """The loss at all times over the k-th set of samples, which the flow has not seen."""
    points = max(1, min(UNSEEN, velocity.samples.size) // images(spec.model.prior))
    unseen = symmetric(spec.model, points, (spec.seed, "out of sample", k), velocity.order.p)
    return [loss_over(spec.model.map, *at, unseen) for at in zip(K, b, v)]


def _notes(spec: "Flow", velocity: Velocity, run: Run) -> dict[str, Any]:
    kind = spec.sampling
    if kind == "symmetric" and not velocity.samples.quasi:
        kind = "symmetric, of random points: there are no Sobol points of this dimension"
    samples = velocity.samples.size
    return {
        "solver": run.solver,
        "evaluations": run.evaluations,
        "jacobians": run.jacobians,
        "samples": samples,
        "sampling": kind,
    }


def _settled(velocity: Velocity, grid: np.ndarray, rows: np.ndarray) -> tuple[Status, dict[str, Any]]:
    """Whether the flow has settled: a sentence about it, and what it rests on."""
    end = grid[-1]
    (half,) = rows[grid == end / 2]
    last = velocity.slope(rows[-1])
    fell, rate = velocity.slope(half).loss - last.loss, velocity.rate(last)
    ahead = velocity.descent(rows[-1]) * end
    settled = bool(abs(fell) < SETTLED and abs(ahead) < SETTLED)
    sentence = (
        f"{'settled' if settled else 'still moving'} at tau = {end:g}: the loss fell by {fell:.2g} since "
        f"tau = {end / 2:g} and, at its present rate, falls by {ahead:.2g} in as much time again"
    )
    return Status(sentence=sentence), {"converged": settled, "rate": rate, "fell": fell, "train_loss": last.loss}
