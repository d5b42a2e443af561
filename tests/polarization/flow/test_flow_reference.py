"""Flow against an independent route (autograd.py) over all losses, maps and models; the second link of the chain."""

from itertools import product

import numpy as np
import pytest

from softmaxlab import simulate
from softmaxlab.polarization import Flow
from tests.polarization import autograd
from tests.polarization.flow_cases import FLOWING, KINKED, LOSSES, MODELS, SMOOTH, flow

RTOL = 1e-11
AGREEMENT = 1e-8  # relative to the largest entry of an array; what rtol 1e-11 leaves over some hundred steps
DEADLY = ("relu", "relu_norm", "abs", "abs_norm", "sparsemax")  # in the value and matrix models


COMBINATIONS = np.random.default_rng(0).permutation(list(product(LOSSES, SMOOTH, MODELS))).tolist()
PROBLEMS = 200  # of the 234 combinations


def spec_number(k: int) -> Flow:
    """A random problem, some with V or a frozen."""
    rng = np.random.default_rng(k)
    loss, map, model = COMBINATIONS[k]
    freeze = None if model == "tied" or rng.random() < 0.7 else str(rng.choice(["V", "a"]))
    p, d = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    return flow(loss, map, model, k, t_end=2.0, p=p, d=d, points=5, rtol=RTOL, freeze=freeze)


def difference(spec: Flow, reference: dict[str, np.ndarray]) -> float:
    result = simulate(spec)
    assert result.status.ok
    return max(np.abs(result[n][-1] - x).max() / np.abs(x).max() for n, x in reference.items())


@pytest.mark.parametrize("k", range(0, PROBLEMS, 12))
def test_flow_agrees_with_extrapolated_midpoints(k):
    spec = spec_number(k)
    assert difference(spec, autograd.solve(spec, spec.t_end)) < AGREEMENT


@pytest.mark.slow
@pytest.mark.parametrize("start", range(8))
def test_two_hundred_problems(start):
    for k in range(start, PROBLEMS, 8):
        spec = spec_number(k)
        assert difference(spec, autograd.solve(spec, spec.t_end)) < AGREEMENT, k


def test_the_two_hundred_cover_everything():
    specs = [spec_number(k) for k in range(PROBLEMS)]
    assert {s.loss for s in specs} == set(LOSSES)
    assert {s.map for s in specs} | set(KINKED) == set(FLOWING)
    assert {(s.loss, s.model) for s in specs} == {(loss, model) for loss in LOSSES for model in MODELS}
    assert {s.freeze for s in specs} == {None, "V", "a"}


def test_a_wrong_flow_would_be_seen():
    spec = spec_number(0)
    assert difference(spec.replace(t_end=2.0 + 1e-6), autograd.solve(spec, spec.t_end)) > AGREEMENT


def deadly(map: str, loss: str, model: str, seed: int) -> Flow:
    """Scores of both signs and close together, so that several die."""
    spec = flow(loss, map, model, seed, t_end=20.0, p=5, points=5, rtol=RTOL)
    name = "A" if model == "matrix" else "a"
    rng = np.random.default_rng(seed)
    return spec.replace(**{name: 0.3 + 0.2 * rng.standard_normal(getattr(spec, name).shape)})


@pytest.mark.parametrize("map", DEADLY)
@pytest.mark.parametrize(("loss", "model"), [("logistic", "value"), ("square", "value"), ("logistic", "matrix")])
def test_deaths_agree_with_scipys_events(map, loss, model):
    spec = deadly(map, loss, model, seed=3)
    reference, deaths = autograd.solve_with_deaths(spec, spec.t_end)
    assert difference(spec, reference) < AGREEMENT
    assert simulate(spec).notes["events"] == deaths


def test_several_scores_do_die():
    assert simulate(deadly("relu_norm", "logistic", "matrix", 3)).notes["events"] >= 5
    assert simulate(deadly("abs_norm", "logistic", "value", 3)).notes["events"] >= 3
