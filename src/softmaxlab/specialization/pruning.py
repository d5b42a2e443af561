"""Find the heads that are needed: remove them one by one, always the one whose loss costs least, and rescale the rest.

The paper rescales "to keep constant the amplitude of the attention scores", which can be read in three ways, and for
Bayes-softmax the reading decides the outcome (docs/errata.md). With A the heads kept, of H:

    count        w = (1/|A|) Σ_{h∈A} σ_h                      the mean over the heads kept
    renormalise  the map without the removed heads: for Bayes-softmax w = Σ_{h∈A} σ_h / Σ_{h∈A,l} σ_hl; else as count
    total        w = (a/H) Σ_{h∈A} σ_h, a such that E Σ_l w_l stays what it was; for maps of non-negative weights only
"""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.attention import MAPS
from softmaxlab.core.cost import Cost
from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed, Spec
from softmaxlab.core.threads import one_blas_thread
from softmaxlab.specialization.heads import forward, residual
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.population import standard_error
from softmaxlab.specialization.sampling import images, symmetric
from softmaxlab.specialization.start import Trained

Rule = Literal["count", "renormalise", "total"]
JUDGES = 4  # independent sets of samples on which losses are reported; the heads are chosen on another


class Pruning(Spec):
    """Greedy removal of all heads but one from a model at given order parameters, or where a result ended.

    `samples` counts base points (sampling.py).
    """

    model: SingleLocation
    order: Trained
    rule: Rule = "renormalise"
    samples: Annotated[int, Field(ge=16, le=2**20)] = 2**12
    seed: Seed = 0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.order.of(self.model)
        if self.rule == "total" and not MAPS[self.model.map].non_negative:
            raise ValueError(
                f"rule 'total' keeps a total that may be 0 for map {self.model.map!r}, whose weights have both signs; "
                "use 'count'"
            )
        return self

    def estimate(self) -> Cost:
        samples, H = self.samples * images(self.model.prior), self.model.heads
        return Cost((JUDGES + 1) * self.model.sample_memory(samples), H * JUDGES * self.model.sample_seconds(samples))

    @one_blas_thread()
    def _run(self, device: str) -> Result:
        choosing, *judging = (self._weighed(k) for k in range(JUDGES + 1))
        kept, removed = list(range(self.model.heads)), []
        losses = [[_loss(self, set, kept) for set in judging]]
        while len(kept) > 1:
            cheapest = min(kept, key=lambda h: _loss(self, choosing, [k for k in kept if k != h]))
            kept.remove(cheapest)
            removed.append(cheapest)
            losses.append([_loss(self, set, kept) for set in judging])
        loss, error = zip(*(standard_error(row) for row in losses))
        arrays = {"pruned": np.arange(len(loss)), "loss": loss, "loss_error": error, "order": [*removed, *kept]}
        return Result(arrays, dict.fromkeys(arrays, ("pruned",)))

    def _weighed(self, k: int) -> "Weighed":
        drawn = symmetric(self.model, self.samples, (self.seed, "pruning", k), self.order.p)
        chi = np.tensordot(self.order.K, drawn.X, axes=1)
        return Weighed(chi, forward(self.model.map, chi, self.order.b, self.order.v).sigma, drawn.weight)


@dataclass(frozen=True)
class Weighed:
    """Scores χ and weights σ [head, token, sample] of all heads on a set of samples, and the samples' weights."""

    chi: np.ndarray
    sigma: np.ndarray
    weight: np.ndarray


def _loss(spec: Pruning, seen: Weighed, kept: list[int]) -> float:
    map, order = spec.model.map, spec.order
    if spec.rule == "renormalise" and MAPS[map].joint:
        # from the scores: where the heads kept have all but no share of σ, their ratio is lost in it
        w = forward(map, seen.chi[kept], order.b[kept], order.v).w
    else:
        w = seen.sigma[kept].mean(axis=0)
        if spec.rule == "total":
            w *= (seen.sigma.mean(axis=0).sum(axis=0) @ seen.weight) / (w.sum(axis=0) @ seen.weight)
    return float((residual(w) ** 2).sum(axis=0) @ seen.weight)
