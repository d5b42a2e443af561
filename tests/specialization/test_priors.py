"""Priors: moments against their own samples, bad ones refused in one line, a prior of one's own."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.core.spec import from_json
from softmaxlab.errors import SpecError
from softmaxlab.specialization.quasi_random import uniforms

sp = sl.specialization
SOBOL = 5e-3  # error of a variance over 2^14 quasi-random values; independent ones give 0.1 at variance 10
PRIORS = [
    sp.FlippingSpike(nu=(2.0, 3.0)),
    sp.OneHotSpikes(F=3, nu=4.0),
    sp.Gaussian(F=3, nu=(3.0, 1.0)),
    sp.Gaussian(covariance=[[2.0, 1.0], [1.0, 2.0]]),
    sp.Discrete([[2.0, 1.0], [1.0, -1.0]], [0.25, 0.75]),
    sp.Discrete([[2.0, 1.0], [1.0, -1.0], [0.0, 0.5]]),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_moments_are_those_of_theta(prior):
    theta = prior.theta(uniforms(prior.features, 14, seed=1))
    mean, covariance = prior.moments()
    np.testing.assert_allclose(theta.mean(axis=0), mean, atol=SOBOL)
    np.testing.assert_allclose(np.cov(theta.T), covariance, atol=SOBOL)


def test_the_priors_of_the_paper():
    theta, P = sp.FlippingSpike(nu=(4.0, 9.0)).atoms()
    np.testing.assert_allclose(theta, [[2.0, 3.0], [2.0, -3.0]])
    np.testing.assert_allclose(P, 0.5)
    theta, P = sp.OneHotSpikes(F=5, nu=9.0).atoms()
    np.testing.assert_allclose(theta, 3 * np.eye(5))
    np.testing.assert_allclose(P, 0.2)
    np.testing.assert_allclose(sp.Gaussian(F=3, nu=(20.0, 1.0)).matrix(), np.diag([20.0, 10.5, 1.0]))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sp.FlippingSpike(nu=(-1.0, 2.0)), "nu"),
        (lambda: sp.OneHotSpikes(F=0), "F"),
        (lambda: sp.OneHotSpikes(F=3, nu=0.0), "nu"),
        (lambda: sp.Gaussian(F=3), "needs F and nu"),
        (lambda: sp.Gaussian(F=2, nu=(1.0, 1.0), covariance=np.eye(2)), "needs F and nu"),
        (lambda: sp.Gaussian(covariance=[[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
        (lambda: sp.Gaussian(covariance=[[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: sp.Gaussian(covariance=[1.0, 2.0]), "square"),
        (lambda: sp.Discrete([[1.0], [2.0]], [0.5, 0.6]), "sum to 1, got 1.1"),
        (lambda: sp.Discrete([[1.0], [2.0]], [1.5, -0.5]), "positive"),
        (lambda: sp.Discrete([[1.0], [2.0]], [1.0]), "one for each"),
        (lambda: sp.Discrete([1.0, 2.0]), "atom, feature"),
        (lambda: sp.Sampled("gausian", F=2), "unknown prior"),
        (lambda: sp.FlippingSpike(nu=(1e308, 1.0)), "nu"),
        (lambda: sp.Gaussian(F=2, nu=(1e308, 1.0)), "nu"),
        (
            lambda: sp.Gaussian(covariance=np.eye(2) * 1e200),
            "covariance must hold numbers up to 1e\\+100",
        ),
        (lambda: sp.Discrete([[1e200, 0.0]]), "points must hold numbers up to 1e\\+50, got 1e\\+200"),
    ],
)
def test_a_bad_prior_is_refused_in_one_line(build, message):
    with pytest.raises(SpecError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_a_prior_of_ones_own():
    @sp.register(name="ring_in_a_test")
    def ring(u, radius=2.0):
        angle = 2 * np.pi * u[:, 0]
        return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    prior = sp.Sampled("ring_in_a_test", F=2)
    mean, covariance = prior.moments()
    np.testing.assert_allclose(mean, 0, atol=SOBOL)
    np.testing.assert_allclose(covariance, 2 * np.eye(2), atol=SOBOL)
    assert prior.atoms() is None
    np.testing.assert_allclose(sp.Sampled("ring_in_a_test:4", F=2).moments()[1], 8 * np.eye(2), atol=4 * SOBOL)

    @sp.register(name="too_short_in_a_test")
    def too_short(u):
        return u[:, :1]

    with pytest.raises(SpecError, match="shape of u"):
        sp.Sampled("too_short_in_a_test", F=2)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_priors_survive_json(prior):
    flow = sp.Flow(sp.SingleLocation(prior, length=3, heads=2))
    assert from_json(flow.json_text()) == flow


@pytest.mark.parametrize("prior", [sp.OneHotSpikes(F=2, nu=1e100), sp.Gaussian(F=2, nu=(1e100, 1e100))])
def test_the_strongest_signals_have_a_finite_risk(prior):
    risk, error = sp.SingleLocation(prior, length=3, heads=2).bayes_risk(samples=64)
    assert risk == pytest.approx(0.0, abs=1e-12)
    assert error == pytest.approx(0.0, abs=1e-12)


class TwoAtomsInATest(sp.Prior):
    """Gives atoms, and nothing else."""

    def atoms(self):
        return np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0.25, 0.75])


class WideInATest(sp.Prior):
    """θ of the wrong shape."""

    @property
    def features(self):
        return 2

    def theta(self, u):
        return np.hstack([u, u])


class BrokenInATest(WideInATest):
    def theta(self, u):
        return u @ np.ones(3)


class RareNanInATest(WideInATest):
    def theta(self, u):
        return np.where(u > 0.9999, np.nan, u)


def test_atoms_are_enough_for_a_prior_of_ones_own():
    prior = TwoAtomsInATest()
    assert prior.features == 2
    np.testing.assert_allclose(prior.moments()[0], [0.25, 1.5])
    model = sp.SingleLocation(prior, length=3, heads=2)
    assert sl.simulate(sp.SGD(model, dim=30, batch=4, tau_end=0.1)).status.ok
    same = sp.SingleLocation(sp.Discrete(*prior.atoms()), length=3, heads=2)
    assert model.bayes_risk(samples=64) == same.bayes_risk(samples=64)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (sp.Prior(), "Prior cannot be used: NotImplementedError: Prior gives neither `features` nor `atoms`"),
        (WideInATest(), "WideInATest must give θ of the shape of u"),
        (BrokenInATest(), "BrokenInATest cannot be used: ValueError"),
        (RareNanInATest(), "RareNanInATest must give finite θ"),
    ],
)
def test_a_prior_that_gives_no_theta_is_refused_by_the_model(prior, message):
    with pytest.raises(SpecError, match=message) as caught:
        sp.SingleLocation(prior, length=3, heads=2)
    assert "\n" not in str(caught.value)
