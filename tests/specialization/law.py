"""Reduced against direct SGD in law: means, variances, correlations and whole distributions of m, q, b, v and the loss.

Both methods begin at the same order parameters, so that all that varies is the data: a spread of starts would hide
differences. The loss is that of the last batch used, which ties it to the step that it caused.
Full run: python -m tests.specialization.law [--jobs 2] [--scale 1.0]; exit code 1 if the two differ anywhere.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import stats

from softmaxlab.specialization.heads import learns_bias, learns_gain
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters, random_start
from softmaxlab.specialization.priors import FlippingSpike, Gaussian, OneHotSpikes
from softmaxlab.specialization.sgd.direct import Direct
from softmaxlab.specialization.sgd.reduced import Reduced

FALSE_ALARM = 1e-3  # chance that two equal laws differ somewhere in a comparison, divided among its statistics
DECISIVE = 1e-10  # how improbable the wrong law must look
FIXED = 1 - 1e-9  # a correlation beyond this is an identity, such as Σ_h b_h = 0, not a statistic
SHARE = 100  # repetitions in one task of a process


@dataclass(frozen=True)
class Setup:
    name: str
    model: SingleLocation
    dim: int
    batch: int
    lr: float
    steps: int
    repetitions: int
    given: OrderParameters | None = None

    @property
    def start(self) -> OrderParameters:
        return self.given or random_start(self.model, self.dim, eta=1.0, seed=0)


class WithoutData(Reduced):
    """The wrong law that replaces X Xᵀ/D by its limit 1: what a check must notice."""

    def _overlaps(self, X: np.ndarray, res: np.ndarray, outside: np.ndarray) -> np.ndarray:
        return res


FLIPPING = SingleLocation(FlippingSpike((2.0, 2.0)), length=4, heads=2)
CORRELATED = OrderParameters(
    m=[[0.4, -0.2], [0.1, 0.3]], r=[[0.9, 0.3], [-0.2, 0.7]], b=[0.3, -0.2], v=1.2, p=[[1.2, 0.5], [0.5, 0.8]]
)
SETUPS = (
    Setup("softmax, one step", FLIPPING, 50, 50, 0.5, 1, 6000),
    Setup("softmax, 50 steps", FLIPPING, 50, 50, 0.5, 50, 1500),
    Setup("softmax1", FLIPPING.replace(map="softmax1"), 30, 30, 0.5, 20, 1500),
    Setup("bayes_softmax, H > L", SingleLocation(OneHotSpikes(3, 4.0), 3, 4, "bayes_softmax"), 30, 30, 1.0, 20, 1500),
    Setup("D = 200, one step", FLIPPING, 200, 200, 0.5, 1, 2000),
    Setup("D = 200, 50 steps", FLIPPING, 200, 200, 0.5, 50, 1000),
    # ours: the smallest D there is, with far more heads than tokens; hardly any samples; a start of every kind
    Setup("D = F+3H, H > L", SingleLocation(Gaussian(F=2, nu=(4.0, 1.0)), 2, 5), 17, 20, 0.5, 10, 1500),
    Setup("N_b << D", SingleLocation(FlippingSpike((4.0, 2.0)), 5, 3), 500, 5, 0.02, 30, 1500),
    Setup("p far from I", FLIPPING.replace(map="softmax1"), 40, 30, 0.5, 5, 3000, CORRELATED),
)
METHODS = {"reduced": Reduced, "direct": Direct, "control": WithoutData}


def repetition(setup: Setup, method: str, seed: int) -> np.ndarray:
    """m, q, b, v (those that move) after the last step, and the loss of its batch."""
    engine = METHODS[method](setup.model, setup.dim, setup.batch, setup.start, seed)
    loss = np.nan
    for _ in range(setup.steps):
        total = engine.gradient()
        loss = total.loss / setup.batch
        engine.step(total, setup.lr)
    m, q = engine.order()
    b = engine.b if learns_bias(setup.model.map) else []
    v = [engine.v] if learns_gain(setup.model.map) else []
    return np.concatenate([m.ravel(), q[np.tril_indices(len(q))], b, v, [loss]])


def repetitions(task: tuple[Setup, str, int, int]) -> np.ndarray:
    """A run of seeds, [repetition, statistic]."""
    setup, method, first, last = task
    return np.array([repetition(setup, method, seed) for seed in range(first, last)])


def sample(setup: Setup, method: str, run: Callable = map) -> np.ndarray:
    """All repetitions; `run` is how tasks are mapped."""
    cuts = [*range(0, setup.repetitions, SHARE), setup.repetitions]
    return np.concatenate(list(run(repetitions, [(setup, method, i, j) for i, j in itertools.pairwise(cuts)])))


@dataclass(frozen=True)
class Comparison:
    """Scores (standard normal if the laws are equal) and p-values of Kolmogorov and Smirnov's test."""

    mean: np.ndarray
    log_variance: np.ndarray
    correlation: np.ndarray
    ks: np.ndarray

    @property
    def count(self) -> int:
        return sum(len(values) for values in (self.mean, self.log_variance, self.correlation, self.ks))

    @property
    def least_p(self) -> float:
        scores = np.concatenate([self.mean, self.log_variance, self.correlation])
        return float(min(2 * stats.norm.sf(np.abs(scores).max()), self.ks.min()))

    @property
    def agrees(self) -> bool:
        return self.least_p > FALSE_ALARM / self.count


def compare(one: np.ndarray, two: np.ndarray) -> Comparison:
    """Two samples [repetition, statistic]; the standard errors need no normality."""
    scores = [_score(f, one, two) for f in (_means, _log_variances, _correlations)]
    ks = [stats.ks_2samp(x, y).pvalue for x, y in zip(one.T, two.T)]
    return Comparison(*scores, np.array(ks))


def _score(statistic: Callable, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    (a, a_variance), (b, b_variance) = statistic(one), statistic(two)
    sound = np.isfinite(a + b)
    return ((a - b) / np.sqrt(a_variance / len(one) + b_variance / len(two)))[sound]


# Each gives an estimate and R times its variance, from the influence of the repetitions on it.
def _means(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.mean(axis=0), x.var(axis=0)


def _log_variances(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.log(x.var(axis=0)), (u**2).var(axis=0)


def _correlations(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fisher's artanh of all correlations; NaN where two statistics are one."""
    u = (x - x.mean(axis=0)) / x.std(axis=0)
    i, j = np.triu_indices(u.shape[1], 1)
    rho = (u[:, i] * u[:, j]).mean(axis=0)
    rho[np.abs(rho) > FIXED] = np.nan
    influence = u[:, i] * u[:, j] - rho * (u[:, i] ** 2 + u[:, j] ** 2) / 2
    return np.arctanh(rho), influence.var(axis=0) / (1 - rho**2) ** 2


def _row(name: str, found: Comparison, seconds: float) -> str:
    z = [np.abs(scores).max() for scores in (found.mean, found.log_variance, found.correlation)]
    verdict = "agree" if found.agrees else "DIFFER"
    scores, p = "  ".join(f"{value:7.2f}" for value in z), f"{found.ks.min():9.2g}  {found.least_p:9.2g}"
    return f"{name:32}  {found.count:5d}  {scores}  {p}  {verdict:7} {seconds:5.0f} s"


def verdicts(setups: tuple[Setup, ...], run: Callable) -> Iterator[tuple[str, bool]]:
    """Rows of the table, with whether each is as it should be; the last is the control."""
    direct = None
    for setup in setups:
        began = time.monotonic()
        both = sample(setup, "reduced", run), sample(setup, "direct", run)
        direct = both[1] if direct is None else direct
        found = compare(*both)
        yield _row(setup.name, found, time.monotonic() - began), found.agrees
    began = time.monotonic()
    wrong = compare(sample(setups[0], "control", run), direct)
    yield _row("control: X Xᵀ/D → 1", wrong, time.monotonic() - began), wrong.least_p < DECISIVE


def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of repetitions")
    asked = parser.parse_args()
    setups = tuple(Setup(**{**vars(s), "repetitions": round(asked.scale * s.repetitions)}) for s in SETUPS)
    print(f"{'set-up':32}  {'count':>5}  |z| mean  log-var  correl.     KS p    least p")
    wrong = 0
    with ProcessPoolExecutor(asked.jobs, initializer=one_thread) as pool:
        for row, right in verdicts(setups, pool.map):
            print(row, flush=True)
            wrong += not right
    print(f"{wrong} of {len(setups) + 1} rows are not as they should be")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
