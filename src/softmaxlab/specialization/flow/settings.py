"""The settings of a flow, which its velocity and its path read."""

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.cost import Cost
from softmaxlab.core.spec import Seed, Spec
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters, noisy_start
from softmaxlab.specialization.sampling import default_points, images
from softmaxlab.specialization.start import Start, check

Solver = Literal["RK45", "DOP853", "LSODA", "Euler"]
BUDGET = 100_000  # gradients; LSODA takes a few hundred to tau = 1e5 with one-hot spikes, Euler as many as it has steps
LARGE = 1e50  # a state beyond this has diverged; its loss and the square of that are still finite
RK45_UNTIL = 500.0  # beyond this time the flow has become stiff
FIRST_LOOK = 1e4  # τ at which a flow to rest is looked at first: all but the slowest features are learnt by then
FIRST_RECORD = 1.0  # τ from which a flow to rest is recorded, evenly in log τ: features are learnt from then on
LONGEST = 1e12  # no flow has anything left to do by then, and times of this size still have twelve digits
GRADIENTS = {"tau_end": 500, "rest": 5000}  # of a flow with a solver that chooses its steps
PLAIN_POINTS = 100_000  # the paper's
Tolerance = Annotated[float, Field(ge=1e-12, le=0.1)]


class FlowSettings(Spec):
    """A model, where its flow starts, how it is solved and what is recorded."""

    model: SingleLocation
    eta: float = Field(default=1.0, ge=0.0, le=LARGE)
    tau_end: float = Field(default=FIRST_LOOK, gt=0.0, le=LONGEST)
    seed: Seed = 0
    start: Start | None = None
    spikes: Literal["exact", "orthogonal"] = "exact"
    noise: float = Field(default=0.01, ge=0.0, le=LARGE)
    points: int = Field(default=101, ge=2, le=100_000)
    record: tuple[float, ...] | None = None
    solver: Solver | None = None
    rtol: Tolerance = 1e-3
    atol: Tolerance = 1e-5
    step: float = Field(default=0.02, gt=0.0)
    samples: int | None = Field(default=None, ge=1, le=2**24)
    sampling: Literal["symmetric", "plain", "fresh"] = "symmetric"
    batch_noise: float = Field(default=0.0, ge=0.0, le=LARGE)
    until: Literal["tau_end", "rest"] = "rest"

    @model_validator(mode="before")
    @classmethod
    def _stops_at_a_given_time(cls, given: Any) -> Any:
        return {"until": "tau_end"} | given if isinstance(given, dict) and "tau_end" in given else given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.start is not None:
            check(self.start, self.model, LARGE)
            for name in ("eta", "noise"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name} has no meaning with start, got {getattr(self, name)}; leave it out")
        if self.sampling == "fresh" and self.solver != "Euler":
            raise ValueError("sampling='fresh' needs solver='Euler': no other solver can take samples that change")
        if self.until == "rest" and (self.solver == "Euler" or self.sampling != "symmetric" or self.batch_noise):
            raise ValueError(
                "until='rest' needs symmetric samples, no batch_noise and a solver other than Euler; "
                "give tau_end to end there"
            )
        if self.solver == "Euler" and self.tau_end > BUDGET * self.step:
            raise ValueError(f"tau_end must hold at most {BUDGET} steps = {self.step:g} of Euler, got {self.tau_end:g}")
        for tau in self.record or ():
            if not 0 <= tau <= self.tau_end:
                raise ValueError(f"record must list times from 0 to tau_end = {self.tau_end:g}, got {tau}")
        return self

    def times(self) -> np.ndarray:
        """The recorded times; the first and the last always."""
        if self.record is None and self.until == "rest" and self.tau_end > FIRST_RECORD:
            return np.append(0.0, np.geomspace(self.tau_end, FIRST_RECORD, self.points - 1)[::-1])
        if self.record is None:
            return np.linspace(0.0, self.tau_end, self.points)
        return np.array(sorted({0.0, self.tau_end, *self.record}))

    def grid(self) -> np.ndarray:
        """The times at which states are kept: also half way, to see whether the flow has settled since."""
        return np.union1d(self.times(), [self.tau_end / 2])

    def order(self) -> OrderParameters:
        """Return the order parameters at the start."""
        start = self.start or noisy_start(self.model, self.eta, self.noise, self.seed)
        return start.replace(p=np.eye(self.model.features)) if self.spikes == "orthogonal" else start

    def estimate(self) -> Cost:
        """Gradients over all samples: as many as Euler has steps, or what another solver needs at most."""
        symmetric = self.sampling == "symmetric"
        points = self.samples or (default_points(self.model.prior) if symmetric else PLAIN_POINTS)
        samples = points * (images(self.model.prior) if symmetric else 1)
        gradients = self.tau_end / self.step if self.solver == "Euler" else GRADIENTS[self.until]
        state = 8.0 * self.model.heads * (self.model.features + self.model.heads)
        record = 3 * state * (self.points if self.record is None else len(self.record))
        return Cost(self.model.sample_memory(samples) + record, gradients * self.model.sample_seconds(samples))

    def chosen_solver(self) -> Solver:
        stiff = self.tau_end > RK45_UNTIL or self.model.map == "softmax1" or self.until == "rest"
        return self.solver or ("LSODA" if stiff else "RK45")
