"""Choose the engine of a descent, and walk from one recorded step to the next.

An engine is at step 0 when built. `advance(start, stop)` returns the step reached, less than `stop` where the
parameters or their gradient are not finite or beyond `HUGE`; `strength` is Γ = lr Σγ over the steps made.
"""

import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np

from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Outcome, Status
from softmaxlab.polarization.descent.compiled import losses, maps
from softmaxlab.polarization.descent.compiled.engines import Full, Reduced
from softmaxlab.polarization.descent.compiled.gradient import HUGE
from softmaxlab.polarization.descent.numpy_engine import Plain
from softmaxlab.polarization.descent.settings import DescentSettings
from softmaxlab.polarization.record import History

CHUNK = 100_000  # steps between two looks at the keyboard
BATCH = 64  # recorded steps observed at once


class Engine(Protocol):
    path: str
    spec: DescentSettings
    strength: float

    def advance(self, start: int, stop: int) -> int: ...
    def parameters(self) -> dict[str, np.ndarray]: ...


def engine_for(spec: DescentSettings) -> Engine:
    """The fastest engine that gives this spec's numbers."""
    return kind_of_engine(spec)(spec)


def kind_of_engine(spec: DescentSettings) -> type[Plain] | type[Reduced] | type[Full]:
    """Return the class of the engine."""
    if spec.map not in maps.CODES or spec.loss not in losses.CODES:
        return Plain
    plain_descent = spec.optimizer == "gd" and spec.freeze is None
    if spec.loss == "logistic" and spec.model == "value" and plain_descent:
        return Reduced
    return Full


def follow(engine: Engine, steps: list[int], history: History) -> Status:
    """Take the engine through `steps` and record them, until the end or until something is not finite."""
    tape = Tape(engine, history)
    at = 0
    with Progress(engine.spec.steps, "descent") as progress:
        # only one bar can be drawn at a time: descents in threads leave it to their caller
        alone = threading.current_thread() is threading.main_thread()
        for step in steps:
            reached = _walk(engine, at, step, progress.advance if alone else _ignore)
            if reached < step or not _sane(engine):
                return tape.flush() or _accident(engine, reached)
            if early := tape.add(step):
                return early
            at = step
    return tape.flush() or Status()


class Tape:
    """Hands snapshots to the history in batches; what it returns is a status if one of them has no finite loss."""

    def __init__(self, engine: Engine, history: History):
        self.engine, self.history = engine, history
        self.size = 1 if history.thin else BATCH
        self.steps: list[int] = []
        self.snapshots: list[dict[str, np.ndarray]] = []

    def add(self, step: int) -> Status | None:
        """Record the engine's parameters as those at `step`."""
        now = {name: x.copy() for name, x in self.engine.parameters().items()}
        self.snapshots.append(now | {"strength": np.array(self.engine.strength)})
        self.steps.append(step)
        return self.flush() if len(self.steps) == self.size else None

    def flush(self) -> Status | None:
        if not self.steps:
            return None
        batch = {name: np.stack([shot[name] for shot in self.snapshots]) for name in self.snapshots[0]}
        spec = self.engine.spec
        at = {name: batch[name] for name in spec.start()}
        loss = spec.model_of().loss(spec.loss_of(), spec.model_of().forward(spec.map_of(), at)[1])
        good = int(np.append(np.isfinite(loss), False).argmin())
        more = {"strength": batch["strength"][:good]} if spec.has_strength() else {}
        if good:
            self.history.add({name: x[:good] for name, x in at.items()}, **more)
        early = _singular(spec, self.steps[good]) if good < len(self.steps) else None
        self.steps, self.snapshots = [], []
        return early


def _walk(engine: Engine, at: int, stop: int, tell: Callable[[int], None]) -> int:
    """Advance to `stop`, or as far as it goes."""
    while at < stop:
        goal = min(at + CHUNK, stop)
        reached = engine.advance(at, goal)
        tell(reached - at)
        if reached < goal:
            return reached
        at = goal
    return at


def _ignore(steps: int) -> None:
    pass


def _sane(engine: Engine) -> bool:
    return all((np.abs(x) < HUGE).all() for x in engine.parameters().values())


def _accident(engine: Engine, step: int) -> Status:
    """Return the status of a run that ended at `step` too early."""
    spec, at, model = engine.spec, engine.parameters(), engine.spec.model_of()
    loss = model.loss(spec.loss_of(), model.forward(spec.map_of(), at)[1])
    slopes = model.velocity(spec.loss_of(), spec.map_of(), at).values()
    if _sane(engine) and not all(np.isfinite(x).all() for x in (loss, *slopes)):
        return _singular(spec, step)
    return Status(
        Outcome.DIVERGED,
        f"the parameters or their gradient are beyond {HUGE:.0e} at step {step}; the result holds what was recorded "
        f"until then; lower lr, now {spec.lr:g}",
    )


def _singular(spec: DescentSettings, step: int) -> Status:
    where = "where V s ≤ 0 for a class with target > 0" if spec.loss == "kl" else f"where map {spec.map!r} divides by 0"
    return Status(
        Outcome.SINGULAR,
        f"step {step} has come to a point {where}; the result holds what was recorded before; lower lr, now "
        f"{spec.lr:g}, or start elsewhere",
    )
