"""Discrete descent of a problem: the steps that a user's training loop would make, compiled.

    a ← a − lr ∇_a L,  V ← V − lr ∇_V L, both gradients at the old point; or torch's momentum, Adam, AdamW

Three paths to the same numbers: `reduced` (the logistic value model under plain gradient descent, in (a, u)),
`compiled` (all built-in losses, models and maps but sparsemax and entmax15), `plain` (anything, in NumPy, some hundred
times slower). `notes["path"]` says which it was, `notes["compile_seconds"]` what compiling or loading the kernel took.
"""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from softmaxlab.core.cost import Cost
from softmaxlab.core.pool import cores
from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.polarization.certificate import (
    ACROSS,
    HALF,
    TENTH,
    Motion,
    certificate,
    distances,
    failed,
    invariant_drifts,
    movement,
    sizes_of,
)
from softmaxlab.polarization.descent.settings import DescentSettings
from softmaxlab.polarization.flow.field import kinks_of
from softmaxlab.polarization.models import Parameters
from softmaxlab.polarization.record import History, axes_of

KEPT = ("Σa", ACROSS)  # linear in the parameters
# seconds of a step and of a number in it, on one core, within a factor of ten
STEP_SECONDS = {"reduced": (5e-8, 1e-9), "compiled": (1e-7, 3e-9), "plain": (1e-4, 3e-9)}


class Descent(DescentSettings):
    """`steps` steps of an optimizer on a problem, as torch defines it.

    Recorded are `points` steps evenly spaced in log(step), or those listed in `record`; the first and the last always.
    `momentum` belongs to "momentum", `betas` and `eps` to "adam" (weight decay in the gradient) and "adamw" (weight
    decay on the parameters). A run that leaves the finite numbers holds the steps recorded until then.
    notes["certificate"] says whether it has come to rest (certificate.py).
    """

    def estimate(self) -> Cost:
        """Steps of the path that will be taken, each over all parameters."""
        from softmaxlab.polarization.descent.engine import kind_of_engine  # imports Numba

        kept = len(self.record or ()) or min(self.points, self.steps)
        once, each = STEP_SECONDS[kind_of_engine(self).path]
        return Cost(self.record_memory(kept), self.steps * (once + each * self.size()))

    def _run(self, device: str) -> Result:
        from softmaxlab.polarization.descent.engine import engine_for, follow  # imports Numba

        engine = engine_for(self)
        began = time.perf_counter()
        engine.advance(0, 0)
        compiling = time.perf_counter() - began
        steps = self.recorded_steps()
        history = History(self, len(steps))
        with np.errstate(all="ignore"):  # what is not finite becomes a status
            status = follow(engine, steps, history)
            arrays = history.arrays()
        step = np.array(steps[: len(arrays["loss"])])
        arrays = {"step": step, "t": self.lr * step, **arrays}
        with np.errstate(all="ignore"):
            certified = _certified(self, arrays, engine.parameters(), engine.path) if status.ok else failed(status)
        notes = {"path": engine.path, "compile_seconds": round(compiling, 3)}
        notes |= {"converged": certified["kind"] == "minimum", "certificate": certified}
        if history.thin:
            notes[history.valued] = "at the first and the last time only: all times would take too much memory"
        return Result(arrays, axes_of(self, arrays), status, notes)


def _certified(spec: Descent, arrays: dict[str, np.ndarray], last: Parameters, path: str) -> dict[str, Any]:
    """The certificate of a descent whose last parameters are `last`.

    Gradient descent keeps sums (KEPT) to rounding. From what else the flow conserves it departs by O(lr): that is in
    the certificate, but is no fault.
    """
    model, loss, map = spec.model_of(), spec.loss_of(), spec.map_of()
    settles = loss.settles or spec.weight_decay > 0
    recorded = arrays["t"] <= arrays["t"][-1] * (HALF if settles else TENTH)
    k = int(np.flatnonzero(recorded)[-1])
    moving = [name for name in model.axes if name != spec.frozen()]
    sizes = sizes_of(spec, spec.start(), last)
    every_time = [name for name in (*model.axes, "weights") if len(arrays[name]) == len(recorded)]
    earlier, now = ({name: arrays[name][i] for name in every_time} for i in (k, -1))
    moved = movement(earlier, now, sizes)
    ends = {name: np.stack([x, last[name]]) for name, x in spec.start().items()}
    follows = spec.optimizer in ("gd", "momentum")
    is_flow = follows and not spec.weight_decay
    drifts = invariant_drifts(spec, ends) if is_flow else {}
    if path == "reduced":
        drifts.pop(ACROSS, None)  # the reduction to u leaves it out
    shapes = [last[name].shape for name in moving]
    borders = np.cumsum([0, *(last[name].size for name in moving)]).tolist()
    blocks = {name: slice(a, b) for name, a, b in zip(moving, borders, borders[1:])}

    def velocity(x: np.ndarray) -> np.ndarray:
        at = dict(last) | {name: x[part].reshape(shape) for (name, part), shape in zip(blocks.items(), shapes)}
        pulled = model.velocity(loss, map, at)
        return np.concatenate([pulled[name].ravel() for name in moving]) - spec.weight_decay * x

    motion = Motion(
        "t",
        float(arrays["t"][-1]),
        float(arrays["t"][k]),
        moved,
        np.concatenate([last[name].ravel() for name in moving]),
        velocity,
        blocks,
        sizes,
        settles,
        smooth=kinks_of(spec) is None,
        rate=None if not follows else 1 / (1 - spec.momentum) if spec.optimizer == "momentum" else 1.0,
    )
    numbers, limit = distances(spec, arrays["weights"][-1], float(np.log(arrays["t"][-1])) if is_flow else None)
    return numbers | certificate(motion, drifts, {name: x for name, x in drifts.items() if name in KEPT}, limit)


def descend_many(specs: Iterable[Descent], jobs: int | None = None) -> list[Result]:
    """The results of many specs, in order, computed in `jobs` threads (as many as processors if not given)."""
    specs = list(specs)
    results = []
    with ThreadPoolExecutor(jobs or cores()) as pool, Progress(len(specs), "descents") as progress:
        for result in pool.map(simulate, specs):
            results.append(result)
            progress.advance(failed=not result.status.ok)
    return results
