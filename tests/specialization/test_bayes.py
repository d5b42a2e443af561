"""The Bayes estimator: Bayes' rule with vectors, optimal among weights, and Bayes-softmax with the right parameters."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.specialization import bayes, priors

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
    from softmaxlab.specialization.sampling import symmetric

    drawn = symmetric(model, 2**15, (1, "a test", 0))
    found = bayes.posterior(UNEVEN, drawn.X[:2])[0] @ drawn.weight
    risk, error = model.bayes_risk()
    assert abs(1 - found - risk) < SURE * error + 1e-3


def test_a_continuous_prior_has_no_head_for_each_atom():
    with pytest.raises(SpecError, match="Gaussian has no atoms"):
        sl.specialization.bayes_softmax_parameters(GAUSSIAN)


def test_gaussian_weights_are_the_limit_of_many_atoms():
    theta = GAUSSIAN.theta(priors.uniforms(2, 14, seed=3))
    chi = np.random.default_rng(1).standard_normal((2, 3, 4))
    many = sl.specialization.Discrete(theta)
    np.testing.assert_allclose(bayes.posterior(many, chi), bayes.posterior(GAUSSIAN, chi), atol=2e-3)
