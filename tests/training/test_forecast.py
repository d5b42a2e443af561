"""The forecast: exact on heads that are value-softmax models, refused where it has no model."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import softmaxlab as sl
from softmaxlab.attention import MAPS
from softmaxlab.errors import SpecError
from softmaxlab.training import Induction, Run, forecast
from softmaxlab.training.forecast import _followed

TASK = Induction(vocab=8, tokens=4, train=256, evaluate=32)
NEAR = 0.05  # relative: the speed is fitted by trapezoids between recorded steps


def value_softmax(a, u, kappa, steps, steady):
    """The flow itself, integrated here, or one whose speed is that at the start: weights and drives [step, key]."""

    def velocity(_, a):
        pull = softmax_pull(a)
        return kappa * pull * (np.linalg.norm(softmax_pull(start)) / np.linalg.norm(pull) if steady else 1.0)

    def softmax_pull(a):
        s = np.exp(a) / np.exp(a).sum()
        return s * (u - s @ u)

    start = a

    scores = solve_ivp(velocity, (0, steps[-1]), a, t_eval=steps, rtol=1e-8).y.T
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), np.tile(u, (len(steps), 1))


def made_up(a, u, kappa=0.5, gain=1.0, optimizer="sgd"):
    """A tracked result of 1024 steps with one head that follows the flow, or the same way with Adam's steady speed."""
    spec = Run(task=TASK, layers=1, heads=1, width=8, batch=1, epochs=4, track=("heads",), optimizer=optimizer)
    steps = np.unique(np.geomspace(1, 1024, 60).round().astype(int))
    steps = np.concatenate([[0], steps])
    w, drive = value_softmax(np.array(a), np.array(u), kappa, steps, steady=optimizer != "sgd")
    axes = ("track_step", "layer", "head", "key")
    unseen = np.zeros((len(steps), TASK.length() - w.shape[1]))  # by the queries that are measured
    w, drive = np.hstack([gain * w, unseen]), np.hstack([drive, unseen])
    arrays = {name: x[:, None, None] for name, x in (("track_weight", w), ("track_share", w), ("track_drive", drive))}
    return sl.Result(arrays | {"track_step": steps}, dict.fromkeys(arrays, axes) | {"track_step": axes[:1]}, spec=spec)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_head_that_follows_the_flow_is_foretold(optimizer):
    run = made_up(a=[0.0, 0.1, 0.0, -0.1], u=[0.06, 0.0, 0.0, 0.0], optimizer=optimizer)
    (row,) = forecast(run, at=0.05).itertuples()
    actual = run["track_step"][np.flatnonzero(run["track_share"][:, 0, 0, 0] > 0.9)[0]]
    assert row.token == 0
    assert row.kappa == pytest.approx(0.5, rel=NEAR)
    assert row.step == pytest.approx(actual, rel=2 * NEAR)  # recorded steps are a tenth apart
    assert 51 < row.step < 1024, "it must be a forecast"


def test_the_drive_is_the_layer_s():
    spec = Run(task=TASK, layers=1, heads=2, width=8, batch=1, epochs=4, track=("heads",), optimizer="sgd")
    one, noise = made_up(a=[0.0] * 4, u=[0.06, 0.0, 0.0, 0.0]), np.zeros((2, TASK.length()))
    noise[:, 1] = [0.1, -0.1]  # more than the drive, and in two heads of opposite signs
    both = {name: np.repeat(one[name], 2, axis=2) for name in one.axes if name != "track_step"}
    both["track_drive"] = both["track_drive"] + noise
    found = forecast(sl.Result(both | {"track_step": one["track_step"]}, one.axes, spec=spec), at=0.05)
    (alone,) = forecast(one, at=0.05).itertuples()
    assert found["token"].tolist() == [0, 0]
    np.testing.assert_allclose(found["step"], alone.step, rtol=1e-3)  # of the solver, at its own tolerance


def test_no_drive_no_sink():
    run = made_up(a=[0.0, 0.1, 0.0, -0.1], u=[1e-6, 0.0, 0.0, 0.0])
    (row,) = forecast(run, at=0.05).itertuples()
    assert row.step == np.inf
    assert row.share < 0.3


def test_a_head_without_weight_has_no_sink_and_one_that_nothing_pulls_stays():
    run = made_up(a=[0.0, 0.1, 0.0, -0.1], u=[0.06, 0.0, 0.0, 0.0], gain=0.0)
    (row,) = forecast(run, at=0.05).itertuples()
    assert (row.token, row.step) == (-1, np.inf)
    assert np.isnan(row.share)
    still = made_up(a=[0.0, 0.1, 0.0, -0.1], u=[0.0, 0.0, 0.0, 0.0])
    (row,) = forecast(still, at=0.05).itertuples()
    assert (row.kappa, row.step) == (0.0, np.inf)


def test_nothing_after_the_beginning_is_read():
    run = made_up(a=[0.0, 0.1, 0.0, -0.1], u=[0.06, 0.0, 0.0, 0.0])
    changed = {name: run[name].copy() for name in ("track_weight", "track_share", "track_drive")}
    for array in changed.values():
        array[run["track_step"] > 51] = 0.25
    other = sl.Result({**run.arrays, **changed}, run.axes, spec=run.spec)
    assert forecast(run, at=0.05).equals(forecast(other, at=0.05))


SCORED = [name for name in MAPS if MAPS[name].features is None and not MAPS[name].joint]
SCORED = [name for name in SCORED if MAPS[name].non_negative and name not in ("uniform", "square")]


@pytest.mark.parametrize("map", SCORED)
def test_a_spec_is_trained_and_every_head_has_a_row(map):
    found = forecast(Run(task=TASK, map=map, heads=2, width=8, batch=16, epochs=2), at=0.3)
    assert list(found[["layer", "head"]].itertuples(index=False, name=None)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (np.isfinite(found["share"]) | (found["token"] == -1)).all()
    assert (found["kappa"].isna() | (found["kappa"] >= 0)).all()


def test_steps_of_the_flow_are_small_enough():
    track = [np.linspace(-1.0, 1.0, 5)[None] * scale for scale in (1.0, 0.5)]
    (token, share, time) = _followed(Run(task=TASK, epochs=100, optimizer="sgd"), *track, since=10.0)[0]

    def velocity(_, a):
        s = np.exp(a) / np.exp(a).sum()
        return s * (track[1][0] - s @ track[1][0])

    flow = solve_ivp(velocity, (10.0, Run(task=TASK, epochs=100).steps()), track[0][0], rtol=1e-10, atol=1e-12)
    s = np.exp(flow.y) / np.exp(flow.y).sum(axis=0)
    assert token == 4
    assert share == pytest.approx(s[4, -1], rel=1e-4)  # Heun's error with five hundred steps
    assert time == pytest.approx(np.interp(0.9, s[4], flow.t), rel=0.01)  # steps are 0.5 % apart


def test_a_head_whose_weights_vanish_has_no_token():
    spec = Run(task=TASK, map="relu", epochs=100, optimizer="sgd")
    (found,) = _followed(spec, np.full((1, 3), 0.1), np.full((1, 3), -1.0), since=10.0)
    assert (found[0], found[2]) == (-1, np.inf)
    assert np.isnan(found[1])


def test_bad_input_is_refused():
    run = made_up(a=[0.0] * 4, u=[0.1, 0.0, 0.0, 0.0])
    with pytest.raises(SpecError, match="at must be above 0 and at most 1, got 2"):
        forecast(run, at=2)
    with pytest.raises(SpecError, match="leaves 1 recorded steps, at least 3 are needed"):
        forecast(run, at=1e-4)
    with pytest.raises(SpecError, match="forecast takes a Run, or the result of one with track"):
        forecast(sl.Result({}, {}))
    for map in ("elu_elu", "bayes_softmax", "uniform"):
        with pytest.raises(SpecError, match=f"needs a map of scores that heads do not share, got '{map}'"):
            forecast(Run(task=TASK, map=map, width=8, heads=1))
    with pytest.raises(SpecError, match="needs weights that are not negative, of which there are shares, got 'linear'"):
        forecast(Run(task=TASK, map="linear", width=8, heads=1))
    with pytest.raises(SpecError, match="no scores for the weights of map 'square', whose slope at 0 is 0"):
        forecast(Run(task=TASK, map="square", heads=2, width=8, batch=16, epochs=2), at=0.3)
    with pytest.raises(SpecError, match="forecast needs finite weights and drives"):
        forecast(Run(task=TASK, width=8, heads=1, batch=8, optimizer="sgd", lr=1e30, layernorm=False), at=0.5)


def test_the_beginning_of_a_spec_is_the_beginning_of_its_run():
    spec = Run(task=TASK, heads=2, width=8, batch=16, epochs=2, track=("heads",))
    from_spec, from_result = forecast(spec, at=0.3), forecast(sl.simulate(spec), at=0.3)
    assert from_spec.equals(from_result)
