"""The two engines of SGD: direct against autograd on eq. (6), reduced against direct in law."""

import os

import numpy as np
import pytest
import torch
from scipy import stats

from softmaxlab.attention import weights
from softmaxlab.specialization.heads import learns_bias, learns_gain
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters, random_start
from softmaxlab.specialization.population import gradient
from softmaxlab.specialization.priors import FlippingSpike, Gaussian
from softmaxlab.specialization.sgd import reduced
from softmaxlab.specialization.sgd.direct import Direct, Total
from softmaxlab.specialization.sgd.reduced import Reduced
from tests.specialization.law import DECISIVE, SETUPS, Setup, compare, sample

AUTOGRAD = 1e-12  # sums of a few hundred terms of order 1, in another order
EXACT = 1e-12
CERTAIN = 5.0  # standard errors, for each of a few dozen numbers under fixed seeds
SAME_LAW = 1e-4
MAPS = ("softmax", "softmax1", "bayes_softmax")
FLIPPING = SingleLocation(FlippingSpike((2.0, 3.0)), length=5, heads=3)


def start(model: SingleLocation, seed: int = 0) -> OrderParameters:
    """Order parameters of no particular symmetry."""
    draw, (H, F) = np.random.default_rng(seed), (model.heads, model.features)
    A = draw.normal(size=(F, F))
    m, r, b = draw.normal(size=(H, F)), draw.normal(size=(H, H)), 0.5 * draw.normal(size=H)
    return OrderParameters(m=m, r=r, b=b, v=1.3, p=np.eye(F) + 0.3 * A @ A.T)


def nothing(engine: Direct) -> Total:
    return Total(0.0, 0.0, torch.zeros_like(engine.K), np.zeros_like(engine.b), 0.0)


def loss_of_equation_6(X: torch.Tensor, map: str, K: torch.Tensor, b: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Σ_μ |y − ŷ|²/D, written out as in the paper."""
    scores = (X @ K.T).movedim(-1, -2)[:, :, None]  # [sample, head, one query, token]
    sigma = weights(map, scores, **({"bias": b} if learns_bias(map) else {}))[:, :, 0]
    sigma = v * sigma if learns_gain(map) else sigma
    answer = (sigma.mean(dim=1)[..., None] * X).sum(dim=1)
    return ((X[:, 0] - answer) ** 2).sum() / X.shape[-1]


@pytest.mark.parametrize("map", [*MAPS, "sigmoid_norm"])
def test_direct_gradient_is_that_of_equation_6(map):
    model = FLIPPING.replace(map=map)
    engine = Direct(model, 30, 8, start(model), 0, "cpu")
    X, total = engine._tokens(8), nothing(engine)
    engine._add(X, total)
    K, b = engine.K.clone().requires_grad_(), torch.tensor(engine.b, requires_grad=True)
    v = torch.tensor(engine.v, dtype=torch.float64, requires_grad=True)
    loss = loss_of_equation_6(X, map, K, b, v)
    loss.backward()
    np.testing.assert_allclose(total.loss, loss.item(), rtol=AUTOGRAD)
    np.testing.assert_allclose(total.K, K.grad, rtol=AUTOGRAD, atol=AUTOGRAD)
    np.testing.assert_allclose(total.b, np.zeros_like(total.b) if b.grad is None else b.grad, atol=AUTOGRAD)
    np.testing.assert_allclose(total.v, 0.0 if v.grad is None else v.grad, atol=AUTOGRAD)


def test_direct_step_and_blocks():
    engine = Direct(FLIPPING, 30, 8, start(FLIPPING), 0, "cpu")
    X, whole, halves = engine._tokens(8), nothing(engine), nothing(engine)
    engine._add(X, whole)
    for half in X.split(4):
        engine._add(half, halves)
    np.testing.assert_allclose(whole.K, halves.K, atol=EXACT)
    before = engine.K.clone()
    engine.step(whole, lr=0.3)
    np.testing.assert_allclose(engine.K, before - 0.3 * whole.K / 8, atol=EXACT)


@pytest.mark.parametrize("map", MAPS)
def test_both_begin_at_the_same_order_parameters(map):
    model = FLIPPING.replace(map=map)
    given = start(model)
    for engine in (Direct(model, 30, 8, given, 0, "cpu"), Reduced(model, 30, 8, given, 0)):
        m, q = engine.order()
        for found, expected in ((m, given.m), (q, given.q), (engine.p, given.p), (engine.b, given.b)):
            np.testing.assert_allclose(found, expected, atol=EXACT)


def test_normal_vectors_begin_with_the_law_of_the_random_start():
    dim, eta, seeds = 9, 1.5, range(1500)
    vectors = [Direct(FLIPPING, dim, 1, eta, seed, "cpu") for seed in seeds]
    drawn = [random_start(FLIPPING, dim, eta, seed) for seed in seeds]
    for i, j in ((0, 0), (1, 0)):
        for one, two in (
            ([e.order()[0][i, j] for e in vectors], [s.m[i, j] for s in drawn]),
            ([e.order()[1][i, j] for e in vectors], [s.q[i, j] for s in drawn]),
            ([e.p[i, j] for e in vectors], [s.p[i, j] for s in drawn]),
        ):
            assert stats.ks_2samp(one, two).pvalue > SAME_LAW


def assert_same_mean(one: np.ndarray, two: np.ndarray) -> None:
    error = np.sqrt(one.var(axis=0) / len(one) + two.var(axis=0) / len(two))
    assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) <= CERTAIN * error).all()


@pytest.mark.parametrize("map", MAPS)
def test_gradients_of_one_step_have_the_same_mean(map):
    model = SingleLocation(Gaussian(F=2, nu=(4.0, 1.0)), length=3, heads=4, map=map)  # more heads than tokens
    batches, batch, n = 60, 100, 6
    ours, direct = Reduced(model, 16, batch, start(model), 0), Direct(model, 16, batch, start(model), 0, "cpu")
    one = [ours.gradient() for _ in range(batches)]
    two = [direct.gradient() for _ in range(batches)]
    K = np.array([total.K.numpy() for total in two])
    assert_same_mean(np.array([total.inside for total in one]), K[..., :n])
    outside = K[..., n:] @ K[..., n:].swapaxes(1, 2)
    assert_same_mean(np.array([total.outside[..., 0] for total in one]), outside)
    for name in ("b", "v", "loss", "square"):
        assert_same_mean(*(np.array([getattr(total, name) for total in totals]) for totals in (one, two)))


@pytest.mark.parametrize("map", MAPS)
def test_the_gradient_tends_to_that_of_the_population(map):
    model = FLIPPING.replace(map=map)
    given, batches, batch = start(model), 40, 1000
    engine = Reduced(model, 10**8, batch, given, 0)
    totals = [engine.gradient() for _ in range(batches)]
    expected = gradient(model, given, 2**13, 0)
    K = np.array([total.inside for total in totals]) / batch
    error = K.std(axis=0) / np.sqrt(batches)
    L_p = np.linalg.cholesky(given.p)
    m_hat = np.asarray(expected.m) @ L_p
    assert (np.abs(K.mean(axis=0) - np.hstack([m_hat, expected.r])) <= CERTAIN * error).all()


def test_numbers_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(reduced, "BLOCK", 64)
    found = []
    for processors in (1, 3):
        monkeypatch.setattr(os, "cpu_count", lambda processors=processors: processors)
        engine = Reduced(FLIPPING, 1000, 1000, start(FLIPPING), seed=5)
        assert len(engine.blocks) == 16
        for _ in range(3):
            engine.step(engine.gradient(), lr=0.1)
        found.append(engine.K)
    assert found[0].tobytes() == found[1].tobytes()


def test_no_error_at_all_gives_no_gradient():
    """Scores so large that the weight on the first token is exactly 1."""
    given = OrderParameters(m=np.full((3, 2), 1e6), r=np.zeros((3, 3)))
    model = SingleLocation(FlippingSpike((1e6, 1e-6)), length=5, heads=3)
    total = Reduced(model, 100, 10, given, 0).gradient()
    assert total.loss == 0
    assert not total.inside.any()
    assert not total.outside.any()


@pytest.mark.slow
def test_reduced_has_the_law_of_direct_and_a_wrong_law_is_noticed():
    setup = Setup(**{**vars(SETUPS[0]), "repetitions": 1500})
    direct = sample(setup, "direct")
    assert compare(sample(setup, "reduced"), direct).agrees
    assert compare(sample(setup, "control"), direct).least_p < DECISIVE


@pytest.mark.slow
@pytest.mark.parametrize("setup", [SETUPS[3], SETUPS[6], SETUPS[8]], ids=lambda setup: setup.name)
def test_reduced_has_the_law_of_direct_elsewhere(setup):
    few = Setup(**{**vars(setup), "repetitions": 500, "steps": 2})
    assert compare(sample(few, "reduced"), sample(few, "direct")).agrees
