"""Costs of specs, known before any work: too large is refused with the number, long is said, times are estimated."""

import logging
import time

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.core import cost
from softmaxlab.core.cost import Cost, check_cost, machine_memory

FACTOR = 30.0  # between an estimate and the processor time of a run: it tells minutes from days, on any machine
LARGE = 2.0**60


def problem(p: int) -> dict:
    draw = np.random.default_rng(0)
    return {"loss": "logistic", "beta": draw.normal(size=p), "V": 0.1 * draw.normal(size=(p, p)), "a": np.zeros(p)}


def model(F: int = 2, **changes):
    prior = sl.specialization.OneHotSpikes(F=F, nu=5.0)
    return sl.specialization.SingleLocation(prior=prior, **({"length": 4, "heads": 2} | changes))


TASK = sl.training.Induction(vocab=20, tokens=6, train=2000, evaluate=50)
RUNS = {
    "reduced": sl.polarization.Descent(**problem(16), lr=0.1, steps=2_000_000),
    "compiled": sl.polarization.Descent(**problem(16), lr=0.1, steps=200_000, optimizer="adam"),
    "plain": sl.polarization.Descent(**problem(8), lr=0.1, steps=3_000, map="sparsemax"),
    "SGD": sl.specialization.SGD(model(), dim=1000, batch=2000, tau_end=2.0),
    "direct": sl.specialization.SGD(model(), dim=500, batch=100, tau_end=0.5, method="direct"),
    "Run": sl.training.Run(task=TASK, width=64, heads=2, epochs=1, measure=()),
}


@pytest.mark.parametrize("name", RUNS)
def test_estimates_of_time_are_of_the_right_size(name):
    spec = RUNS[name]
    sl.simulate(spec.replace(seed=1) if "seed" in type(spec).model_fields else spec.replace(steps=10))  # compiles
    began = time.process_time()
    sl.simulate(spec)
    seconds, estimated = time.process_time() - began, spec.estimate().seconds
    assert seconds / FACTOR < estimated < seconds * FACTOR


@pytest.mark.parametrize(
    "spec",
    [
        sl.polarization.Flow(**problem(400), t_end=1e3, points=1_000_000),
        sl.specialization.SGD(model(), dim=10**15, batch=1, method="direct"),
        sl.specialization.Flow(model(heads=1000, length=10_000), samples=2**24),
        sl.training.Run(task=sl.training.Induction(vocab=10**6, tokens=10_000, train=10**8)),
        sl.training.Run(task=TASK, width=10**6, heads=1, layers=100),
    ],
    ids=lambda spec: spec.kind,
)
def test_what_does_not_fit_is_refused_with_the_number_before_any_work(spec, tmp_path):
    assert spec.estimate().memory > machine_memory()
    with pytest.raises(sl.SpecError, match=r"needs about \S+ GiB of memory, this machine has \S+ GiB"):
        sl.simulate(spec, store=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_every_preset_of_every_sweep_fits():
    from softmaxlab.training.presets import PRESETS, preset

    for task, presets in PRESETS.items():
        for name in presets:
            for spec in preset(task, name):
                assert spec.estimate().memory < 4 * 2**30
                assert spec.estimate().seconds < cost.DAY


class Long(sl.Spec):
    """Takes a week, it says."""

    def estimate(self) -> Cost:
        return Cost(seconds=7 * cost.DAY)

    def _run(self, device: str) -> sl.Result:
        return sl.Result({"x": 1.0}, {})


def test_what_is_long_is_said_and_refused_where_a_limit_is_set(caplog):
    with caplog.at_level(logging.INFO, "softmaxlab"):
        check_cost([Long()])
    assert "a run about 7 days" in caplog.text
    with cost.at_most(cost.DAY), pytest.raises(sl.SpecError, match="would take about 7 days, at most 24 hours"):
        check_cost([Long()])
    check_cost([Long()])


def test_memory_of_this_machine_is_known():
    assert 2**28 < machine_memory() < LARGE
