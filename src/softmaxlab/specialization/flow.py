"""Gradient flow of the order parameters: SGD in the limit D → ∞ (Proposition III.2).

    dm̂/dτ = −∇_m̂ Ẽ,   dr/dτ = −∇_r Ẽ,   db/dτ = −∇_b Ẽ,   dv/dτ = −∇_v Ẽ,      τ = learning rate × steps      eq. (12)

r is any H × H matrix: the flow of q⊥ = r rᵀ leaves the symmetric r of the paper (docs/errata.md). m = m̂ L_pᵀ, so the
spikes' overlaps p = L_p L_pᵀ may be any (order.py). Batches of N_b samples in dimension D make q⊥ grow by their noise:

    dq⊥/dτ = −(∇_r rᵀ + r ∇_rᵀ) + (γ D/N_b) E Σ_l c_l c_lᵀ,   r = √q⊥,   `batch_noise` = γ D/N_b

The expectations are means over the same samples all along (sampling.py), so this is the flow of a sampled loss. The
loss in the result is over other samples, with its standard error.
"""

import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Spec
from softmaxlab.core.threads import one_blas_thread
from softmaxlab.specialization.flow_record import recorded
from softmaxlab.specialization.integrate import BUDGET, LARGE, Run, Solver, stopping
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order import OrderParameters, noisy_start
from softmaxlab.specialization.rest import follow
from softmaxlab.specialization.start import Start, check

RK45_UNTIL = 500.0  # beyond this time the flow has become stiff
FIRST_LOOK = 1e4  # τ at which a flow to rest is looked at first: all but the slowest features are learnt by then
FIRST_RECORD = 1.0  # τ from which a flow to rest is recorded, evenly in log τ: features are learnt from then on
LONGEST = 1e12  # no flow has anything left to do by then, and times of this size still have twelve digits
Tolerance = Annotated[float, Field(ge=1e-12, le=0.1)]


class Flow(Spec):
    """The flow of a model to rest or, given `tau_end`, to that time, recorded at `points` times or those in `record`.

    It starts at r = η I and m = 0, with noise of standard deviation `noise`, or at `start`: order parameters, or a
    result (of SGD or of a flow), which stands for those at its first time. spikes="orthogonal" takes p = I whatever the
    start says. `samples` counts base points (sampling.py); sampling="fresh" draws new ones at every step of Euler.
    until="rest", the default without `tau_end`, goes on beyond `tau_end`, with more time and more samples, until the
    flow is certified to be at a minimum or that has become too much (rest.py); notes["certificate"] says how it ended.
    The recorded times are then evenly spaced in log τ, else in τ.
    """

    model: SingleLocation
    eta: float = Field(default=1.0, ge=0.0, le=LARGE)
    tau_end: float = Field(default=FIRST_LOOK, gt=0.0, le=LONGEST)
    seed: int = Field(default=0, ge=0)
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
        """Where the flow starts."""
        start = self.start or noisy_start(self.model, self.eta, self.noise, self.seed)
        return start.replace(p=np.eye(self.model.features)) if self.spikes == "orthogonal" else start

    def chosen_solver(self) -> Solver:
        stiff = self.tau_end > RK45_UNTIL or self.model.map == "softmax1" or self.until == "rest"
        return self.solver or ("LSODA" if stiff else "RK45")

    @one_blas_thread()
    def _run(self, device: str) -> Result:
        run = Run(self.chosen_solver(), self.rtol, self.atol, self.step)
        return recorded(self, follow(self, run), run)


def flow_many(specs: Iterable[Flow], jobs: int | None = None) -> list[Result]:
    """The results of many flows, in order, computed in `jobs` threads (as many as processors if not given)."""
    specs = list(specs)
    results, stop = [], threading.Event()
    pool = ThreadPoolExecutor(jobs or os.cpu_count(), initializer=stopping.set, initargs=(stop,))
    try:
        with Progress(len(specs), "flows") as progress:
            for result in pool.map(simulate, specs):
                results.append(result)
                progress.advance(failed=not result.status.ok)
    finally:  # an interrupt shall not wait for flows that nobody asks for any more
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
    return results
