"""Figures 1, 8, 9 and 10 show what they must: the flow describes SGD, and which samples matter."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.papers.specialization.figures.fig01 import Fig01
from softmaxlab.papers.specialization.figures.fig08 import Fig08
from softmaxlab.papers.specialization.figures.fig09 import Fig09
from softmaxlab.papers.specialization.figures.fig10 import Fig10
from softmaxlab.papers.specialization.flow_vs_sgd import first_time, separation
from softmaxlab.plotting import specialization as curves
from softmaxlab.specialization import SGD, FlippingSpike, Flow, OneHotSpikes, SingleLocation

SMALL = {"dim": 2000, "batch": 2000, "lr": 0.05, "tau_end": 10.0, "points": 21, "samples": 2**11}
FINITE_D = 0.1  # m and q fluctuate by about D^{-1/2} = .022; four times that, of the largest of many entries
ROUNDING = 1e-12  # of m through a Cholesky factor of p
PAPER_D, PAPER_D_P_IS_I = 0.025, 0.03  # at D = 1e4, where the same is .01, and p_12 of that size is neglected


@pytest.fixture(scope="module")
def small():
    return sl.simulate(Fig01(**SMALL))


def test_the_flow_describes_sgd(small):
    assert small.status.ok
    assert small["difference_exact_p"][0] < FINITE_D
    assert small["sgd_m"][0, -1, :, 0].min() > 0.5  # the mean of θ is learnt by then, so the test is of something


def test_the_difference_is_that_of_the_curves(small):
    gaps = [np.abs(small[f"exact_p_{name}"] - small[f"sgd_{name}"]).max() for name in ("m", "q")]
    assert small["difference_exact_p"][0] == max(gaps)
    np.testing.assert_allclose(small["exact_p_m"][:, 0], small["sgd_m"][:, 0], atol=ROUNDING)  # one start for all
    np.testing.assert_allclose(small["orthogonal_m"][:, 0], small["sgd_m"][:, 0], atol=ROUNDING)


def test_small_batches_are_not_described(small):
    noisy = sl.simulate(Fig01(**SMALL | {"batch": 20}))  # γD/N_b = 5
    assert noisy["difference_exact_p"][0] > 3 * FINITE_D


@pytest.mark.slow
def test_figure_1_at_the_papers_dimension():
    result = sl.simulate(Fig01(tau_end=20.0, points=21, samples=2**14))
    assert result["difference_exact_p"][0] < PAPER_D
    assert result["difference"][0] < PAPER_D_P_IS_I


def test_the_heads_do_not_separate_at_ten():
    """The paper's τ_s ≈ 10, checked on the flow from the start of SGD at D = 1e4."""
    figure = Fig01(tau_end=150.0, samples=2**11)
    sgd = figure.sgd("softmax").replace(tau_end=0.02, points=2)
    flow = sl.simulate(figure.flow(sgd, sl.simulate(sgd), "exact").replace(tau_end=150.0, record=tuple(range(150))))
    apart = separation(flow["m"])
    assert apart[10] < 0.05 < apart[-1] / 20
    assert 50 < first_time(flow["tau"], apart, apart[-1] / 2) < 110


def test_first_time_and_separation():
    tau = np.array([0.0, 1.0, 2.0])
    assert first_time(tau, np.array([0.0, 0.3, 0.2]), 0.2) == 1.0
    assert np.isnan(first_time(tau, np.zeros(3), 0.2))
    assert separation(np.array([[0.0, -1.0], [5.0, 2.0], [1.0, 0.5]])) == 3.0


@pytest.mark.parametrize("figure", [Fig09, Fig10])
def test_three_maps_in_three_rows(figure):
    result = sl.simulate(figure(**SMALL | {"dim": 500, "batch": 500, "tau_end": 4.0}))
    assert result["sgd_m"].shape == (3, 21, figure().heads, 2)
    assert result["difference_exact_p"].max() < 2 * FINITE_D  # D is a quarter
    picture = figure.draw(result)
    assert len(picture.axes) == 12
    maps, kinds = zip(*(ax.get_title().split(": ") for ax in picture.axes[::4]))
    assert maps == ("softmax", "softmax-1", "Bayes-softmax")
    assert set(kinds) == {"moving at τ = 4"}
    assert all(ax.get_ylabel() for ax in picture.axes)
    assert "D = 500" in picture.get_suptitle()


def test_a_diverging_sgd_is_told_and_drawn():
    result = sl.simulate(Fig01(**SMALL | {"dim": 10**8, "batch": 500}))
    assert not result.status.ok
    assert "sgd: map softmax" in str(result.status)
    assert np.isnan(result["sgd_m"][0, -1]).all()
    assert np.isfinite(result["exact_p_m"]).all()
    assert "diverged" in Fig01.draw(result).get_suptitle()


def test_same_samples_matter_less_the_more_they_are():
    small = {"tau_end": 3.0, "points": 31, "length": 4}
    few, many = (sl.simulate(Fig08(samples=samples, **small)) for samples in (100, 10_000))
    assert (few["difference"][:, 0] == 0).all()  # one start for both
    np.testing.assert_array_equal(few["difference"], (few["m_new"] - few["m_same"])[:, :, 0])
    rms = [np.sqrt(np.square(result["difference"]).mean()) for result in (few, many)]
    assert rms[1] < rms[0] / 3  # a hundred times as many samples: a tenth
    picture = Fig08.draw(few)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in picture.axes)
    assert "100 samples, the paper has 100,000" in picture.get_suptitle()


@pytest.mark.parametrize(("map", "panels"), [("softmax", 5), ("softmax1", 6)])
def test_default_pictures(map, panels):
    model = SingleLocation(prior=OneHotSpikes(F=3, nu=4.0), length=3, heads=2, map=map)
    flow = curves.draw_flow(sl.simulate(Flow(model, tau_end=5.0, points=6, samples=64)))
    sgd = curves.draw_sgd(sl.simulate(SGD(model, dim=50, batch=50, tau_end=1.0, lr=0.1)))
    for picture in (flow, sgd):
        assert len(picture.axes) == panels  # loss, three features, q, and the biases if there are any
        assert all(ax.get_xlabel() and ax.get_ylabel() for ax in picture.axes)
    assert "D = 50" in sgd.get_suptitle()


def test_the_default_picture_tells_a_divergence():
    model = SingleLocation(prior=FlippingSpike(), length=4, heads=2)
    result = sl.simulate(SGD(model, dim=10**8, batch=500, lr=0.05, tau_end=10.0))
    assert not result.status.ok
    assert "diverged" in curves.draw_sgd(result).get_suptitle()
