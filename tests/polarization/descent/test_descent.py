"""Descent as a spec: what is recorded and which path runs."""

import numpy as np
import pytest
import torch

import softmaxlab as sl
from softmaxlab.polarization import Descent, descend_many
from softmaxlab.polarization.descent.compiled.engines import Full, Reduced
from softmaxlab.polarization.descent.numpy_engine import Plain
from tests.polarization.descent.test_compiled import LR, OF_TORCH, SAME, difference
from tests.polarization.descent_cases import fields

LOGISTIC = fields("logistic", "softmax", "value")
TWO_WAYS = 1e-13  # the same quantity by two formulas
NEAR_ZERO = 1e-9  # Adam turns the rounding of a gradient that is zero into steps of size lr


def test_a_step_by_hand():
    """p = 2, d = 1: s = (½, ½), m = ½, γ = 1/(1 + √e), so u ← u + lr γ/2 and a ← ± lr γ/4."""
    result = sl.simulate(Descent("logistic", beta=[1.0], V=[[1.0, 0.0]], a=[0.0, 0.0], lr=0.1, steps=1))
    gamma = 1 / (1 + np.exp(0.5))
    np.testing.assert_allclose(result["u"][-1], [1 + 0.05 * gamma, 0.05 * gamma], rtol=1e-15)
    np.testing.assert_allclose(result["a"][-1], [0.025 * gamma, -0.025 * gamma], rtol=1e-15)
    np.testing.assert_allclose(result["strength"], [0.0, 0.1 * gamma], rtol=1e-15)


@pytest.mark.parametrize(("steps", "points"), [(1, 2), (7, 400), (1000, 2), (1000, 5), (10**5, 400)])
def test_steps_are_recorded_on_a_log_scale(steps, points):
    result = sl.simulate(Descent(**LOGISTIC, lr=0.1, steps=steps, points=points))
    step = result["step"]
    assert (step[0], step[-1]) == (0, steps)
    assert (np.diff(step) > 0).all()
    assert len(step) <= max(points, 2)
    assert result["t"][-1] == 0.1 * steps
    np.testing.assert_array_equal(result["t"], 0.1 * step)
    if steps == 10**5:
        late = np.diff(np.log(step[200:]))
        assert late.max() < 1.1 * late.min() + 1 / step[200]


def test_listed_steps_are_recorded_and_match_the_log_scale():
    every = sl.simulate(Descent(**LOGISTIC, lr=0.1, steps=50, record=tuple(range(51))))
    some = sl.simulate(Descent(**LOGISTIC, lr=0.1, steps=50, points=6))
    np.testing.assert_array_equal(every["step"], np.arange(51))
    for name in ("a", "V", "weights", "loss", "u"):
        np.testing.assert_array_equal(every[name][some["step"]], some[name])
    np.testing.assert_allclose(every["strength"][some["step"]], some["strength"], rtol=TWO_WAYS)


@pytest.mark.parametrize("model", ["value", "tied", "matrix"])
def test_arrays_and_axes(model):
    case = fields("logistic", "softmax", model)
    result = sl.simulate(Descent(**case, lr=0.1, steps=10, points=4))
    shapes = {"value": {"V", "a", "strength"}, "tied": {"U", "a"}, "matrix": {"A", "V"}}[model]
    assert set(result) == {"step", "t", "weights", "loss", "u"} | shapes
    assert all(result.axes[name][0] == "t" for name in result)
    assert result["weights"].shape == (*result["t"].shape, *((5, 5) if model == "matrix" else (5,)))
    np.testing.assert_array_equal(result["u" if model == "matrix" else "a"][0].shape, (5,))


def test_strength_is_what_moved_u():
    """u(k) − u(0) = b Σ lr γ s, and Σ s = 1, so its sum is b Γ; for square too when V(0) ∥ β*, and only then."""
    beta = LOGISTIC["beta"]
    along = {**LOGISTIC, "V": np.outer(beta, [0.1, 0.2, -0.1, 0.0, 0.3])}
    for spec in (
        Descent(**LOGISTIC, lr=0.1, steps=500),
        Descent(**LOGISTIC, lr=0.1, steps=500, freeze="a"),
        Descent(**{**along, "loss": "square"}, lr=0.1, steps=500),
    ):
        result = sl.simulate(spec)
        moved = (result["u"] - result["u"][0]).sum(axis=-1) / (beta @ beta)
        np.testing.assert_allclose(result["strength"], moved, atol=TWO_WAYS)
    assert "strength" not in sl.simulate(Descent(**{**LOGISTIC, "loss": "square"}, lr=0.1, steps=5))
    assert "strength" not in sl.simulate(Descent(**{**along, "loss": "square"}, lr=0.1, steps=5, optimizer="adam"))


@pytest.mark.parametrize(("decay", "map"), [(0.0, "softmax"), (0.1, "softmax"), (0.1, "sigmoid_norm")])
def test_reduced_is_the_full_descent(decay, map):
    spec = Descent(**{**LOGISTIC, "map": map}, lr=0.1, steps=1000, weight_decay=decay)
    short, full = Reduced(spec), Full(spec)
    assert short.advance(0, 300) == full.advance(0, 300)
    assert short.advance(300, 1000) == full.advance(300, 1000)
    for name, x in full.parameters().items():
        assert difference(short.parameters()[name], x) < SAME
    assert abs(short.strength - full.strength) < SAME * full.strength


@pytest.mark.parametrize("optimizer", ["gd", "adam"])
@pytest.mark.parametrize("problem", [("square", "elu_norm", "value"), ("kl", "softmax", "tied")])
def test_plain_is_the_compiled_descent(problem, optimizer):
    spec = Descent(**fields(*problem), lr=LR, steps=300, optimizer=optimizer)
    slow, fast = Plain(spec), Full(spec)
    assert slow.advance(0, 300) == fast.advance(0, 300) == 300
    for name, x in fast.parameters().items():
        assert difference(slow.parameters()[name], x) < SAME


@pytest.mark.parametrize("model", ["value", "matrix"])
@pytest.mark.parametrize("optimizer", ["gd", "adamw"])
@pytest.mark.parametrize("frozen", ["a", "V"])
def test_frozen_parameters_stay(frozen, optimizer, model):
    case = fields("square", "softmax", model)
    result = sl.simulate(Descent(**case, freeze=frozen, lr=0.1, steps=20, optimizer=optimizer, weight_decay=0.1))
    scores = "A" if model == "matrix" else "a"
    still, moving = (scores, "V") if frozen == "a" else ("V", scores)
    assert (result[still] == result[still][0]).all()
    assert difference(result[moving][-1], result[moving][0]) > 1e-3


def test_frozen_scores_leave_the_values_as_in_a_linear_model():
    """With s fixed, a step of the square loss is V ← V − lr (V s − β*) sᵀ."""
    case = fields("square", "softmax", "value")
    result = sl.simulate(Descent(**case, freeze="a", lr=0.1, steps=100))
    s, V = result["weights"][0], case["V"]
    for _ in range(100):
        V = V - 0.1 * np.outer(V @ s - case["beta"], s)
    assert difference(result["V"][-1], V) < SAME


def test_a_map_and_a_loss_of_ones_own_take_the_plain_path():
    @sl.attention.register(name="cubes", normalise="sum")
    def cubes(scores):
        return scores**3

    @sl.polarization.register(name="quartic")
    def quartic(output, beta):
        return (output - beta).pow(4).sum()

    case = {**LOGISTIC, "map": "cubes", "loss": "quartic"}
    result = sl.simulate(Descent(**case, lr=0.01, steps=100))
    assert result.notes["path"] == "plain"
    a, V = torch.tensor(case["a"], requires_grad=True), torch.tensor(case["V"], requires_grad=True)
    steps = torch.optim.SGD([a, V], 0.01)
    for _ in range(100):
        steps.zero_grad()
        (V @ (a**3 / (a**3).sum()) - torch.tensor(case["beta"])).pow(4).sum().backward()
        steps.step()
    assert difference(result["a"][-1], a.detach()) < OF_TORCH
    assert difference(result["V"][-1], V.detach()) < OF_TORCH


@pytest.mark.parametrize("map", ["sparsemax", "entmax15"])
def test_sparse_maps_take_the_plain_path(map):
    case = {**LOGISTIC, "map": map}
    result = sl.simulate(Descent(**case, lr=0.1, steps=100, optimizer="adam"))
    assert result.notes["path"] == "plain"
    a, V = torch.tensor(case["a"], requires_grad=True), torch.tensor(case["V"], requires_grad=True)
    steps = torch.optim.Adam([a, V], 0.1)
    for _ in range(100):
        steps.zero_grad()
        m = torch.tensor(case["beta"]) @ (V @ sl.attention.weights(map, a[None, None])[0, 0])
        torch.nn.functional.softplus(-m).backward()
        steps.step()
    output = (V @ sl.attention.weights(map, a[None, None])[0, 0]).detach()
    assert difference(result["V"][-1] @ result["weights"][-1], output) < NEAR_ZERO
    assert "strength" in result


def test_a_spec_survives_json_and_keeps_its_key():
    spec = Descent(**LOGISTIC, lr=0.1, steps=10, record=(1, 2), optimizer="adam")
    again = sl.from_json(spec.json_text())
    assert again == spec
    assert again.key == spec.key
    assert spec.key != spec.replace(eps=1e-2).key


def test_one_token_does_not_move_its_score():
    result = sl.simulate(Descent("logistic", beta=[1.0, 1.0], V=[[0.1], [0.2]], a=[3.0], lr=0.1, steps=100))
    assert (result["weights"] == 1).all()
    assert (result["a"] == 3).all()
    assert result["loss"][-1] < result["loss"][0]


def test_many_tokens():
    generator = np.random.default_rng(0)
    case = {"beta": generator.standard_normal(3), "V": generator.standard_normal((3, 2000)), "a": np.zeros(2000)}
    result = sl.simulate(Descent("square", **case, lr=0.1, steps=20, points=3))
    assert result.status.ok
    assert result["V"].shape == (3, 3, 2000)


def test_values_too_large_to_keep_are_kept_at_both_ends(monkeypatch):
    spec = Descent(**fields("square", "softmax", "value"), lr=0.1, steps=200)
    whole = sl.simulate(spec)
    monkeypatch.setattr("softmaxlab.polarization.problem.BYTES", 1000)
    thin = sl.simulate(spec)
    np.testing.assert_array_equal(thin["V"], whole["V"][[0, -1]])
    np.testing.assert_array_equal(thin["u"], whole["u"])
    assert "first and the last" in thin.notes["V"]


def test_many_descents_in_threads_are_those_done_one_by_one():
    cases = [fields("logistic", "softmax", "value", seed) for seed in range(6)]
    specs = [Descent(**case, lr=0.1, steps=500, optimizer="adam") for case in cases]
    for spec, result in zip(specs, descend_many(specs, jobs=3)):
        assert result.spec == spec
        np.testing.assert_array_equal(result["a"], sl.simulate(spec)["a"])
