"""Our own figures: log D and its slope, escape rates, several minima, batch noise, priors of one's own."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.papers.specialization.figures.batch import Batch
from softmaxlab.papers.specialization.figures.bistable import BRANCHES, EDGES, Bistable
from softmaxlab.papers.specialization.figures.escape import Escape
from softmaxlab.papers.specialization.figures.logd import LogD, crossing
from softmaxlab.papers.specialization.figures.priors import Priors, Ring

SLOPE = 0.1  # few samples change the rates of the path and of each flow by 3 %
RATE = 0.1  # of 2^12 base points, at the weakest feature
SAMPLED = 0.012  # few samples: a trained loss is that much above the one of many


@pytest.fixture(scope="module")
def log_d():
    sgd = {"sgd_dims": (300,), "sgd_runs": 1, "sgd_tau_end": 110.0}
    return sl.simulate(LogD(dims=(10**4, 10**6, 10**8), runs=2, lr=0.2, samples=2**11, **sgd))


def test_the_time_grows_like_log_d_with_the_predicted_slope(log_d):
    slope, predicted = float(log_d["slope"]), float(log_d["predicted_slope"])
    assert abs(slope / predicted - 1) < SLOPE
    assert np.log(100) * slope == pytest.approx(31, rel=SLOPE)
    steps = np.diff(log_d["tau_s"].mean(axis=1))
    np.testing.assert_allclose(steps / steps.mean(), 1.0, atol=SLOPE)  # linear: as many decades, as much time
    # the rate at the origin, .144, would give another slope
    assert abs(slope * 2 * 0.144 - 1) > 3 * SLOPE


def test_sgd_takes_the_flow_s_time(log_d):
    assert log_d["sgd_tau_s"].shape == (1, 1)
    expected = log_d["tau_s"][0].mean() - float(log_d["slope"]) * np.log(1e4 / 300)
    assert abs(float(log_d["sgd_tau_s"][0, 0]) - expected) < 40  # starts differ by 15 (standard deviation)


def test_a_level_that_is_not_reached_is_nan():
    result = sl.Result({"tau": [0.0, 1.0], "m": np.zeros((2, 2, 2))}, {"tau": ("tau",)} | {"m": ("tau", "h", "f")})
    assert np.isnan(crossing(result, 0.5))


@pytest.fixture(scope="module")
def escape():
    return sl.simulate(Escape(samples=2**12))


def test_features_grow_at_the_predicted_rates(escape):
    np.testing.assert_allclose(escape["measured"] / escape["predicted"], 1.0, atol=RATE)
    # proportional to the variance, so a rate alike for all features is far away
    np.testing.assert_allclose(escape["predicted"][:, 0] / escape["predicted"][:, -1], 20.0)


def test_along_the_path_the_rate_is_half_that_of_the_origin(escape):
    assert float(escape["rate_at_origin"]) == pytest.approx(0.144, abs=0.001)
    middle = (escape["tau"] > 10) & (escape["tau"] < 100)
    assert escape["rate"][middle].min() > 0.06
    assert escape["rate"][middle].max() < 0.09
    np.testing.assert_allclose(escape["rate_measured"][middle], escape["rate"][middle], rtol=RATE)


def test_one_run_finds_a_minimum_and_the_branches_are_named():
    result = sl.simulate(Bistable(starts=1, sample_sets=2, samples=2**10, tau_end=5000.0))
    assert result["branch"].shape == (1, 2)
    np.testing.assert_array_equal(result["branch"], np.searchsorted(EDGES, result["loss"][:, :, -1]))
    assert result["fraction"].sum() == pytest.approx(1.0)
    assert result["fraction"][2] > 0  # this start stays above on the first samples
    upper = result["m"][result["branch"] == 2][0]
    assert ((upper < -1).sum(axis=1) == 1).all()  # each head shuns one feature
    assert ((upper > 1).sum(axis=1) == 3).all()
    figure = Bistable.draw(result)
    assert all(ax.get_xlabel() and ax.get_title() for ax in figure.axes)
    assert any(f"{name}: " in ax.get_title() for name, *_ in BRANCHES for ax in figure.axes)


def test_sgd_follows_the_flow_with_batch_noise_and_not_the_one_without():
    result = sl.simulate(Batch(dim=2000, batches=(40,), tau_end=8.0, samples=2**9))
    assert float(result["batch_noise"][0]) == 1.0
    end, kept, left_out = result["q_sgd"][0, -1], result["q_noise"][0, -1], result["q_flow"][-1]
    assert abs(end - kept) < 0.2 * abs(end - left_out)
    assert kept > left_out + 0.05
    figure = Batch.draw(result)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)


@pytest.fixture(scope="module")
def priors():
    return sl.simulate(Priors(heads=(1, 4), tau_end=250.0, samples=2**13))


def test_bayes_softmax_reaches_the_bayes_risk_of_a_prior_of_one_s_own(priors):
    bayes = float(priors["bayes"][0])
    assert float(priors["exact_loss"]) == pytest.approx(bayes, abs=0.002)  # two estimates of the same number
    assert abs(float(priors["trained_loss"]) - bayes) < SAMPLED
    softmax, softmax1, _ = priors["loss"][0, :, -1]
    assert min(softmax, softmax1) > bayes + 0.1
    gaps = np.linalg.norm(priors["m"][-1][:, None] - priors["points"], axis=-1)
    assert (gaps.min(axis=0) < 1.0).all()  # a head near each point
    assert len(set(gaps.argmin(axis=1))) == 4


def test_the_ring_comes_close_with_four_heads(priors):
    risk = float(priors["bayes"][1])
    one, four = priors["loss"][1, 2]
    assert one - risk > 0.5 > 0.05 > four - risk > 0


def test_the_ring_and_the_points_are_checked():
    theta = Ring(radius=2.0).theta(np.random.default_rng(0).random((5, 2)))
    np.testing.assert_allclose(np.linalg.norm(theta, axis=1), 2.0)
    with pytest.raises(SpecError, match="sum to 1"):
        Priors(probabilities=[0.4, 0.3, 0.2, 0.2])
    with pytest.raises(SpecError, match="to be drawn"):
        Priors(points=np.eye(4), probabilities=np.full(4, 0.25))


def test_drawn_with_labels(log_d, escape, priors):
    for spec, result in ((LogD, log_d), (Escape, escape), (Priors, priors)):
        figure = spec.draw(result)
        assert all(ax.get_xlabel() and ax.get_ylabel() and ax.get_title() for ax in figure.axes)
        assert spec.title in figure.get_suptitle()
