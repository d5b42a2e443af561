"""What can go wrong with a descent: bad input, runs that leave the finite numbers, kernels that cannot be kept."""

import subprocess
import sys

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.core import jit
from softmaxlab.core.result import Outcome
from softmaxlab.polarization import Descent
from softmaxlab.polarization.descent.compiled.gradient import HUGE
from tests.polarization.descent.test_compiled import difference
from tests.polarization.descent_cases import fields
from tests.polarization.plain_loop import weights

LOGISTIC = fields("logistic", "softmax", "value")
LONG_GROWTH = 1e-9  # rounding grows with the parameters, over a hundred orders of magnitude

# with s fixed the square loss is linear, and V s − β* grows by 1 − lr ‖s‖² = −1.6 or so at each step
DIVERGING = {**fields("square", "sigmoid", "value"), "freeze": "a", "lr": 1.5}


def test_divergence_is_a_status_with_the_step():
    spec = Descent(**DIVERGING, steps=10**4, record=tuple(range(1000)))
    result = sl.simulate(spec)
    s, J = (x[0] for x in weights("sigmoid", spec.a[None]))
    V, step = spec.V, 0
    while np.abs(J.T @ V.T @ (V @ s - spec.beta)).max() < HUGE:  # the gradient in a is the first to be huge
        V, step = V - spec.lr * np.outer(V @ s - spec.beta, s), step + 1
    assert result.status.outcome is Outcome.DIVERGED
    assert f"at step {step}; " in result.status.sentence
    assert "lower lr, now 1.5" in result.status.sentence
    assert result["step"][-1] == step
    assert difference(result["V"][-1], V) < LONG_GROWTH
    assert all(np.isfinite(result[name]).all() for name in result)


def test_a_diverging_run_keeps_what_was_recorded():
    often = sl.simulate(Descent(**DIVERGING, steps=10**4, record=tuple(range(10))))
    seldom = sl.simulate(Descent(**DIVERGING, steps=10**4, record=(3,)))
    assert often.status == seldom.status
    np.testing.assert_array_equal(seldom["step"], [0, 3])
    np.testing.assert_array_equal(seldom["V"], often["V"][[0, 3]])


@pytest.mark.parametrize("map", ["softmax", "sparsemax"])  # compiled and plain
@pytest.mark.parametrize("record", [(), (1,)])
def test_leaving_the_domain_of_the_literal_kl_is_singular(map, record):
    """Class 1 draws the weight to token 1, whose value for class 0 is negative."""
    V = np.array([[1.0, -1.0], [0.0, 50.0]])
    spec = Descent("kl", map=map, target=[0.01, 0.99], V=V, a=[0.2, 0.0], lr=1.0, steps=50, record=record)
    result = sl.simulate(spec)
    assert result.status.outcome is Outcome.SINGULAR
    assert "step 1 has come to a point where V s ≤ 0" in result.status.sentence
    assert result["step"].tolist() == [0]
    assert np.isfinite(result["loss"]).all()


def test_weights_without_a_sum_are_singular():
    """lr λ = 1 takes the only score to 0, where |a|/Σ|a| is 0/0."""
    spec = Descent("logistic", map="abs_norm", beta=[1.0], V=[[0.5]], a=[1.0], lr=0.5, steps=9, weight_decay=2.0)
    result = sl.simulate(spec)
    assert result.status.outcome is Outcome.SINGULAR
    assert "step 1 " in result.status.sentence
    assert result["step"].tolist() == [0]


BAD = [
    ({"lr": 0.0}, "Descent.lr must be greater than 0, got 0.0"),
    ({"lr": float("nan")}, "Descent.lr must be a finite number"),
    ({"steps": 0}, "Descent.steps must be greater than or equal to 1, got 0"),
    ({"steps": 1e3}, "Descent.steps must be"),
    ({"optimizer": "sgd"}, "Descent.optimizer must be 'gd', 'momentum', 'adam' or 'adamw', got 'sgd'"),
    ({"weight_decay": -1.0}, "Descent.weight_decay must be greater than or equal to 0"),
    ({"momentum": 1.0}, "Descent.momentum must be less than 1"),
    ({"betas": (0.9, 1.5)}, "Descent.betas"),
    ({"eps": 0.0}, "Descent.eps must be greater than 0"),
    ({"points": 1}, "Descent.points must be greater than or equal to 2"),
    ({"record": (3, 11)}, "record must list steps from 0 to 10, got 11"),
    ({"stepz": 3}, "unknown field of Descent 'stepz', did you mean 'steps'?"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=lambda value: str(value)[:20])
def test_bad_input_is_said_in_one_line(changes, message):
    with pytest.raises(sl.SpecError) as error:
        Descent(**{**LOGISTIC, "lr": 0.1, "steps": 10, **changes})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


KERNEL = """
from softmaxlab.polarization.descent.compiled.reduced import advance
import numpy as np
advance((0, 3), (0.1, 1.0), 1.0, np.zeros(2), np.ones(2), (np.zeros(2), np.zeros(2)), 3)
print(sum(advance.stats.cache_hits.values()), sum(advance.stats.cache_misses.values()))
"""


def test_kernels_are_kept_from_one_process_to_the_next():
    sl.simulate(Descent(**LOGISTIC, lr=0.1, steps=1))  # compiled by now, here or earlier
    run = subprocess.run([sys.executable, "-c", KERNEL], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "0"]


def test_kernels_compile_where_nothing_can_be_kept(monkeypatch):
    def njit(cache: bool = False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba_njit(**options)

    numba_njit = jit.numba.njit
    monkeypatch.setattr(jit.numba, "njit", njit)

    @jit.entry
    def double(x):
        return 2 * x

    assert double(21) == 42
