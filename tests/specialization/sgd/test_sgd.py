"""SGD as a spec: what it holds, what it refuses, how it ends."""

import dataclasses

import numpy as np
import pytest

from softmaxlab.core.result import Outcome, Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import from_json
from softmaxlab.core.store import Store
from softmaxlab.errors import SpecError
from softmaxlab.specialization.flow.flow import Flow
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters, random_start
from softmaxlab.specialization.priors import Discrete, FlippingSpike
from softmaxlab.specialization.sgd import direct, reduced
from softmaxlab.specialization.sgd.sgd import SGD, Spread

EXACT = 1e-10  # r is a root: its square has half the digits of a small q⊥, which is of order 1 here
MODEL = SingleLocation(FlippingSpike((2.0, 2.0)), length=4, heads=2)
SMALL = {"dim": 60, "batch": 40, "lr": 0.1, "tau_end": 2.0, "points": 6}
METHODS = ("reduced", "direct")


@pytest.mark.parametrize("method", METHODS)
def test_what_a_result_holds(method):
    spec = SGD(MODEL, **SMALL, method=method)
    found = simulate(spec)
    assert found.status.ok
    np.testing.assert_array_equal(found["tau"], np.array([0, 4, 8, 12, 16, 20]) * 0.1)
    assert found["tau"][-1] == spec.steps * spec.lr
    assert found.axes["m"] == ("tau", "head", "feature")
    assert found["m"].shape == (6, 2, 2)
    m, q, r, p = (found[name] for name in ("m", "q", "r", "p"))
    np.testing.assert_allclose(r, r.swapaxes(1, 2), atol=EXACT)
    np.testing.assert_allclose(r @ r + m @ np.linalg.solve(p, m.swapaxes(1, 2)), q, atol=EXACT)
    assert not found["b"].any()
    assert (found["v"] == 1).all()
    assert ((found["loss"] > 0.2) & (found["loss"] < 2)).all()


@pytest.mark.parametrize("method", METHODS)
def test_bias_and_gain_move_under_softmax1(method):
    found = simulate(SGD(MODEL.replace(map="softmax1"), **SMALL, method=method))
    assert found["b"][-1].all()
    assert found["v"][-1] != 1


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bytes(method):
    spec = SGD(MODEL, **SMALL, method=method, seed=3)
    one, two, other = simulate(spec), simulate(spec), simulate(spec.replace(seed=4))
    for name in one:
        assert one[name].tobytes() == two[name].tobytes()
    assert not np.allclose(one["m"], other["m"])


@pytest.mark.parametrize("method", METHODS)
def test_a_start_of_ones_own(method):
    start = OrderParameters(m=[[0.5, -0.2], [0.1, 0.3]], r=[[1.0, 0.3], [0.0, 0.7]], p=[[1.0, 0.4], [0.4, 1.2]])
    found = simulate(SGD(MODEL, **SMALL, method=method, start=start))
    np.testing.assert_allclose(found["m"][0], start.m, atol=EXACT)
    np.testing.assert_allclose(found["q"][0], start.q, atol=EXACT)
    np.testing.assert_allclose(found["p"], start.p, atol=EXACT)


def test_the_reduced_start_is_the_random_one():
    found = simulate(SGD(MODEL, **SMALL, eta=2.0, seed=1))
    expected = random_start(MODEL, 60, 2.0, 1)
    np.testing.assert_allclose(found["m"][0], expected.m, atol=EXACT)
    np.testing.assert_allclose(found["p"], expected.p, atol=EXACT)


def test_more_points_than_steps_records_every_step():
    assert len(simulate(SGD(MODEL, dim=60, batch=10, lr=0.1, tau_end=0.5))["tau"]) == 6


def test_a_hundred_million_dimensions():
    found = simulate(SGD(MODEL, dim=10**8, batch=200, lr=1e-7, tau_end=1e-6))
    assert found.status.ok
    np.testing.assert_allclose(found["p"], np.eye(2), atol=1e-3)  # 10 standard deviations of D^-½
    assert (np.diff(found["q"][:, 0, 0]) != 0).all()


def test_any_map_with_direct_only():
    found = simulate(SGD(MODEL.replace(map="sigmoid"), **SMALL, method="direct"))
    assert found.status.ok
    with pytest.raises(SpecError, match="method='direct'"):
        SGD(MODEL.replace(map="sigmoid"), **SMALL)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("map", ["softmax", "softmax1", "bayes_softmax"])
@pytest.mark.parametrize("lr", [1e3, 1e160, 1e300])
def test_a_large_learning_rate_ends_with_a_sentence(method, map, lr):
    found = simulate(SGD(MODEL.replace(map=map), dim=100, batch=100, lr=lr, tau_end=100 * lr, method=method))
    assert found.status.outcome is Outcome.DIVERGED
    assert "lr·dim/batch" in found.status.sentence
    assert "tau =" in found.status.sentence
    assert all(np.isfinite(found[name]).all() for name in found)
    assert 1 <= len(found["tau"]) < 100


def test_too_few_samples_for_the_dimension_ends_with_a_sentence():
    found = simulate(SGD(MODEL, dim=10**8, batch=2000, tau_end=8.0))
    assert found.status.outcome is Outcome.DIVERGED
    assert found["tau"][-1] < 4


@pytest.mark.parametrize("map", ["softmax", "softmax1", "bayes_softmax"])
@pytest.mark.parametrize("batch", [1, 30])
def test_noise_alone_is_not_divergence(map, batch):
    found = simulate(SGD(MODEL.replace(map=map), dim=20, batch=batch, lr=0.02, tau_end=4.0, eta=3.0))
    assert found.status.ok


HARD = OrderParameters(m=np.zeros((1, 2)), r=[[3.0]], b=[6.0], v=20.0)
RARE = Discrete([[0.0, 0.0], [300.0, 0.0]], [0.99, 0.01])


@pytest.mark.parametrize(
    ("spec", "steps"),
    [
        (SGD(SingleLocation(FlippingSpike(), 3, 1, "softmax1"), dim=100, batch=1, lr=1e-9, start=HARD), 400),
        (SGD(SingleLocation(RARE, 3, 2), dim=100, batch=1, lr=1e-9), 1000),
        (SGD(SingleLocation(FlippingSpike((50.0, 50.0)), 4, 2), dim=8, batch=1, lr=1e-9), 1000),
    ],
    ids=("a large gain", "a rare signal", "a strong signal"),
)
def test_heads_that_do_not_move_have_not_diverged(spec, steps):
    for seed in range(8):
        assert simulate(spec.replace(tau_end=steps * 1e-9, seed=seed)).status.ok


@pytest.mark.parametrize("map", ["softmax", "bayes_softmax"])
@pytest.mark.parametrize(("length", "heads"), [(4, 2), (10, 2), (10, 1)])
def test_heads_that_noise_alone_moves_have_diverged(map, length, heads):
    model = MODEL.replace(map=map, length=length, heads=heads)
    found = simulate(SGD(model, dim=10**8, batch=2000, tau_end=2.0, points=21))
    assert found.status.outcome is Outcome.DIVERGED
    assert "at first" in found.status.sentence


def test_a_spread_is_that_of_all_its_losses():
    losses = np.random.default_rng(0).gamma(2.0, size=57)
    found = Spread()
    for part in np.split(losses, [1, 20, 21]):
        found.add(len(part), part.mean(), part.var() * len(part))
    np.testing.assert_allclose(found.mean, losses.mean(), rtol=1e-13)
    np.testing.assert_allclose(found.error, losses.std(ddof=1) / np.sqrt(57), rtol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_a_first_loss_that_is_not_finite_leaves_the_start(method, monkeypatch):
    engine = {"reduced": reduced.Reduced, "direct": direct.Direct}[method]
    gradient = engine.gradient
    monkeypatch.setattr(engine, "gradient", lambda self: dataclasses.replace(gradient(self), loss=np.inf))
    found = simulate(SGD(MODEL, **SMALL, method=method))
    assert found.status.outcome is Outcome.DIVERGED
    assert "at tau = 0 the loss, or a head, is not finite" in found.status.sentence
    assert found["tau"].tolist() == [0.0]
    assert "loss" not in found
    assert all(np.isfinite(found[name]).all() for name in found)


def test_the_largest_signal_has_a_result_and_a_larger_one_a_sentence():
    found = simulate(SGD(SingleLocation(Discrete([[1e50, 0.0]]), 3, 2), dim=30, batch=4, tau_end=0.1))
    assert all(np.isfinite(found[name]).all() for name in found)
    with pytest.raises(SpecError, match="points must hold numbers up to"):
        SingleLocation(Discrete([[1e200, 0.0]]), 3, 2)


def test_too_large_a_dimension_for_the_memory_is_refused_before_work(monkeypatch):
    spec = SGD(MODEL, dim=10**13, batch=1, lr=0.02, tau_end=0.02, method="direct")
    with pytest.raises(SpecError, match=r"needs about .* GiB of memory.*\(dim = 10000000000000,") as error:
        simulate(spec)
    assert "\n" not in str(error.value)
    monkeypatch.setattr(direct, "_memory", lambda: 8.0 * (2 + 6 + 4 + 1) * 60)
    assert simulate(SGD(MODEL, **SMALL, method="direct")).status.ok
    with pytest.raises(SpecError, match="dim = 61"):
        simulate(SGD(MODEL, **SMALL | {"dim": 61}, method="direct"))


@pytest.mark.parametrize("method", METHODS)
def test_a_result_starts_another_run_at_its_first_time(method):
    softmax1 = MODEL.replace(map="softmax1")
    sgd = simulate(SGD(softmax1, **SMALL, seed=3))
    flow = simulate(Flow(softmax1, tau_end=1.0, samples=16, start=sgd))
    for result in (sgd, flow):
        spec = SGD(softmax1, **SMALL, method=method, start=result)
        assert from_json(spec.json_text()) == spec
        found = simulate(spec)
        for name in ("m", "q", "b", "v"):
            np.testing.assert_allclose(found[name][0], sgd[name][0], rtol=0, atol=EXACT, err_msg=name)
        np.testing.assert_allclose(found["p"], sgd["p"], rtol=0, atol=EXACT)
    overlaps = {"m": sgd["m"][0], "q": sgd["q"][0], "p": sgd["p"]}
    np.testing.assert_allclose(SGD(softmax1, **SMALL, start=overlaps).start.q, sgd["q"][0], rtol=0, atol=EXACT)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"batch": 0}, "batch must be greater than or equal to 1, got 0"),
        ({"lr": 0.0}, "lr must be greater than 0, got 0.0"),
        ({"lr": -0.1}, "lr must be greater than 0, got -0.1"),
        ({"eta": 0.0}, "eta must be greater than 0"),
        ({"dim": 7}, r"dim must be at least F \+ 3 H = 8 for method='reduced', got 7"),
        ({"dim": 3, "method": "direct"}, r"dim must be at least F \+ H = 4 for method='direct', got 3"),
        ({"method": "reduce"}, "unknown method 'reduce', did you mean 'reduced'"),
        ({"tau_end": 0.001}, "tau_end must hold"),
        ({"points": 1}, "points must be"),
        ({"seed": -1}, "seed must be"),
        ({"start": OrderParameters(m=np.zeros((3, 2)), r=np.eye(3))}, "m must be"),
        ({"start": OrderParameters(m=np.zeros((2, 2)), r=np.eye(2)), "eta": 2.0}, "eta has no meaning with start"),
        ({"start": OrderParameters(m=np.full((2, 2), 1e200), r=np.eye(2))}, "start must hold numbers up to"),
        ({"start": {"m": np.ones((2, 2)), "q": np.eye(2), "zz": 1}}, "unknown field of start 'zz'"),
        ({"start": {"q": np.eye(2)}}, "start needs m beside q"),
        ({"start": Result({"w": np.ones(3)}, {"w": ("head",)})}, "a result of Flow or SGD"),
        ({"epochs": 3}, "unknown field of SGD 'epochs'"),
    ],
)
def test_bad_input_is_refused_in_one_line(fields, said):
    with pytest.raises(SpecError, match=said) as error:
        SGD(MODEL, **fields)
    assert "\n" not in str(error.value)


def test_the_largest_start_has_a_result():
    found = simulate(SGD(MODEL, **SMALL, eta=1e100))
    assert all(np.isfinite(found[name]).all() for name in found)


def test_many_tokens_and_heads_go_in_smaller_blocks():
    model = SingleLocation(FlippingSpike((2.0, 2.0)), length=3000, heads=2)
    engine = SGD(model, batch=300)._engine("cpu")
    assert [samples for _, samples in engine.blocks] == [75] * 4


def test_the_least_dimension_runs():
    assert simulate(SGD(MODEL, dim=8, batch=20, lr=0.1, tau_end=0.5)).status.ok


def test_json_and_store(tmp_path):
    spec = SGD(MODEL, **SMALL, start=random_start(MODEL, 60, 1.0, 0))
    assert from_json(spec.json_text()) == spec
    store = Store(tmp_path / "runs")
    found, again = simulate(spec, store), simulate(spec, store)
    assert again.provenance == found.provenance
    np.testing.assert_array_equal(found["q"], again["q"])
