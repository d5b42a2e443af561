"""What the claims about specialization share: runs that must reach their end, where they ended, and a prior."""

from functools import cache
from typing import Any

import numpy as np
import torch

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Spec
from softmaxlab.errors import SoftmaxlabError
from softmaxlab.specialization import Discrete, Flow, OneHotSpikes, OrderParameters, SingleLocation

PAPER = "sagitova2026specialization"
MAPS = ("softmax", "softmax1", "bayes_softmax")
LOPSIDED = Discrete(points=np.array([[2.0, 1.0], [1.0, -1.0]]))  # E[θ | θ·Eθ] is not along Eθ


def finished(spec: Spec) -> Result:
    """The result of a run that must reach its end for a claim to be judged by it."""
    result = simulate(spec)
    if not result.status.ok:
        raise SoftmaxlabError(f"a claim cannot be judged, its run ended early: {result.status}")
    return result


@cache
def one_hot(map: str, heads: int, tau_end: float, seed: int) -> tuple[SingleLocation, OrderParameters]:
    """The model of Figures 5 (left) and 7, L = 5, F = 4, ν = 10, and where its flow has come."""
    model = SingleLocation(prior=OneHotSpikes(F=4, nu=10.0), length=5, heads=heads, map=map)
    return model, OrderParameters.at(finished(Flow(model=model, tau_end=tau_end, points=2, seed=seed, samples=2**10)))


def tensor(values: Any) -> torch.Tensor:
    """A float64 variable of torch."""
    return torch.tensor(np.asarray(values, dtype=np.float64), requires_grad=True)
