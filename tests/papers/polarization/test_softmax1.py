"""Softmax-1: same winner, total to 1, the limits in strength, and the time for which a shut head stays shut."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.papers.polarization.figures.softmax1 import OPEN, Softmax1, nowhere, shut_bottom

# corrections to the limit of nowhere are of order (p−1)/log Γ: 7/27 at Γ = 1e12
SLOW = 0.3


@pytest.fixture(scope="module")
def result() -> sl.Result:
    return sl.simulate(Softmax1(points=120))


def test_softmax1_polarizes_to_the_same_winner_and_its_total_goes_to_1(result):
    assert result.status.ok
    softmax, softmax1 = result["weights"][:, -1]
    assert softmax.argmax() == softmax1.argmax() == 0
    assert softmax1[0] > 0.9999
    assert 1 - softmax1.sum() < 1e-4
    # both leave the same order of weight to the losers, nowhere counted among them
    left = [1 - softmax[0], 1 - softmax1[0]]
    assert left[0] == pytest.approx(left[1], rel=0.5)


def test_limits_in_strength(result):
    strength, token = result["strength"], result["token_limit"]
    assert result["nowhere_limit"][-1] == pytest.approx(2.0, rel=SLOW)
    late = strength > 1e4
    assert (np.diff(result["nowhere_limit"][late]) > 0).all()
    assert (np.diff(token[late], axis=0) < 0).all()
    # the losers' law is dc/dlogΓ = c (2 − ν − Σc − c), with ν of nowhere: check the slope at 1e6 ... 1e12
    x = np.log(strength[late])
    slope = np.gradient(token[late, 0], x)
    total = result["nowhere_limit"][late] + token[late].sum(axis=1)
    np.testing.assert_allclose(slope[2:-2], (token[late, 0] * (2 - total - token[late, 0]))[2:-2], atol=2e-3)


def test_a_shut_head_falls_to_the_predicted_total_and_opens_at_the_predicted_time(result):
    t = result["shut_t"]
    for total, least, opening in zip(result["total"], result["least_total"], result["opening"]):
        assert total.min() == pytest.approx(least, rel=0.05)
        assert total[-1] > 0.99
        if least < 1e-2:
            opens = t[np.flatnonzero(total < OPEN)[-1] + 1]
            assert opens == pytest.approx(opening, rel=0.5)
    assert result["least_total"][-1] < 1e-3


def test_the_least_total_of_one_token_is_that_of_the_sigmoid():
    """p = 1: a + e^a − u²/(2b) is conserved (elementwise sigmoid), so a + e^a = 1 − c²/2 at u = 0."""
    least, _ = shut_bottom(1, 3.0)
    a = np.log(least / (1 - least))
    assert a + np.exp(a) == pytest.approx(1 - 4.5, rel=1e-12)


def test_nowhere_is_the_rest_and_keeps_its_digits():
    a = np.array([0.3, -1.0, 2.0])
    assert nowhere(a) == pytest.approx(1 / (1 + np.exp(a).sum()), rel=1e-14)
    assert nowhere(np.array([100.0, 0.0])) == pytest.approx(np.exp(-100.0), rel=1e-12)


def test_drawn_panels_are_labelled(result):
    axes = Softmax1.draw(result).axes
    assert len(axes) == 4
    assert all(ax.get_xlabel() and ax.get_ylabel() and ax.get_title() for ax in axes)
