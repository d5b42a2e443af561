"""The Bayes estimator: Bayes' rule with vectors, optimal among weights, and Bayes-softmax with the right parameters."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.specialization import bayes
from softmaxlab.specialization.quasi_random import uniforms
from softmaxlab.specialization.sampling import symmetric

ROUNDING = 1e-12
SURE = 4.0  # standard errors
UNEVEN = sl.specialization.Discrete([[2.0, 1.0], [1.0, -1.0], [-1.5, 0.5]], [0.6, 0.3, 0.1])
GAUSSIAN = sl.specialization.Gaussian(covariance=[[3.0, 1.0], [1.0, 2.0]])


def log_density(X, mean, covariance):
    """Of normal vectors X [token, D]."""
    centred = X - mean
    solved = np.linalg.solve(covariance, centred.T).T
    return -0.5 * ((centred * solved).sum(-1) + np.linalg.slogdet(covariance)[1])


@pytest.mark.parametrize("prior", [UNEVEN, GAUSSIAN])
def test_posterior_is_bayes_rule_with_the_densities_of_the_tokens(prior):
    """Spikes that are not orthogonal, in D = 6: the density of each token with and without the signal."""
    rng = np.random.default_rng(0)
    spikes, X = rng.standard_normal((2, 6)), rng.standard_normal((4, 6))
    noise = log_density(X, np.zeros(6), np.eye(6))
    if prior is GAUSSIAN:
        signal = log_density(X, np.zeros(6), np.eye(6) + spikes.T @ GAUSSIAN.matrix() @ spikes)
    else:
        theta, P = prior.atoms()
        signal = np.logaddexp.reduce([np.log(w) + log_density(X, at @ spikes, np.eye(6)) for at, w in zip(theta, P)])
    expected = np.exp(signal - noise)
    L_p = np.linalg.cholesky(spikes @ spikes.T)
    chi = np.linalg.solve(L_p, spikes @ X.T)  # coordinates in an orthonormal basis of the spikes
    ours = bayes.posterior(prior, chi[..., None], L_p)[:, 0]
    np.testing.assert_allclose(ours, expected / expected.sum(), rtol=1e-10)


def test_a_sampled_prior_gives_the_weights_of_the_discrete_one_it_samples():
    @sl.specialization.register(name="three_points_in_a_test")
    def three_points(u):
        theta, P = UNEVEN.atoms()
        return theta[np.minimum(np.searchsorted(np.cumsum(P), u[:, 0]), 2)]

    chi = np.random.default_rng(0).standard_normal((2, 4, 5))
    ours = bayes.posterior(sl.specialization.Sampled("three_points_in_a_test", F=2), chi)
    np.testing.assert_allclose(ours, bayes.posterior(UNEVEN, chi), atol=2e-3)  # 1024 points of θ


@pytest.mark.parametrize(
    "prior", [UNEVEN, sl.specialization.FlippingSpike(), sl.specialization.OneHotSpikes(F=3, nu=4.0)]
)
def test_bayes_softmax_with_a_head_for_each_atom_reaches_the_risk(prior):
    order = sl.specialization.bayes_softmax_parameters(prior)
    model = sl.specialization.SingleLocation(prior, length=4, heads=len(order.b), map="bayes_softmax")
    loss, error = model.loss(order.m, order.r, order.b)
    risk, risk_error = model.bayes_risk()
    assert abs(loss - risk) < SURE * np.hypot(error, risk_error)
    worse = model.loss(order.m, order.r, order.b + np.linspace(0, 2, len(order.b)))[0]
    assert worse > risk + SURE * np.hypot(error, risk_error)


def test_the_risk_is_that_of_the_posterior_at_the_relevant_token():
    """For calibrated weights E Σ(w − e)² = 1 − E w_ε: two expressions of one number."""
    model = sl.specialization.SingleLocation(UNEVEN, length=5, heads=1)
    drawn = symmetric(model, 2**15, (1, "a test", 0))
    found = bayes.posterior(UNEVEN, drawn.X[:2])[0] @ drawn.weight
    risk, error = model.bayes_risk()
    assert abs(1 - found - risk) < SURE * error + 1e-3


def test_a_continuous_prior_has_no_head_for_each_atom():
    with pytest.raises(SpecError, match="Gaussian has no atoms"):
        sl.specialization.bayes_softmax_parameters(GAUSSIAN)


def test_gaussian_weights_are_the_limit_of_many_atoms():
    theta = GAUSSIAN.theta(uniforms(2, 14, seed=3))
    chi = np.random.default_rng(1).standard_normal((2, 3, 4))
    many = sl.specialization.Discrete(theta)
    np.testing.assert_allclose(bayes.posterior(many, chi), bayes.posterior(GAUSSIAN, chi), atol=2e-3)


BIAS = 1e-3  # of the risk, from the finite number of θ; measured below 1e-4, and .055 with 16 of them


def test_the_bias_of_a_continuous_prior_is_small(monkeypatch):
    """A Gaussian known by its covariance, and by its values θ(u) only, on the same samples."""
    exact = sl.specialization.SingleLocation(sl.specialization.Gaussian(F=3, nu=(20.0, 20.0)), length=3, heads=1)

    @sl.specialization.register(name="gaussian_in_a_bayes_test")
    def gaussian(u):
        return exact.prior.theta(u)

    sampled = sl.specialization.Sampled("gaussian_in_a_bayes_test", F=3)
    chi = symmetric(exact, 2**10, 0).X[:3]

    def bias():
        best, ours = (bayes.posterior(prior, chi) - np.eye(3)[0][:, None] for prior in (exact.prior, sampled))
        return (ours**2).sum(axis=0).mean() - (best**2).sum(axis=0).mean()

    assert abs(bias()) < BIAS
    monkeypatch.setattr(bayes, "THETA_POINTS", (4, 4))
    assert bias() > 10 * BIAS


def test_the_values_of_a_continuous_prior_are_drawn_once():
    @sl.specialization.register(name="counted_in_a_test")
    def counted(u):
        calls.append(len(u))
        return u

    calls = []
    model = sl.specialization.SingleLocation(sl.specialization.Sampled("counted_in_a_test", F=2), length=3, heads=1)
    model.bayes_risk(samples=2**12)
    assert calls.count(2**10) == 1


def test_scores_in_blocks_add_up(monkeypatch):
    chi = np.random.default_rng(0).standard_normal((2, 4, 50))
    whole = bayes.posterior(UNEVEN, chi)
    monkeypatch.setattr(bayes, "BLOCK", 40)
    np.testing.assert_allclose(bayes.posterior(UNEVEN, chi), whole, rtol=ROUNDING)
