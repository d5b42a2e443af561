"""Random problems for statements that say "for all": every size p, every b = ‖β*‖² and every seed of a family.

They start as Assumption 3.1 has it: a(0) = 0, V(0) ~ scale·N, tokens in the order of u(0) = V(0)ᵀβ*, so that token 0
should win. For the square loss V(0) keeps only its part along β*, without which u does not close. Runs are kept:
several claims look at the same ones.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Spec
from softmaxlab.errors import SoftmaxlabError
from softmaxlab.papers.polarization.problems import Fields
from softmaxlab.polarization import Flow, StrengthFlow

# Between rtol 1e-10 and 1e-13 no gap, score or weight of the 54 runs moves by more than 1e-7 of itself up to t = 1e12.
RTOL = 1e-10
SCALES = (0.1, 0.3, 1.0)  # of V(0), one for each seed
# maps with f(0) = 0, whose weights at a = 0 are 0/0 or can never move: they start at a = 1
STARTED_AT_ONE = ("sum", "linear", "relu", "relu_norm", "abs", "abs_norm", "square", "square_norm")


@dataclass(frozen=True)
class Family:
    """54 problems as it stands. `strength_end` runs them with Γ as clock, to there, instead of in t to 1e12."""

    loss: Literal["logistic", "square"] = "logistic"
    map: str = "softmax"
    freeze: Literal["V", "a"] | None = None
    sizes: tuple[int, ...] = (2, 3, 5, 8, 12, 20)
    b: tuple[float, ...] = (0.1, 1.0, 10.0)
    seeds: int = 3
    strength_end: float | None = None
    opposed: float = 0.0  # steps of a(0) from token to token, against the order of u(0)

    def problems(self) -> list[Fields]:
        return [self._problem(p, b, seed) for p in self.sizes for b in self.b for seed in range(self.seeds)]

    def _problem(self, p: int, b: float, seed: int) -> Fields:
        draw = generator(seed, f"claims/instance/{p}/{b:g}")
        beta = draw.standard_normal(p)
        beta *= np.sqrt(b) / np.linalg.norm(beta)
        V = SCALES[seed % len(SCALES)] * draw.standard_normal((p, p))
        V = V[:, np.argsort(-(beta @ V))]
        V = np.outer(beta, beta @ V) / b if self.loss == "square" else V
        a = np.ones(p) if self.map in STARTED_AT_ONE else np.zeros(p)
        return {
            "loss": self.loss,
            "map": self.map,
            "freeze": self.freeze,
            "beta": beta,
            "V": V,
            "a": a + self.opposed * np.arange(p),
        }


@cache
def runs(family: Family) -> tuple[Result, ...]:
    """The results of a family, in its order."""
    if family.strength_end is None:
        return tuple(finished(Flow(**f, t_end=1e12, points=100, rtol=RTOL)) for f in family.problems())
    end = family.strength_end
    return tuple(finished(StrengthFlow(**f, strength_end=end, points=100, rtol=RTOL)) for f in family.problems())


def finished(spec: Spec) -> Result:
    """The result of a run that must reach its end for a claim to be judged by it."""
    result = simulate(spec)
    if not result.status.ok:
        raise SoftmaxlabError(f"a claim cannot be judged, its run ended early: {result.status}")
    return result


def b_of(run: Result) -> float:
    """b = ‖β*‖²."""
    return float(np.sum(run.spec.beta**2))  # type: ignore[union-attr]


def margin(run: Result) -> np.ndarray:
    """m = ⟨u, s⟩ over time."""
    return (run["u"] * run["weights"]).sum(axis=-1)


def gaps(x: np.ndarray) -> np.ndarray:
    """x_i − x_j for all i < j, over time: [t, pair]."""
    i, j = np.triu_indices(x.shape[-1], 1)
    return x[..., i] - x[..., j]
