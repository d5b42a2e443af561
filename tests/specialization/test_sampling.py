"""Samples: their law, the symmetries they are made for, and that they are worth it."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.specialization import sampling
from softmaxlab.specialization.population import loss_over
from softmaxlab.specialization.sampling import plain, symmetric

sp = sl.specialization
P = np.array([[1.3, 0.4], [0.4, 0.8]])  # spikes that are not orthonormal
ROUNDING = 1e-12
LAW = 0.03  # of first and second moments over 2^13 samples; a wrong θ̂ shifts them by 0.2 and more
UNEVEN = sp.Discrete([[2.0, 1.0], [1.0, -1.0], [0.0, 0.5]], [0.6, 0.3, 0.1])


@sp.register(name="two_values_in_a_sampling_test")
def two_values(u):
    return np.where(u[:, :1] < 0.25, 2.0, -1.0) * np.ones(2)


PRIORS = [
    sp.FlippingSpike(nu=(2.0, 3.0)),
    sp.OneHotSpikes(F=2, nu=4.0),
    sp.Gaussian(covariance=[[2.0, 1.0], [1.0, 2.0]]),
    UNEVEN,
    sp.Sampled("two_values_in_a_sampling_test", F=2),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("draw", [symmetric, plain])
@pytest.mark.parametrize("p", [None, P], ids=["orthonormal", "general"])
def test_first_and_second_moments_are_those_of_the_model(prior, draw, p):
    model = sp.SingleLocation(prior, length=3, heads=2)
    drawn = draw(model, 2**13 if draw is symmetric else 2**17, seed=5, p=p)
    mean, covariance = prior.moments()
    L_p = np.linalg.cholesky(np.eye(2) if p is None else p)
    expected_mean, expected = np.zeros((3, 4)), np.tile(np.eye(4), (3, 1, 1))
    expected_mean[0, :2] = L_p.T @ mean
    expected[0, :2, :2] += L_p.T @ covariance @ L_p
    means = drawn.X @ drawn.weight
    centred = drawn.X - means[..., None]
    np.testing.assert_allclose(drawn.weight.sum(), 1.0, rtol=ROUNDING)
    np.testing.assert_allclose(means.T, expected_mean, atol=LAW)
    for token in range(3):
        found = (centred[:, token] * drawn.weight) @ centred[:, token].T
        np.testing.assert_allclose(found, expected[token], atol=LAW if token else 2 * LAW)
    assert drawn.quasi == (draw is symmetric)


def random_state(model, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((model.heads, model.features + model.heads)), np.zeros(model.heads), 1.0


def transformed(K, F, change):
    return np.hstack([change(K[:, :F]), K[:, F:]])


@pytest.mark.parametrize(
    ("prior", "change"),
    [
        (sp.Gaussian(F=3, nu=(5.0, 1.0)), lambda m: -m),
        (sp.FlippingSpike(), lambda m: m * [1, -1]),
        (sp.OneHotSpikes(F=3, nu=4.0), lambda m: np.roll(m, 1, axis=1)),
    ],
    ids=["Gaussian", "FlippingSpike", "OneHotSpikes"],
)
def test_the_sampled_loss_has_the_symmetry_of_the_prior_to_rounding(prior, change):
    model = sp.SingleLocation(prior, length=4, heads=2)
    K, b, v = random_state(model)
    for drawn, close in ((symmetric(model, 64, seed=1), True), (plain(model, 64, seed=1), False)):
        losses = [loss_over("softmax", k, b, v, drawn) for k in (K, transformed(K, model.features, change))]
        assert (abs(losses[0] - losses[1]) < ROUNDING) == close


def test_symmetric_samples_are_worth_many_plain_ones():
    """Spread of the loss over independent sets of 1024 samples: measured ratio 15."""
    model = sp.SingleLocation(sp.Gaussian(F=2, nu=(5.0, 1.0)), length=4, heads=2)
    K, b, v = random_state(model)
    spread = [
        np.std([loss_over("softmax", K, b, v, draw(model, points, (0, "spread", k))) for k in range(16)])
        for draw, points in ((symmetric, 512), (plain, 1024))
    ]
    assert spread[0] < spread[1] / 4


def test_the_same_seed_gives_the_same_samples_and_sets_are_independent():
    model = sp.SingleLocation(UNEVEN, length=3, heads=1)
    for draw in (symmetric, plain):
        first, again, other = (draw(model, 64, seed).X for seed in ((0, "a", 0), (0, "a", 0), (0, "a", 1)))
        np.testing.assert_array_equal(first, again)
        assert np.abs(first - other).max() > 0.1


def test_points_are_rounded_up_to_a_power_of_two_and_none_is_an_error():
    model = sp.SingleLocation(UNEVEN, length=3, heads=1)
    assert symmetric(model, 65, seed=0).X.shape == (3, 3, 128 * 3)
    with pytest.raises(SpecError, match="at least 1, got 0"):
        symmetric(model, 0, seed=0)


def test_beyond_the_dimensions_of_sobol_the_points_are_random_and_the_result_says_so():
    model = sp.SingleLocation(sp.FlippingSpike(), length=sampling.SOBOL_DIMENSIONS // 4 + 1, heads=2)
    drawn = symmetric(model, 2, seed=0)
    assert not drawn.quasi
    assert np.isfinite(drawn.X).all()
    result = sl.simulate(sp.Flow(model, tau_end=0.1, samples=1, points=2))
    assert "no Sobol points" in result.notes["sampling"]


def test_chunks_hold_all_samples_in_order(monkeypatch):
    monkeypatch.setattr(sampling, "CHUNK", 500)
    drawn = symmetric(sp.SingleLocation(UNEVEN, length=3, heads=1), 64, seed=0)
    assert len(drawn.chunks) > 2
    np.testing.assert_array_equal(np.concatenate([X for X, _ in drawn.chunks], axis=-1), drawn.X)
    np.testing.assert_array_equal(np.concatenate([weight for _, weight in drawn.chunks]), drawn.weight)


def test_default_points_are_2_to_15_samples_with_all_images():
    expected = {sp.OneHotSpikes(F=4): 2**13, sp.Gaussian(F=3, nu=(1.0, 1.0)): 2**14, sp.FlippingSpike(): 2**14}
    assert {prior: sampling.default_points(prior) for prior in expected} == expected


def test_many_atoms_are_chosen_by_a_coordinate_with_the_moments_of_the_prior():
    """Beyond MOST_IMAGES atoms each point has one image, so memory does not grow with their number."""
    points = np.random.default_rng(0).standard_normal((sampling.MOST_IMAGES + 1, 2))
    few, many = (sp.SingleLocation(sp.Discrete(points[:n]), length=3, heads=2) for n in (len(points) - 1, len(points)))
    assert symmetric(few, 64, seed=0).size == 64 * sampling.MOST_IMAGES
    drawn = symmetric(many, 2**12, seed=0, p=P)
    assert drawn.size == 2**12
    L_p = np.linalg.cholesky(P)
    np.testing.assert_allclose((drawn.X @ drawn.weight)[:2, 0], L_p.T @ points.mean(axis=0), atol=LAW)
    expected = np.eye(2) + L_p.T @ many.prior.moments()[1] @ L_p
    np.testing.assert_allclose(np.cov(drawn.X[:2, 0]), expected, atol=2 * LAW)


def test_samples_are_counted_with_their_images():
    """32 one-hot spikes and heads took 6 GB and 23 s when `samples` counted base points."""
    prior = sp.OneHotSpikes(F=32)
    assert sampling.base_points(prior, 2**14) == 2**9
    assert sampling.base_points(prior, 1) == sampling.LEAST_BASE
    assert sampling.base_points(sp.Gaussian(F=2, nu=(1.0, 1.0)), 2**14) == 2**13


def test_samples_beyond_memory_are_refused():
    model = sp.SingleLocation(sp.OneHotSpikes(F=64), length=1000, heads=64)
    for draw in (symmetric, plain):
        with pytest.raises(SpecError, match=r"numbers take .* GB, more than 8"):
            draw(model, 2**15, seed=0)


def test_more_chunks_than_samples_are_not_made(monkeypatch):
    monkeypatch.setattr(sampling, "CHUNK", 5)
    drawn = symmetric(sp.SingleLocation(UNEVEN, length=3, heads=1), 1, seed=0)
    assert [len(weight) for _, weight in drawn.chunks] == [1, 1, 1]
