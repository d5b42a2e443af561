"""Build the result of a flow: order parameters at all times, the loss out of sample, and its certificate.

`converged` means that the certificate (certificate.py) says minimum.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from softmaxlab.core.ode import Run
from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.specialization.flow.equilibrium import Path
from softmaxlab.specialization.flow.settings import FlowSettings
from softmaxlab.specialization.flow.velocity import Velocity
from softmaxlab.specialization.population import SETS, loss_over, standard_error
from softmaxlab.specialization.sampling import images, symmetric

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


def recorded(spec: FlowSettings, path: Path, run: Run) -> Result:
    """The result of a flow that took `path`."""
    velocity, grid = path.first, path.tau
    shown = np.isin(grid, spec.times()) | (grid > spec.tau_end)
    m_hat, r, b, v = velocity.split(path.rows[shown])
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
    status, notes = _certified(path) if status.ok else _failed(status)
    return result_of(arrays, sound, status, _notes(spec, path.velocity, run) | notes)


def result_of(arrays: Mapping[str, np.ndarray], sound: int, status: Status, notes: Mapping[str, Any]) -> Result:
    """A result of the first `sound` times, those of a finite loss.

    The start stays in any case, since it is known; it has no loss if that is not finite.
    """
    kept = {name: array for name, array in arrays.items() if sound or not name.startswith("loss")}
    kept = {name: array[: max(sound, 1)] if AXES[name][0] == "tau" else array for name, array in kept.items()}
    return Result(kept, {name: AXES[name] for name in kept}, status, notes)


def _losses(spec: FlowSettings, velocity: Velocity, K: np.ndarray, b: np.ndarray, v: np.ndarray, k: int) -> list[float]:
    """The loss at all times over the k-th set of samples, which the flow has not seen."""
    points = max(1, min(UNSEEN, velocity.samples.size) // images(spec.model.prior))
    unseen = symmetric(spec.model, points, (spec.seed, "out of sample", k), velocity.order.p)
    return [loss_over(spec.model.map, *at, unseen) for at in zip(K, b, v)]


def _notes(spec: FlowSettings, velocity: Velocity, run: Run) -> dict[str, Any]:
    kind = spec.sampling
    if kind == "symmetric" and not velocity.samples.quasi:
        kind = "symmetric, of random points: there are no Sobol points of this dimension"
    samples = max(velocity.samples.size, velocity.corrected_by)
    return {
        "solver": run.solver,
        "evaluations": run.evaluations,
        "jacobians": run.jacobians,
        "samples": samples,
        "sampling": kind,
    }


def _failed(status: Status) -> tuple[Status, dict[str, Any]]:
    return status, {"converged": False, "certificate": {"kind": "moving", "sentence": status.sentence}}


def _certified(path: Path) -> tuple[Status, dict[str, Any]]:
    """The certificate's sentence, and what it rests on."""
    certificate, last = path.certificate or {}, path.velocity.slope(path.last)
    notes = {"converged": certificate["kind"] == "minimum", "certificate": certificate}
    notes |= {"rate": path.velocity.rate(last), "train_loss": last.loss}
    return Status(sentence=f"{certificate['sentence']} (tau = {certificate['tau']:g})"), notes
