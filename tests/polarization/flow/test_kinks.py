"""Maps with kinks: scores that die, revive, cross, or are held at a border, against descent with smaller steps.

Descent needs no events: it steps over a kink, or chatters about it, and comes to the flow as its step goes to 0.
"""

import numpy as np
import pytest

from softmaxlab import simulate
from softmaxlab.core.result import Outcome
from softmaxlab.polarization import Flow
from tests.polarization.flow_cases import KINKED, flow

STEPS = (1000, 6000)
FIRST_ORDER = 2.5  # six times the steps must shrink the difference by this at least; chatter makes 6 uneven


def descended(spec: Flow, steps: int) -> dict[str, np.ndarray]:
    at = dict(spec.start())
    model, loss, map = spec.model_of(), spec.loss_of(), spec.map_of()
    for _ in range(steps):
        velocity = model.velocity(loss, map, at)
        at = {name: x + spec.t_end / steps * velocity[name] for name, x in at.items()}
    return at


def differences(spec: Flow) -> list[float]:
    """Between flow and descent, for each number of steps; scores by absolute value where only that counts."""
    result = simulate(spec)
    assert result.status.ok
    even = spec.map.startswith("abs") and spec.model != "tied"

    def comparable(name, x):
        return np.abs(x) if even and name in ("a", "A") else x

    return [
        max(np.abs(comparable(n, result[n][-1]) - comparable(n, x)).max() for n, x in descended(spec, steps).items())
        for steps in STEPS
    ]


def near_the_border(map: str, loss: str, model: str, seed: int) -> Flow:
    spec = flow(loss, map, model, seed, t_end=20.0, p=5, points=5, rtol=1e-10)
    if model == "tied" and map != "linear_norm":
        return spec  # its scores come to the border by themselves
    name, rng = "A" if model == "matrix" else "a", np.random.default_rng(seed + 9)
    noise = rng.standard_normal(getattr(spec, name).shape)
    return spec.replace(**{name: 0.15 + 0.1 * noise if map == "linear_norm" else 0.3 + 0.5 * noise})


@pytest.mark.parametrize("model", ["value", "matrix", "tied"])
@pytest.mark.parametrize("map", KINKED)
def test_descent_comes_to_the_flow(map, model):
    events = 0
    for loss, seed in (("logistic", 8), ("square", 3)):
        spec = near_the_border(map, loss, model, seed)
        coarse, fine = differences(spec)
        assert fine < coarse / FIRST_ORDER
        events += simulate(spec).notes["events"]
    assert events > 0


def test_without_events_the_flow_is_another():
    # the same scores under |x| with the first death ignored: sum in place of abs_norm
    spec = near_the_border("abs_norm", "logistic", "value", 1)
    wrong = spec.replace(map="sum", a=np.abs(spec.a))
    fine = differences(spec)[1]
    last = simulate(wrong)["V"][-1]
    assert np.abs(last - descended(spec, STEPS[1])["V"]).max() > 10 * fine


def test_normalised_relu_and_abs_are_one_hot_in_finite_time():
    rng = np.random.default_rng(0)
    for map in ("relu_norm", "abs_norm"):
        beta, V, a = rng.standard_normal(4), 0.1 * rng.standard_normal((4, 6)), 1 + 0.1 * rng.standard_normal(6)
        result = simulate(Flow("logistic", map, beta=beta, V=V, a=a, t_end=1e12))
        assert result.notes["events"] == 5
        one_hot = (result["weights"] > 0).sum(axis=1) == 1
        first = int(np.argmax(one_hot))
        assert 0 < first < 399
        assert one_hot[first:].all()
        assert (result["weights"][-1].max(), result["weights"][-1].sum()) == (1.0, 1.0)
        dead = result["weights"][-1] == 0
        assert (result["a"][-1][dead] == 0).all()


def test_scores_at_zero_from_the_start_never_move():
    for map in ("relu_norm", "abs_norm", "relu", "abs"):
        spec = flow("cross_entropy", map, "value", 0, t_end=30.0, points=5)
        a = np.array([0.0, 1.0, 0.5, 0.7])
        result = simulate(spec.replace(a=a))
        assert (result["a"][:, 0] == 0).all()
        assert (result["weights"][:, 0] == 0).all()


def test_a_dead_relu_stays_dead_but_a_modulus_can_revive():
    spec = near_the_border("abs", "cross_entropy", "matrix", 3).replace(t_end=20.0)
    result = simulate(spec.replace(points=2000))
    weights = result["weights"].reshape(2000, -1)
    died = (weights[:-1] > 0) & (weights[1:] < 1e-12)
    revived = (weights[:-1] < 1e-12) & (weights[1:] > 1e-12)
    assert died.any()
    assert revived.any()
    relu = simulate(spec.replace(map="relu", points=2000))["weights"].reshape(2000, -1)
    assert not ((relu[:-1] == 0) & (relu[1:] > 0)).any()


def test_the_tied_model_can_lose_its_last_token():
    # p = 2: the winner's own score z = U a shrinks to 0, where relu/Σrelu is 0/0
    spec = flow("dataset", "relu_norm", "tied", 2, t_end=1e4, p=2, points=50)
    spec = spec.replace(X=np.random.default_rng(2).standard_normal((5, 2)))
    outcome = simulate(spec).status.outcome
    assert outcome in (Outcome.DONE, Outcome.SINGULAR)


@pytest.mark.parametrize("map", ["relu_norm", "abs_norm"])
@pytest.mark.parametrize("scale", [1e-6, 1e-9, 1e-12])
def test_shares_do_not_feel_the_scale_of_the_scores(map, scale):
    """a → ca with t → c²t is the same flow while u hardly moves, events included."""
    a = scale * np.array([1, 1.1, 0.9])
    result = simulate(Flow("logistic", map=map, beta=[1.0], V=[[0.5, 0.3, -0.4]], a=a, t_end=10 * scale**2))
    assert result.notes["events"] == 1
    np.testing.assert_allclose(result["weights"][-1], [0.543083, 0.456917, 0], atol=1e-5)
