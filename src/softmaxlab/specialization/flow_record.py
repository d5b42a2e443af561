"""What the result of a flow holds: order parameters at all times, the loss out of sample, whether it has settled.

Settled means two things at once, both of the sampled loss: it changed by less than `SETTLED` in the second half of the
time, and at its present rate |∇Ẽ|² it falls by less than that in as much time again. A plateau that is left later
passes both, and there are such plateaus: settled does not prove convergence.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core.result import Result, Status
from softmaxlab.specialization.integrate import Run
from softmaxlab.specialization.population import SETS, loss_over, standard_error
from softmaxlab.specialization.sampling import images, symmetric
from softmaxlab.specialization.velocity import Velocity

if TYPE_CHECKING:
    from softmaxlab.specialization.flow import Flow

SETTLED = 1e-3
EACH_TIME, LAST_TIME = 2**9, 2**13  # samples of each of the sets that give the loss and its standard error
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
    """The result of a flow with states `rows` [time, size] at its first times."""
    m_hat, r, b, v = velocity.split(rows)
    order, tau = velocity.order, spec.times()[: len(rows)]
    K = np.concatenate([m_hat, r], axis=2)
    losses = np.array([_losses(spec, order.p, K, b, v, k) for k in range(SETS)])
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
    settled = _settled(velocity, tau, rows)
    status = Status(sentence=settled.pop("sentence")) if run.status.ok else run.status
    return Result(arrays, AXES, status, _notes(spec, velocity, run) | settled)


def _losses(spec: "Flow", p: np.ndarray, K: np.ndarray, b: np.ndarray, v: np.ndarray, k: int) -> list[float]:
    """The loss at all times over the k-th set of samples, which the flow has not seen; at the last time over more."""
    counts = [EACH_TIME] * (len(K) - 1) + [LAST_TIME]
    sets = {
        count: symmetric(spec.model, max(1, count // images(spec.model.prior)), (spec.seed, "out of sample", k), p)
        for count in {*counts}
    }
    return [loss_over(spec.model.map, K[i], b[i], v[i], sets[count]) for i, count in enumerate(counts)]


def _notes(spec: "Flow", velocity: Velocity, run: Run) -> dict[str, Any]:
    kind = spec.sampling
    if kind == "symmetric" and not velocity.samples.quasi:
        kind = "symmetric, of random points: there are no Sobol points of this dimension"
    samples = velocity.samples.X.shape[-1]
    return {"solver": run.solver, "evaluations": run.evaluations, "samples": samples, "sampling": kind}


def _settled(velocity: Velocity, tau: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Whether the flow has settled, by what measures, and a sentence about it."""
    half = int(np.searchsorted(tau, tau[-1] / 2, side="right")) - 1
    before, last = velocity.slope(rows[half]), velocity.slope(rows[-1])
    fell, rate = before.loss - last.loss, velocity.rate(last)
    ahead = rate**2 * tau[-1]
    settled = bool(abs(fell) < SETTLED and ahead < SETTLED)
    sentence = (
        f"{'settled' if settled else 'still moving'} at tau = {tau[-1]:g}: the loss fell by {fell:.2g} since "
        f"tau = {tau[half]:.4g} and, at its present rate, falls by {ahead:.2g} in as much time again"
    )
    return {"converged": settled, "rate": rate, "fell": fell, "train_loss": last.loss, "sentence": sentence}
