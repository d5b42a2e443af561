"""Figures 2, 3 and 11 to 18 show what they must: where heads go in the plane of two spikes, and when."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.papers.specialization.figures.fig02 import Fig02
from softmaxlab.papers.specialization.figures.fig03 import Fig03
from softmaxlab.papers.specialization.figures.fig11 import Fig11, cosine
from softmaxlab.papers.specialization.figures.fig12 import Fig12
from softmaxlab.papers.specialization.figures.fig13 import Fig13
from softmaxlab.papers.specialization.figures.fig14 import Fig14
from softmaxlab.papers.specialization.figures.fig15 import Fig15
from softmaxlab.papers.specialization.figures.fig16 import Fig16
from softmaxlab.papers.specialization.figures.fig17 import Fig17
from softmaxlab.papers.specialization.figures.fig18 import Fig18

FEW = 2**10  # base points: enough for the way that heads go, not for digits
NEAR = 0.2  # a head at a value of θ, |θ| being 1.4 to 3, with so few samples
ALONG = 0.1  # |tan| of the angle to a spike's direction


def reached(tau, values, level):
    return tau[np.argmax(np.abs(values) >= level)]


def spread(m, feature):
    return np.nanmax(m[..., feature], axis=-1) - np.nanmin(m[..., feature], axis=-1)


def test_the_mean_is_learnt_first_then_heads_separate():
    result = sl.simulate(Fig02(heads=(2,), samples=FEW, tau_end=400.0))
    tau, m = result["tau"], result["m"][0]
    learnt = np.argmax(m[:, :, 0].min(axis=1) > 1.0)
    assert tau[learnt] < 30
    assert spread(m, 1)[learnt] < 0.1
    assert m[-1, 0, 1] * m[-1, 1, 1] < 0
    assert spread(m, 1)[-1] > 1.0


def test_with_more_heads_some_diverge_more():
    assert Fig15().heads == (2, 4, 5, 8)
    result = sl.simulate(Fig15(heads=(2, 4, 8), samples=4 * FEW))
    widest = spread(result["m"][:, -1], 1)
    assert widest[0] + 0.5 < min(widest[1:])


@pytest.fixture(scope="module")
def gaussian():
    return sl.simulate(Fig03(samples=2**11))


def test_the_stronger_feature_is_learnt_first(gaussian):
    tau = gaussian["tau"]
    uneven, even = gaussian["m"][0], gaussian["m"][3]
    first, second = (reached(tau, spread(uneven, f), 1.0) for f in (0, 1))
    assert first * 3 < second
    together = [reached(tau, spread(even, f), 1.0) for f in (0, 1)]
    assert max(together) < 1.5 * min(together)


def test_four_heads_learn_all_four_signs(gaussian):
    signs = {tuple(head) for head in np.sign(gaussian["m"][0, -1, :4])}
    assert len(signs) == 4


def test_misplaced_heads_make_excursions(gaussian):
    right = (gaussian["m"][2, :, :, 0] > 0).sum(axis=1)
    early = np.searchsorted(gaussian["tau"], 30.0)
    assert right[early] == 6
    assert right[-1] == 4


@pytest.mark.parametrize(("figure", "map"), [(Fig16, "softmax"), (Fig17, "softmax1"), (Fig18, "bayes_softmax")])
def test_two_heads_take_the_two_signs_of_the_stronger_feature(figure, map):
    assert figure().map == map
    result = sl.simulate(figure(heads=(2,), samples=FEW, tau_end=200.0))
    m = result["m"][1, -1]  # below: ν = (8, 2)
    assert m[0, 0] * m[1, 0] < -1.0
    assert np.abs(m[:, 1] / m[:, 0]).max() < ALONG


def test_bayes_softmax_heads_end_at_the_values_of_theta_and_softmax_heads_do_not():
    grid = {"nu1": (1.0, 3.0), "nu2": (1.0, 3.0), "samples": FEW, "tau_end": 1000.0}
    far = []
    for figure in (Fig14, Fig12):
        result = sl.simulate(figure(**grid))
        ends = np.sort(result["m"][:, -1, :, 1], axis=-1), np.sort(result["signal"][:, :, 1], axis=-1)
        far.append(np.abs(ends[0] - ends[1]).max(axis=-1))
    assert far[0].max() < NEAR
    assert far[1].min() > NEAR


def test_softmax1_reaches_theta_where_the_mean_is_weak():
    """Unlike softmax: the paper finds the two alike."""
    weak = {"nu1": (1.0,), "nu2": (8.0,), "samples": FEW}
    late = [np.abs(sl.simulate(figure(**weak))["m"][0, -1, :, 1]).min() for figure in (Fig13, Fig12)]
    assert abs(late[0] - np.sqrt(8.0)) < NEAR
    assert late[1] < 2.0


def test_cosine():
    q = np.array([[4.0, 3.0], [3.0, 9.0]])
    assert cosine(q) == 0.5
    assert cosine(np.stack([q, -q + 2 * np.diag(np.diag(q))])).tolist() == [0.5, -0.5]


def test_similarity_grows_with_the_constant_direction_and_not_always_falls_with_the_other():
    result = sl.simulate(Fig11(nu1=(1.0, 3.0, 8.0), nu2=(1.0, 4.0, 8.0), samples=2**12))
    similarity = result["cosine"]
    assert (np.diff(similarity, axis=0) > 0).all()
    assert (np.diff(similarity[0]) < -0.2).all()
    assert similarity[1, 2] > similarity[1, 1] + 0.005  # ν1 = 3, from ν2 = 4 to 8: .844 to .860 with 2^15 samples
    picture = Fig11.draw(result)
    assert "rises with $ν_1$ in 100%" in picture.axes[1].get_title()
    assert all(ax.get_ylabel() for ax in picture.axes[:2])


def test_flows_with_too_few_samples_get_more():
    """Two heads on a strong mean, where 2^9 base points are too few."""
    result = sl.simulate(Fig12(nu1=(8.0,), nu2=(3.0,), samples=2**9, points=12))
    few = sl.simulate(Fig12(nu1=(8.0,), nu2=(3.0,), samples=2**9, points=12).panels()[0][1])
    assert few.notes["certificate"]["kind"] in ("undersampled", "saddle")
    assert np.abs(result["m"][0, -1] - few["m"][-1]).max() > 0.01
    if result["certificate"][0] != "minimum":
        assert f"({result['certificate'][0]})" in Fig12.draw(result).axes[0].get_title()


def test_a_picture_of_planes():
    result = sl.simulate(Fig16(heads=(1, 3), samples=64, tau_end=5.0, points=12))
    assert np.isnan(result["m"][0, :, 1:]).all()
    picture = Fig16.draw(result)
    assert len(picture.axes) == 4
    one, three = ([line for line in ax.get_lines() if line.get_marker() == "o"] for ax in picture.axes[:2])
    assert (len(one), len(three)) == (1, 3)  # a dot for each head that is there
    assert picture.axes[2].get_xlabel()
    assert picture.axes[2].get_ylabel()
    assert picture.axes[3].get_title().startswith("H = 3, ν = (8, 2), loss ")
    assert len({ax.get_xlim() for ax in picture.axes}) == 1
    assert "τ = 5" in picture.get_suptitle()


def test_rows_of_strengths_go_upward():
    result = sl.simulate(Fig12(nu1=(1.0, 2.0), nu2=(1.0, 4.0), samples=64, tau_end=2.0, points=12))
    assert [str(name) for name in result["panel"]] == ["ν = (1, 4)", "ν = (2, 4)", "ν = (1, 1)", "ν = (2, 1)"]
    np.testing.assert_allclose(result["signal"][0], [[1.0, 2.0], [1.0, -2.0]])
