"""Hand gradients against autograd, for every loss × map × model; the first link of the chain of trust."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from softmaxlab.attention import MAPS, register, weights
from softmaxlab.polarization import Problem
from softmaxlab.polarization.losses import LOSSES as RECIPES
from softmaxlab.polarization.losses import Linear, Logistic, UserLoss
from softmaxlab.polarization.maps import centred, vector_map
from tests.polarization import autograd
from tests.polarization.flow_cases import BUILT_IN, LOSSES, MODELS, fields, problem

ROUNDING = 1e-13  # some tens of operations on numbers of order 1, in float64
SEEDS = 3


def hand(p: Problem) -> dict[str, np.ndarray]:
    return {n: -v for n, v in p.model_of().velocity(p.loss_of(), p.map_of(), p.start()).items()}


def difference(p: Problem) -> float:
    by_hand, by_torch = hand(p), autograd.gradient(p, p.start())
    scale = max(np.abs(g).max() for g in by_torch.values())
    return max(np.abs(by_hand[n] - by_torch[n]).max() for n in by_torch) / scale


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("map", BUILT_IN)
@pytest.mark.parametrize("loss", LOSSES)
def test_hand_gradient_is_autograds(loss, map, model):
    for seed in range(SEEDS):
        assert difference(problem(loss, map, model, seed)) < ROUNDING


@pytest.mark.parametrize("model", MODELS)
def test_a_wrong_gradient_would_be_seen(model, monkeypatch):
    p = problem("square", "softmax", model, 0)
    slope = p.loss_of().__class__.gradient
    monkeypatch.setattr(p.loss_of().__class__, "gradient", lambda *x: slope(*x) * (1 + 1e-9))
    assert difference(p) > 1e-10


@pytest.mark.parametrize("map", BUILT_IN)
def test_weights_are_those_of_the_attention_package(map):
    rng = np.random.default_rng(1)
    a = rng.standard_normal((5, 7)) * 3
    given = weights(map, torch.tensor(a)[None])[0].numpy()
    np.testing.assert_allclose(vector_map(map).weights(a), given, rtol=0, atol=ROUNDING * np.abs(given).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_values_over_leading_axes_and_the_log_scale(loss):
    p = problem(loss, "softmax", "value", 4)
    outputs = np.abs(np.random.default_rng(0).standard_normal((2, 3, 3)))
    made = p.loss_of()
    single = [[float(made.value(o)) for o in row] for row in outputs]
    np.testing.assert_allclose(made.value(outputs), single, rtol=1e-14)
    np.testing.assert_allclose(made.gradient(outputs, 2.0), np.exp(2.0) * made.gradient(outputs), rtol=1e-13)


def test_gamma_times_t_keeps_its_digits_where_gamma_underflows():
    # γ = e^−800 is 0 in float64, but t γ with log t = 801 is e
    loss = Logistic(np.array([2.0]))
    assert loss.gamma(np.array([400.0]), 801.0) == pytest.approx(np.e, rel=1e-13)
    assert Linear(np.array([2.0])).gradient(np.array([5.0]))[0] == -2.0


def test_the_signal_is_centred_without_cancellation():
    # s is one-hot but for 1e-25: plain g − ⟨s,g⟩ would give the winner 0
    s = np.array([1.0, 1e-25, 2e-25])
    g = np.array([1e12, 3.0, 5.0])
    losers = [Fraction(x) for x in s[1:]]
    mean = sum(x * Fraction(y) for x, y in zip([1 - sum(losers), *losers], g))
    exact = [float(Fraction(x) - mean) for x in g]
    np.testing.assert_allclose(centred(s, g), exact, rtol=1e-14)


def test_a_users_map_goes_through_torch():
    @register(name="cubed_share", normalise="sum")
    def cubed_share(scores):
        return scores**3

    a, g = np.array([1.0, 2.0, 0.5]), np.array([0.3, -1.0, 2.0])
    sigma = vector_map("cubed_share")
    s = sigma.weights(a)
    np.testing.assert_allclose(s, a**3 / (a**3).sum(), rtol=1e-15)
    by_hand = 3 * a**2 / (a**3).sum() * (g - s @ g)
    np.testing.assert_allclose(sigma.pullback(a, s, g), by_hand, rtol=1e-13)
    rows = np.stack([a, a[::-1]])
    np.testing.assert_allclose(sigma.weights(rows)[1], s[::-1], rtol=1e-15)


def test_a_users_map_with_a_bias_is_one_head_with_bias_zero():
    @register(name="tilted")
    def tilted(scores, bias):
        return torch.sigmoid(scores + bias) ** 2

    a = np.array([0.3, -0.7])
    assert MAPS["tilted"].takes_bias
    np.testing.assert_allclose(vector_map("tilted").weights(a), 1 / (1 + np.exp(-a)) ** 2, rtol=1e-14)


def test_a_users_loss_has_its_gradient_by_autograd():
    from softmaxlab.polarization import register as register_loss

    @register_loss
    def quartic_gap(output, beta, target=None):
        return ((output - beta) ** 4).sum() if target is None else (output @ target) ** 2

    given = fields("square", "softmax", "matrix", 0) | {"loss": "quartic_gap"}
    p = Problem(**given)
    assert RECIPES["quartic_gap"].needs == ("beta",)
    assert RECIPES["quartic_gap"].may_have == ("target",)
    assert isinstance(p.loss_of(), UserLoss)
    outputs = p.model_of().forward(p.map_of(), p.start())[1]
    np.testing.assert_allclose(p.loss_of().gradient(outputs), 4 * (outputs - p.beta) ** 3, rtol=1e-13)
    np.testing.assert_allclose(p.loss_of().value(outputs), ((outputs - p.beta) ** 4).sum(axis=-1), rtol=1e-13)
    assert p.key != Problem(**fields("square", "softmax", "matrix", 0)).key
