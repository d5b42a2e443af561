"""Optimizers: who wins where, the two boundaries of Adam's window, sign descent, and where weight decay stops."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.decay import decay_at, decayed_weight, uniform_decay
from softmaxlab.papers.polarization.figures.optimizers import Cell, Optimizers, just_above
from softmaxlab.polarization import Descent, descend_many

SEEDS = 16
# At a fixed point of descent each step adds its rounding, 1e-16, and pulls back by lr·λ ≥ 1e-3 of the distance.
FIXED_POINT = 1e-11
FIGURE = Optimizers(seeds=SEEDS)


def share_right(lr=1e-3, scale=0.1, eps=1e-8, decay=0.0, beta1=0.9, beta2=0.999, optimizer="adam") -> float:
    """The share of seeds whose winner is argmax u(0), token 0."""
    cell = Cell("grid", optimizer, lr, scale, eps, decay, beta1, beta2)
    runs = descend_many(FIGURE.descent(cell, seed) for seed in range(SEEDS))
    assert all(run.status.ok for run in runs)
    return float(np.mean([run["weights"][-1].argmax() == 0 for run in runs]))


def test_adam_loses_the_order_at_its_usual_setting_and_keeps_it_outside_the_window():
    assert share_right() < 0.1
    assert share_right(scale=1.0) == 1.0
    assert share_right(eps=1e-2) == 1.0
    assert share_right(lr=1e-4) > 0.9
    assert share_right(lr=0.3) > 0.9


@pytest.mark.parametrize("lr", [1e-3, 1e-2])
def test_the_boundaries_scale_with_the_two_memories(lr):
    """Below lr = 0.1 (1−β₂) order is kept, above 0.5 (1−β₂) it is not; and above lr = 2 (1−β₁) it is kept again."""
    assert share_right(lr=lr, beta1=0.0, beta2=1 - lr / 0.1) > 0.9
    assert share_right(lr=lr, beta1=0.0, beta2=1 - lr / 0.5) < 0.2
    assert share_right(lr=lr, beta1=1 - lr / 0.1, beta2=0.999) < 0.2
    assert share_right(lr=lr, beta1=min(1 - lr / 2, 0.999), beta2=0.999) > 0.9


def test_sign_descent_keeps_the_gaps_of_u_and_the_order():
    """β₁ = β₂ = 0: every step is ±lr, so that u_i − u_j never changes and a_0 rises by lr each step."""
    for seed in range(8):
        start = problems.classification(8, seed)
        spec = Descent(**start, lr=1e-2, steps=1000, optimizer="adam", betas=(0.0, 0.0), eps=1e-300, points=20)
        run = sl.simulate(spec)
        gaps = run["u"] - run["u"][:, :1]
        np.testing.assert_allclose(gaps, np.broadcast_to(gaps[0], gaps.shape), atol=1e-11)
        np.testing.assert_allclose(run["a"][:, 0], run["t"], rtol=1e-10)
        assert run["weights"][-1].argmax() == 0
        assert run["weights"][-1].max() > 0.99


@pytest.mark.parametrize("optimizer", ["gd", "momentum"])
def test_gd_and_momentum_keep_theorem_3_2(optimizer):
    for scale in (0.1, 1.0):
        starts = [problems.classification(8, seed) for seed in range(8)]
        starts = [start | {"V": start["V"] * scale / problems.SMALL} for start in starts]
        runs = descend_many(Descent(**s, lr=0.1, steps=5000, optimizer=optimizer, points=50) for s in starts)
        for run in runs:
            assert (np.diff(run["weights"], axis=1) <= 1e-15).all()


@pytest.mark.parametrize(("decay", "weight"), [(1e-3, 0.8885), (1e-2, 0.7894)])
@pytest.mark.parametrize(("optimizer", "lr"), [("gd", 1.0), ("momentum", 0.1)])
def test_weight_decay_stops_at_the_fixed_point(decay, weight, optimizer, lr):
    start = problems.classification(8, 3)
    run = sl.simulate(Descent(**start, lr=lr, steps=100_000, optimizer=optimizer, weight_decay=decay, points=2))
    assert decayed_weight(decay, 1.0, 8) == pytest.approx(weight, abs=1e-4)
    assert run["weights"][-1, 0] == pytest.approx(decayed_weight(decay, 1.0, 8), abs=FIXED_POINT)


def test_adam_stops_there_too_and_adamw_does_not():
    start = problems.classification(8, 3)
    stop = decayed_weight(0.01, 1.0, 8)
    ends = {
        optimizer: sl.simulate(
            Descent(**start, lr=1e-2, steps=10_000, optimizer=optimizer, weight_decay=0.01, points=2)
        )["weights"][-1].max()
        for optimizer in ("adam", "adamw")
    }
    # Adam's steps shrink with its gradient only through eps, so that it hovers about the fixed point
    assert ends["adam"] == pytest.approx(stop, abs=1e-3)
    assert ends["adamw"] > 0.98


def test_uniform_weights_become_stable_at_the_predicted_decay():
    threshold = uniform_decay(1.0, 8)
    start = problems.classification(8, 3)

    def end(decay, u, a):
        V = np.outer(start["beta"], u)
        spec = Descent(**(start | {"V": V, "a": a}), lr=1.0, steps=50_000, weight_decay=decay, points=2)
        return sl.simulate(spec)["weights"][-1].max()

    # the uniform fixed point has m = γ b/(pλ), which is √b at the threshold; beside it by 1e-6
    near_uniform = {"u": 1.0 + 1e-6 * np.arange(8), "a": np.zeros(8)}
    assert end(0.97 * threshold, **near_uniform) == pytest.approx(decayed_weight(0.97 * threshold, 1.0, 8), abs=1e-9)
    assert end(1.03 * threshold, **near_uniform) == pytest.approx(1 / 8, abs=1e-9)
    # above it both are stable: a start that is polarized stays so, on the upper branch, up to the largest decay
    polarized = {"u": [3.0] + [0.3] * 7, "a": np.array([3.0] + [0.0] * 7)}
    assert end(0.05, **polarized) == pytest.approx(decayed_weight(0.05, 1.0, 8), abs=1e-9)
    assert decayed_weight(0.1, 1.0, 8) == 1 / 8
    assert end(0.1, **polarized) == pytest.approx(1 / 8, abs=1e-9)


@pytest.mark.parametrize(("b", "p"), [(1.0, 8), (10.0, 2), (0.1, 30)])
def test_decay_and_weight_are_inverse(b, p):
    # the lower end is left out: there the branch turns, and one decay has two weights
    x = np.linspace(0.9, 0.99, 5)
    for weight, decay in zip(x, decay_at(x, b, p)):
        assert decayed_weight(float(decay), b, p) == pytest.approx(weight, abs=1e-9)


def test_the_survey_has_every_cell_and_draws_labelled_panels():
    spec = Optimizers.preset("quick").replace(seeds=2, lrs=(0.01, 0.1), memories=(10.0, 1000.0), descent_steps=2000)
    result = sl.simulate(spec)
    assert result.status.ok
    table = result.to_pandas()
    assert len(table) == 2 * len(spec.cells())
    assert set(table["optimizer"]) == {"gd", "momentum", "adam", "adamw"}
    assert table[table["optimizer"] == "gd"]["right"].all()
    panels = [ax for ax in Optimizers.draw(result).axes if ax.get_title()]
    assert len(panels) == 8
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in panels)


def test_just_above_is_the_last_token_above_the_mean():
    np.testing.assert_array_equal(just_above(np.array([[3.0, 1.0, 0.0, -1.0], [9.0, 1.0, 1.0, 1.0]])), [1, 0])
