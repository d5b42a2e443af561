"""Gradient flow of the order parameters: SGD in the limit D → ∞ (Proposition III.2).

    dm̂/dτ = −∇_m̂ Ẽ,   dr/dτ = −∇_r Ẽ,   db/dτ = −∇_b Ẽ,   dv/dτ = −∇_v Ẽ,      τ = learning rate × steps      eq. (12)

r is any H × H matrix: the flow of q⊥ = r rᵀ leaves the symmetric r of the paper (docs/errata.md). m = m̂ L_pᵀ, so the
spikes' overlaps p = L_p L_pᵀ may be any (order_parameters.py). Batches of N_b samples in dimension D make q⊥ grow by
their noise:

    dq⊥/dτ = −(∇_r rᵀ + r ∇_rᵀ) + (γ D/N_b) E Σ_l c_l c_lᵀ,   r = √q⊥,   `batch_noise` = γ D/N_b

The expectations are means over the same samples all along (sampling.py), so this is the flow of a sampled loss. The
loss in the result is over other samples, with its standard error.
"""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from softmaxlab.core.ode import Limits, Run, stopping
from softmaxlab.core.pool import cores
from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.threads import one_blas_thread
from softmaxlab.specialization.flow.equilibrium import follow
from softmaxlab.specialization.flow.record import recorded
from softmaxlab.specialization.flow.settings import BUDGET, LARGE, FlowSettings


class Flow(FlowSettings):
    """The flow of a model to rest or, given `tau_end`, to that time, recorded at `points` times or those in `record`.

    It starts at r = η I and m = 0, with noise of standard deviation `noise`, or at `start`: order parameters, or a
    result (of SGD or of a flow), which stands for those at its first time. spikes="orthogonal" takes p = I whatever the
    start says. `samples` counts base points (sampling.py); sampling="fresh" draws new ones at every step of Euler.
    until="rest", the default without `tau_end`, goes on beyond `tau_end`, with more time and more samples, until the
    flow is certified to be at a minimum or that has become too much (equilibrium.py); notes["certificate"] says how it
    ended. The recorded times are then evenly spaced in log τ, else in τ.
    """

    @one_blas_thread()
    def _run(self, device: str) -> Result:
        limits = Limits(evaluations=BUDGET, size=LARGE)
        run = Run(self.chosen_solver(), self.rtol, self.atol, limits, step=self.step, clock="tau")
        return recorded(self, follow(self, run), run)


def flow_many(specs: Iterable[Flow], jobs: int | None = None) -> list[Result]:
    """The results of many flows, in order, computed in `jobs` threads (as many as processors if not given)."""
    specs = list(specs)
    results, stop = [], threading.Event()
    pool = ThreadPoolExecutor(jobs or cores(), initializer=stopping.set, initargs=(stop,))
    try:
        with Progress(len(specs), "flows") as progress:
            for result in pool.map(simulate, specs):
                results.append(result)
                progress.advance(failed=not result.status.ok)
    finally:  # an interrupt shall not wait for flows that nobody asks for any more
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
    return results
