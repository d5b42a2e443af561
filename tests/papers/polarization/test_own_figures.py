"""Our own figures show what they must: one orbit, the asymptotic constant, the phase portraits."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.figures.asymptotics import Asymptotics
from softmaxlab.papers.polarization.figures.orbit import Orbit
from softmaxlab.papers.polarization.figures.phase import Phase, invariant

ON_ORBIT = 1e-10  # local error 1e-12, a few hundred steps
KEPT = 1e-9  # relative drift of the invariant at local error 1e-11, a few hundred steps
SLOPE = 0.01  # the next power of Γ still counts at 1e12, by 0.001 for p = 8


@pytest.fixture(scope="module")
def orbit():
    return sl.simulate(Orbit(compared=6))


def test_both_losses_lie_on_the_orbit(orbit):
    assert orbit["distance"].shape == (2, 6)
    assert orbit["distance"].max() < ON_ORBIT


def test_but_they_differ_in_time_and_square_stops(orbit):
    middle = np.searchsorted(orbit["t"], 1e2)
    assert np.abs(orbit["weights"][0, middle] - orbit["weights"][1, middle]).max() > 0.1
    logistic, square = orbit["strength"]
    assert logistic[-1] > square[-1]
    assert square[-1] - square[-100] < 1e-9 * square[-1]
    assert logistic[-1] - logistic[-100] > 0.1


def test_another_orbit_is_told_apart(orbit):
    spec = Orbit(compared=2)
    start = problems.along(spec.p, spec.seed, spec.norm)
    run = sl.simulate(sl.polarization.Flow(loss="square", **start, t_end=10.0, rtol=spec.rtol))
    other = {**start, "a": start["a"] + 1e-7 * np.eye(spec.p)[0]}
    assert max(spec._distances(start, run)[1]) < ON_ORBIT < 1e-9 < max(spec._distances(other, run)[1])


def test_the_constant_and_its_approach():
    result = sl.simulate(Asymptotics(points=120))
    assert result["strength"][-1] == 1e12
    assert result["log_t"].max() > 0.9e12
    for p, first, last, slope in zip(result["p"], result["first"], result["last"], result["slope"]):
        assert abs(slope + 2 / p) < SLOPE
        # the approach has a factor of order 1; below it the solver's error remains
        assert max(abs(first[-1] - 1), abs(last[-1] - 1)) < 5 * 1e12 ** (-2 / p) + result["error"]
        assert not abs(slope + 1 / p) < SLOPE
    at_1e5 = np.searchsorted(result["strength"], np.log(1e5))
    assert result["worst"][-1, at_1e5] > 0.5  # at t = 1e5 the constant cannot be seen for p = 8


def test_the_constant_is_proportional_to_b():
    result = sl.simulate(Asymptotics(tokens=(3,), norm=3.0, strength_end=1e9, points=60))
    assert abs(result["first"][0, -1] - 1) < 1e-4


@pytest.fixture(scope="module", params=[1.0, 3.0])
def phase(request):
    return sl.simulate(Phase(norm=request.param, starts=4, grid=5))


def test_two_tokens_stay_on_level_sets(phase):
    assert phase["drift"].max() < KEPT
    wrong = invariant(phase["x"], phase["w"], 1.1 * phase["b"])
    assert np.ptp(wrong, axis=1).min() > 1e-3


def test_the_winner_of_two_is_known_from_the_start(phase):
    x, w = phase["x"], phase["w"]
    token_0 = w[:, 0] + 2 * np.sqrt(phase["b"]) * np.sinh(x[:, 0] / 2) > 0
    np.testing.assert_array_equal(x[:, -1] > 0, token_0)
    assert (token_0 != (w[:, 0] > 0)).any()  # not always the larger u(0)


def test_three_tokens_from_u_0_the_largest_weight_wins(phase):
    still, led = phase["weights"]
    np.testing.assert_array_equal(still[:, -1].argmax(axis=1), still[:, 0].argmax(axis=1))
    winners = led[:, -1].argmax(axis=1)
    assert (winners != led[:, 0].argmax(axis=1)).any()
    assert (winners != 0).any()  # a(0) ≠ 0 can overturn the order of u(0)


def test_drawn_with_titles_and_labels():
    specs = (Orbit(compared=2), Asymptotics(tokens=(2, 3), points=50), Phase(starts=2, grid=2))
    for spec in specs:
        figure = spec.draw(sl.simulate(spec))
        assert "flow" in figure.get_suptitle()
        assert all(ax.get_title() for ax in figure.axes)
        assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes if ax.axison)
