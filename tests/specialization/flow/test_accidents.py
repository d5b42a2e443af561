"""What can go wrong with a flow: bad input, divergence, budgets, interrupts."""

import threading
import time

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.core.ode import Limits, Run, integrate
from softmaxlab.core.result import Outcome
from softmaxlab.errors import SpecError
from softmaxlab.specialization.flow import flow as flow_module
from softmaxlab.specialization.flow import velocity as velocity_module
from softmaxlab.specialization.flow.settings import LARGE
from softmaxlab.specialization.population import slope_over

sp = sl.specialization
ROUNDING = 1e-12
FLIPPING = sp.SingleLocation(sp.FlippingSpike(nu=(2.0, 2.0)), length=4, heads=2)
# where free and symmetric r part most, of sixty random starts
APART = sp.OrderParameters(m=[[1.4, 0.55], [0.9, -0.25]], r=[[3.3, 0.0], [2.1, 0.1]])

NEAR = sp.OrderParameters(m=[[0.3, 0.1], [0.0, -0.2]], r=[[1.5, 0.0], [-1.2, 0.6]])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tau_end": 0.0}, "tau_end"),
        ({"tau_end": float("inf")}, "tau_end"),
        ({"eta": -1.0}, "eta"),
        ({"samples": 0}, "samples"),
        ({"solver": "rk45"}, "solver"),
        ({"sampling": "fresh"}, "needs solver='Euler'"),
        ({"tau_end": 30.0, "record": (1.0, 40.0)}, "record must list times from 0 to tau_end = 30, got 40"),
        ({"start": APART, "eta": 2.0}, "eta has no meaning with start"),
        ({"start": sp.OrderParameters(m=np.ones((3, 2)), r=np.eye(3))}, "m must be"),
        ({"start": {"m": np.ones((2, 2)), "q": np.eye(2)}}, "positive semidefinite"),
        ({"batch_noise": -0.1}, "batch_noise"),
        ({"eta": 1e308}, "eta must be"),
        ({"noise": 1e308}, "noise must be"),
        ({"tau_end": 1e300}, "tau_end must be"),
        ({"tau_end": 3000.0, "solver": "Euler"}, "tau_end must hold at most 100000 steps"),
        ({"start": sp.OrderParameters(m=np.eye(2) * 1e308, r=np.eye(2))}, "start must hold numbers up to"),
        ({"start": sp.OrderParameters(m=np.eye(2), r=np.eye(2), v=1e200)}, "start must hold numbers up to"),
        ({"start": {"m": np.ones((2, 2)), "q": np.eye(2), "zz": 1}}, "unknown field of start 'zz'"),
        ({"start": {"q": np.eye(2)}}, "start needs m beside q"),
        ({"start": sl.Result({"w": np.ones(3)}, {"w": ("head",)})}, "a result of Flow or SGD"),
        ({"start": 3}, "start must be"),
    ],
)
def test_a_bad_flow_is_refused_before_work(fields, message):
    with pytest.raises(SpecError, match=message) as caught:
        sp.Flow(FLIPPING, **fields)
    assert "\n" not in str(caught.value)


def test_divergence_is_a_status_and_keeps_what_was_recorded():
    spec = sp.Flow(FLIPPING.replace(map="softmax1"), tau_end=4000.0, solver="Euler", step=20.0, samples=64)
    result = sl.simulate(spec)
    assert result.status.outcome is Outcome.DIVERGED
    assert "tau = " in result.status.sentence
    assert not result.notes["converged"]
    assert 1 < len(result["tau"]) < spec.points
    assert all(np.isfinite(result[name]).all() for name in result)
    assert sl.simulate(spec.replace(solver="LSODA", step=0.02)).status.ok


SOLVERS = ("RK45", "DOP853", "LSODA", "Euler")
GRID = np.linspace(0.0, 1.0, 5)


def integrated(velocity, solver, y, grid=GRID, budget=1000):
    run = Run(solver, rtol=1e-3, atol=1e-5, limits=Limits(budget, size=LARGE), step=0.02)
    rows = np.concatenate(list(integrate(velocity, y, grid, run, lambda tau, y: np.zeros((len(y), len(y))))))
    return rows, run


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gradient_not_finite_at_the_start_ends_at_once(solver, value):
    rows, run = integrated(lambda tau, y: np.full_like(y, value), solver, np.ones(2))
    assert run.status.outcome is Outcome.DIVERGED
    assert "at the start" in run.status.sentence
    np.testing.assert_array_equal(rows, np.ones((1, 2)))
    assert run.evaluations == 1
    assert integrated(lambda tau, y: -y, solver, np.ones(2))[1].status.ok  # and leaves the solver usable


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_gradient_not_finite_later_ends(solver):
    def velocity(tau, y):
        return np.where(tau > 0.5, np.nan, -y)

    rows, run = integrated(velocity, solver, np.ones(2))
    assert not run.status.ok
    assert np.isfinite(rows).all()
    assert 1 < len(rows) < len(GRID)


@pytest.mark.parametrize("solver", ["RK45", "DOP853", "LSODA"])
def test_a_solver_that_gets_nowhere_ends_within_its_budget(solver):
    """A velocity of noise, which no step is short enough for."""
    draw = np.random.default_rng(0)
    rows, run = integrated(lambda tau, y: 1e3 * draw.standard_normal(2), solver, np.ones(2), budget=300)
    assert run.status.outcome in (Outcome.LIMIT, Outcome.FAILED)
    assert run.evaluations <= 300
    assert len(rows) >= 1


def test_the_budget_is_a_status_that_keeps_what_was_recorded(monkeypatch):
    monkeypatch.setattr(flow_module, "BUDGET", 60)
    result = sl.simulate(sp.Flow(FLIPPING, tau_end=200.0, samples=16))
    assert result.status.outcome is Outcome.LIMIT
    assert "after 60 evaluations" in result.status.sentence
    assert 1 < len(result["tau"]) < 101


@pytest.mark.parametrize("map", ["softmax", "softmax1"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_flow_without_a_gradient_has_its_start(map, solver, monkeypatch):
    def nowhere(map, K, b, v, samples, noise=False):
        slope = slope_over(map, K, b, v, samples, noise)
        return type(slope)(slope.loss, slope.K * np.nan, slope.b, slope.v)

    monkeypatch.setattr(velocity_module, "slope_over", nowhere)
    result = sl.simulate(sp.Flow(FLIPPING.replace(map=map), tau_end=30.0, samples=16, solver=solver))
    assert result.status.outcome is Outcome.DIVERGED
    assert result["tau"].tolist() == [0.0]
    assert all(np.isfinite(result[name]).all() for name in result)


def test_a_loss_that_is_not_finite_is_not_in_a_result(monkeypatch):
    from softmaxlab.specialization.flow import record as flow_record

    spec = sp.Flow(FLIPPING, tau_end=1.0, points=5, samples=16)
    whole = sl.simulate(spec)
    for good in (0, 3):
        losses = [0.5] * good + [np.inf] * (5 - good)
        monkeypatch.setattr(flow_record, "_losses", lambda *_, losses=losses: losses)
        result = sl.simulate(spec)
        assert result.status.outcome is Outcome.DIVERGED
        assert f"the loss is not finite at tau = {whole['tau'][good]:g}" in result.status.sentence
        assert len(result["tau"]) == max(good, 1)
        assert ("loss" in result) == ("loss_error" in result) == (good > 0)
        np.testing.assert_array_equal(result["m"], whole["m"][: max(good, 1)])


def test_the_largest_start_has_a_finite_result():
    for fields in ({"eta": 1e50}, {"start": sp.OrderParameters(m=np.eye(2), r=np.eye(2), v=1e50)}):
        result = sl.simulate(sp.Flow(FLIPPING.replace(map="softmax1"), tau_end=1.0, samples=16, **fields))
        assert all(np.isfinite(result[name]).all() for name in result)


def test_an_interrupt_does_not_wait_for_the_flows_that_run(monkeypatch):
    """The second flow of two would take minutes; the first is interrupted."""
    began, ended, sentences = threading.Event(), threading.Event(), []

    def simulate(spec):
        if spec.seed == 0:
            began.wait(10.0)
            raise KeyboardInterrupt
        began.set()
        sentences.append(sl.simulate(spec).status.sentence)
        ended.set()

    monkeypatch.setattr(flow_module, "simulate", simulate)
    long = {"tau_end": 1e5, "solver": "RK45", "samples": 2**10, "points": 2}
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sp.flow_many([sp.Flow(FLIPPING, seed=seed, **long) for seed in range(4)], jobs=2)
    assert time.monotonic() - start < 5.0
    assert ended.wait(5.0)
    assert "stopped from outside" in sentences[0]
