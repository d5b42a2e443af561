"""Flows that the claims about specialization share: runs that must reach their end, where they ended, and a prior."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Spec
from softmaxlab.errors import SoftmaxlabError
from softmaxlab.papers.evidence import Evidence, Level
from softmaxlab.specialization import Discrete, Flow, SingleLocation

PAPER = "sagitova2026specialization"
MAPS = ("softmax", "softmax1", "bayes_softmax")
LOPSIDED = Discrete(points=np.array([[2.0, 1.0], [1.0, -1.0]]))  # E[θ | θ·Eθ] is not along Eθ


def finished(spec: Spec) -> Result:
    """The result of a run that must reach its end for a claim to be judged by it."""
    result = simulate(spec)
    if not result.status.ok:
        raise SoftmaxlabError(f"a claim cannot be judged, its run ended early: {result.status}")
    return result


@dataclass(frozen=True)
class Effort:
    """The effort behind flows: base points, horizon, seeds; sampling="plain" is the paper's, 1e5 iid samples."""

    samples: int
    tau_end: float
    seeds: tuple[int, ...] = (0, 1, 2)
    sampling: Literal["symmetric", "plain"] = "symmetric"

    def flows(self, model: SingleLocation, tau_end: float | None = None) -> list[Result]:
        """The flow of each seed to its end, recorded at 60 times; those made already are not made twice."""
        end = tau_end or self.tau_end
        times = tuple(np.geomspace(min(5.0, end / 2), end, 60))
        rules: dict[str, Any] = {"tau_end": end, "record": times, "samples": self.samples, "sampling": self.sampling}
        return [_once(Flow(model=model, seed=seed, **rules)) for seed in self.seeds]

    def evidence(self, level: Level) -> Evidence:
        samples = f"{self.samples} iid" if self.sampling == "plain" else f"{self.samples} base points"
        solver = "rtol 0.001, where the paper has Euler's steps of 0.02" if level == "paper protocol" else "rtol 0.001"
        return Evidence(level, samples, self.tau_end, f"seeds {', '.join(map(str, self.seeds))}", solver)


IID = 100_000  # samples of the paper's Appendix B
TRAINED = 1000.0  # τ: within 5 % of the last loss for softmax, 2 % for Bayes-softmax
ONE_RUN = Effort(2**10, TRAINED, (0,))
MORE = Effort(2**12, 4 * TRAINED, (1, 2))
PRINTED = Effort(IID, TRAINED, (0,), "plain")
_KEPT: dict[str, Result] = {}


def _once(spec: Flow) -> Result:
    if spec.key not in _KEPT:
        _KEPT[spec.key] = finished(spec)
    return _KEPT[spec.key]


def tensor(values: Any) -> torch.Tensor:
    """A float64 variable of torch."""
    return torch.tensor(np.asarray(values, dtype=np.float64), requires_grad=True)
