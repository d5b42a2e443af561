"""Stochastic gradient descent of the heads on fresh batches, at a finite dimension D.

    k_h ← k_h − γ ∇_{k_h} 𝓛, and likewise b and v;   𝓛 = (1/N_b) Σ_μ |y^μ − ŷ(X^μ)|²/D;   τ = γ × steps    eqs. (5), (6)

`reduced` has exactly the law of this in (m, q, b, v), at a cost that does not depend on D; `direct` moves the vectors.
The flow is the limit of small γ D/N_b: the noise of the batches adds (γ D/N_b) E Σ_l c_l c_lᵀ to dq⊥/dτ, and where that
wins the heads grow in random directions and their loss with them.
"""

from typing import Annotated, Any, Protocol, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from softmaxlab.core.cost import Cost
from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.core.spec import Seed, Spec
from softmaxlab.core.threads import one_blas_thread
from softmaxlab.errors import unknown
from softmaxlab.specialization.flow.record import result_of
from softmaxlab.specialization.heads import CLOSED_FORM
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters, random_start
from softmaxlab.specialization.start import Start, check

METHODS = ("reduced", "direct")
PER_NORMAL = 1e-8  # seconds of a normal number and of what is done with it, within a factor of ten
CERTAIN = 6.0  # standard errors
FEW = 30  # losses that tell their own spread
GROWN = 2.0  # times the start's: heads, or a gain, shorter than this have not diverged, whatever the noise says
LONG = 1e3  # times the larger of the start's and the signal's |k|²: softer heads already attend one token only
LARGEST = 1e100  # of what a start holds: its squares are finite
Positive = Annotated[float, Field(gt=0)]


class SGD(Spec):
    """round(tau_end/lr) steps on batches of `batch` samples, recorded at `points` evenly spaced ones.

    The start is k*_f ~ N(0, I/D), k_h ~ N(0, η² I/D), b = 0, v = 1, or vectors that have the order parameters `start`;
    a result there (of SGD or of a flow) stands for those at its first time. The loss is that of the batch drawn at
    the recorded step, the last one included.
    """

    model: SingleLocation
    dim: int = Field(default=10_000, ge=1, le=10**15)
    batch: int = Field(default=10_000, ge=1, le=10**9)
    lr: Positive = 0.02
    tau_end: Positive = 30.0
    method: str = "reduced"
    seed: Seed = 0
    eta: float = Field(default=1.0, gt=0, le=LARGEST)
    points: int = Field(default=101, ge=2, le=1_000_000)
    start: Start | None = None

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        if method not in METHODS:
            raise unknown("method", method, METHODS)
        return method

    @model_validator(mode="after")
    def _possible(self) -> Self:
        F, H = self.model.features, self.model.heads
        reduced = self.method == "reduced"
        least, formula = (F + 3 * H, "F + 3 H") if reduced else (F + H, "F + H")
        if self.dim < least:
            raise ValueError(f"dim must be at least {formula} = {least} for method={self.method!r}, got {self.dim}")
        if reduced and self.model.map not in CLOSED_FORM:
            known = ", ".join(CLOSED_FORM)
            raise ValueError(f"method='reduced' knows {known}, not {self.model.map!r}; use method='direct'")
        if not 1 <= self.tau_end / self.lr < 1e15:
            raise ValueError(f"tau_end must hold from 1 to 1e15 steps of lr = {self.lr:g}, got {self.tau_end:g}")
        if self.start is not None:
            check(self.start, self.model, LARGEST)
            if self.eta != 1.0:
                raise ValueError(f"eta has no meaning with start, got {self.eta}; leave it out")
        return self

    @property
    def steps(self) -> int:
        return round(self.tau_end / self.lr)

    def recorded_steps(self) -> list[int]:
        """The steps that the result of a run without accident holds."""
        return np.unique(np.linspace(0, self.steps, self.points).round().astype(int)).tolist()

    def estimate(self) -> Cost:
        """A gradient over a batch at every step; `direct` moves vectors of length D."""
        F, H, L = self.model.features, self.model.heads, self.model.length
        record = 3 * 8.0 * H * (F + H) * min(self.points, self.steps + 1)
        if self.method == "direct":
            memory = 8.0 * self.dim * (F + 3 * H + L + 1) + record  # spikes; heads, gradients; one sample and its error
            return Cost(memory, self.steps * self.batch * L * self.dim * PER_NORMAL)
        return Cost(self.model.sample_memory(self.batch) + record, self.steps * self.model.sample_seconds(self.batch))

    @one_blas_thread()
    def _run(self, device: str) -> Result:
        engine = self._engine(device)
        history = History(self.lr)
        with np.errstate(all="ignore"):  # what is not finite becomes a status
            status = _follow(self, engine, history)
        notes = {"steps": int(self.steps), "samples": int(self.steps * self.batch), "batch_noise": self.batch_noise}
        arrays = history.arrays(engine.p)
        return result_of(arrays, int(np.isfinite(arrays["loss"]).sum()), status, notes)

    @property
    def batch_noise(self) -> float:
        """γ D/N_b."""
        return self.lr * self.dim / self.batch

    def _engine(self, device: str) -> "Engine":
        if self.method == "reduced":
            from softmaxlab.specialization.sgd.reduced import Reduced

            start = self.start or random_start(self.model, self.dim, self.eta, self.seed)
            return Reduced(self.model, self.dim, self.batch, start, self.seed)
        from softmaxlab.specialization.sgd.direct import Direct

        return Direct(self.model, self.dim, self.batch, self.start or self.eta, self.seed, device)


class Engine(Protocol):
    """SGD at its present step. A gradient is a sum over a new batch, with its loss."""

    p: np.ndarray
    b: np.ndarray
    v: float

    def order(self) -> tuple[np.ndarray, np.ndarray]: ...
    def gradient(self) -> Any: ...
    def step(self, total: Any, lr: float) -> None: ...


class History:
    """The recorded steps."""

    def __init__(self, lr: float):
        self.lr = lr
        self.rows: list[tuple] = []

    def add(self, step: int, engine: Engine, loss: float) -> None:
        m, q = engine.order()
        self.rows.append((step * self.lr, m, q, engine.b, engine.v, loss))

    def arrays(self, p: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of a result; r is the symmetric root of q − m p⁻¹ mᵀ."""
        tau, m, q, b, v, loss = (np.array(column) for column in zip(*self.rows))
        r = np.array([OrderParameters.from_q(*pair, p=p).r for pair in zip(m, q)])
        return {"tau": tau, "m": m, "r": r, "q": q, "b": b, "v": v, "loss": loss, "p": p}


class Spread:
    """The number, mean and variance of some losses, added one by one or a batch of them at a time."""

    def __init__(self):
        self.count, self.mean, self.squares = 0, 0.0, 0.0  # squares: of the distances to the mean

    def add(self, count: int, mean: float, squares: float = 0.0) -> None:
        apart, total = mean - self.mean, self.count + count
        self.mean += apart * count / total
        self.squares += squares + apart * apart * self.count * count / total
        self.count = total

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return float(np.sqrt(self.squares / self.count / max(self.count - 1, 1)))


class Watch:
    """Watches a run, and says what has gone wrong, if anything.

    Divergence need not end in infinity: softmax heads of any length have a loss of order 1. They have diverged where
    they have grown while their loss, in the later batches, is surely above what it was at first. The later batches are
    those since the last power of two but one: half of all at least. Their losses tell their own spread, since few
    samples in a batch do not; at first it is told by the samples of a batch, or of several.
    """

    def __init__(self, spec: SGD, engine: Engine):
        mean, covariance = spec.model.prior.moments()
        signal = np.trace(engine.p @ (covariance + np.outer(mean, mean)))  # E |Σ_f θ_f k*_f|²
        self.start, self.gain = _longest(engine), abs(engine.v)
        self.longest = LONG * max(1 + signal, self.start)
        self.batch, self.batches = spec.batch, 0
        self.first, self.before, self.since = Spread(), Spread(), Spread()

    def finite(self, engine: Engine, total: Any) -> bool:
        """Note a batch; False if its loss, or the heads, are not finite."""
        loss = total.loss / self.batch
        if self.first.count < FEW:
            self.first.add(self.batch, loss, max(total.square - loss * total.loss, 0.0))
        self.batches += 1
        if self.batches.bit_count() == 1:
            self.before, self.since = self.since, Spread()
        self.since.add(1, loss)
        return all(np.isfinite(value).all() for value in (loss, *engine.order(), engine.b, engine.v))

    def fault(self, engine: Engine) -> str | None:
        length = _longest(engine)
        if length > self.longest:
            return f"a head has |k|² = {length:.3g}, more than any signal asks for"
        later = Spread()
        for part in (self.before, self.since):
            if part.count:
                later.add(part.count, part.mean, part.squares)
        grown = length > GROWN * self.start or abs(engine.v) > GROWN * self.gain
        first = self.first.mean + CERTAIN * self.first.error
        if grown and later.count >= FEW and later.mean - CERTAIN * later.error > first:
            return f"the loss is {later.mean:.3g}, more than {self.first.mean:.3g} at first, and heads have grown"
        return None


def _follow(spec: SGD, engine: Engine, history: History) -> Status:
    """Make the steps and record some, until the end or an accident."""
    recorded, watch = set(spec.recorded_steps()), Watch(spec, engine)
    with Progress(spec.steps, "SGD") as progress:
        for step in range(spec.steps + 1):
            total = engine.gradient()
            finite = watch.finite(engine, total)
            if step in recorded and (finite or step == 0):
                history.add(step, engine, total.loss / spec.batch)
            if not finite:
                return _diverged(spec, step, "the loss, or a head, is not finite")
            if step in recorded and (fault := watch.fault(engine)):
                return _diverged(spec, step, fault)
            if step < spec.steps:
                engine.step(total, spec.lr)
                progress.advance()
    return Status()


def _diverged(spec: SGD, step: int, what: str) -> Status:
    change = f"lr·dim/batch = {spec.batch_noise:.3g} and lr = {spec.lr:g} must be small; lower lr or raise batch"
    return Status(Outcome.DIVERGED, f"at tau = {step * spec.lr:.4g} {what}: {change}")


def _longest(engine: Engine) -> float:
    return float(np.diag(engine.order()[1]).max())
