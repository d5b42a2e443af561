"""Figures 4, 19 and 20: features one after the other, strongest first; even splits; signs of the heads."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.papers.specialization.figures.fig04 import Fig04
from softmaxlab.papers.specialization.figures.fig19 import Fig19
from softmaxlab.papers.specialization.figures.fig20 import Fig20
from softmaxlab.papers.specialization.head_paths import sign_patterns

LEARNT = 0.5  # |m_hf| of a head that has learnt a feature; noise of the samples and of the start is below 0.2
SMALL = {"samples": 2**9, "tau_end": 200.0, "points": 41, "rest": False}


@pytest.fixture(scope="module")
def fig04():
    return sl.simulate(Fig04(**SMALL))


@pytest.fixture(scope="module")
def fig20():
    return sl.simulate(Fig20(runs=2, **SMALL))


def learnt_at(tau, m):
    """When the first head learns each feature; infinity if none does."""
    learnt = (np.abs(m) > LEARNT).any(axis=1)
    return np.where(learnt.any(axis=0), tau[learnt.argmax(axis=0)], np.inf)


def test_features_are_learnt_from_the_strongest_on(fig04):
    np.testing.assert_array_equal(fig04["nu"], [20.0, 10.5, 1.0])
    for tau, m in zip(fig04["tau"][:, 0], fig04["m"][:, 0]):
        first, second, third = learnt_at(tau, m)
        assert first < second < third == np.inf  # ν = 1 takes τ ~ 1e4 for softmax


def test_a_stronger_last_feature_would_be_learnt_first():
    """The order is that of the strengths, not of the indices."""
    turned = sl.simulate(Fig04(nu=(1.0, 20.0), **SMALL, maps=("softmax",)))
    first, second, third = learnt_at(turned["tau"][0, 0], turned["m"][0, 0])
    assert third < second < first == np.inf


def test_heads_split_evenly_in_the_first_feature(fig20):
    for m in fig20["m"][0]:
        assert abs(np.sign(m[-1, :, 0]).sum()) <= 2
        np.testing.assert_allclose(m[-1].mean(axis=0)[0], 0.0, atol=0.3)
        assert np.abs(m[-1, :, 0]).max() > 3 * abs(m[-1, :, 0].mean())


def test_bayes_softmax_uses_few_heads_and_softmax_all(fig04):
    sizes = np.linalg.norm(fig04["m"][:, 0, -1], axis=-1)
    assert (sizes[0] > 1).all()  # softmax
    assert (sizes[1] > 1).sum() <= 6  # Bayes-softmax: pairs ±s_1, ±s_2, and the rest not in use yet
    assert fig04["loss"][1, 0, -1] < fig04["loss"][0, 0, -1] - 0.2


def test_runs_have_starts_of_their_own(fig20):
    one, other = fig20["m"][0, :, 0]
    assert np.abs(one - other).max() > 1e-3


def test_noise_has_no_sign():
    m = np.array([[1.0, -2.0], [-1.0, 3.0], [2.0, -0.1], [-2.0, -0.1]])
    assert sign_patterns(m) == 2
    assert sign_patterns(m * [1.0, 100.0]) == 2
    assert sign_patterns(np.sign(m)) == 3
    assert sign_patterns(m * [1.0, 0.01]) == 0  # the second feature is not learnt


def test_what_is_not_at_rest_is_told(fig04):
    assert (fig04["certificate"] == "moving").all()
    titles = [ax.get_title() for ax in Fig04.draw(fig04).axes]
    assert sum("(moving)" in title for title in titles) == 2


def test_softmax_is_followed_to_rest_and_each_run_has_its_own_times():
    easy = {"nu": (6.0, 2.0), "features": 2, "heads": 2, "samples": 2**10, "tau_end": 40.0, "points": 10}
    result = sl.simulate(Fig04(**easy))
    assert result["certificate"][:, 0].tolist()[0] == "minimum"
    softmax, bayes = (tau[np.isfinite(tau)] for tau in result["tau"][:, 0])
    assert softmax[-1] > bayes[-1] == 40.0
    np.testing.assert_array_equal(np.isfinite(result["m"][1, 0]).all(axis=(1, 2)), np.isfinite(result["tau"][1, 0]))
    assert "(minimum)" in Fig04.draw(result).axes[1].get_title()


def test_drawn_with_labels(fig04, fig20):
    for figure in (Fig04.draw(fig04), Fig20.draw(fig20), Fig19.draw(fig20)):
        assert "flow" in figure.get_suptitle()
        assert all(ax.get_title() or ax.get_xlabel() for ax in figure.axes)
        assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)
    titles = [ax.get_title() for ax in Fig04.draw(fig04).axes]
    assert any("of 8 combinations of signs" in title for title in titles)
