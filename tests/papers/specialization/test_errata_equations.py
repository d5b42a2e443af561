"""Errata in equations and proofs of the specialization paper (docs/errata.md); those in (25) to (70) are tested in
tests/specialization/landscape/test_errata.py."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from softmaxlab.papers.specialization.claim_flows import LOPSIDED
from softmaxlab.papers.specialization.claims import bayes as claims_bayes
from softmaxlab.papers.specialization.claims import phases as claims_phases
from softmaxlab.specialization import Discrete, FlippingSpike, Gaussian, OrderParameters, SingleLocation
from softmaxlab.specialization.bayes import log_weight, posterior
from softmaxlab.specialization.heads import forward
from softmaxlab.specialization.landscape import cubature, escape_rates
from softmaxlab.specialization.sampling import plain

CERTAIN = 5.0  # standard errors
ROUNDING = 1e-12
CUBATURE = 1e-4  # error of eight nodes away from m = r = 0
NOT_ORTHOGONAL = np.array([[1.0, 0.5], [0.5, 1.2]])


def test_01_bias_of_bayes_softmax():
    """b_h = log P − |θ|²/2 gives the posterior sample by sample; −|θ|² log P/2 does only where all b_h are equal."""
    theta, P = claims_bayes.UNEVEN.atoms()
    X = plain(SingleLocation(prior=claims_bayes.UNEVEN, length=4, heads=3), 500, 0).X[:2]
    norm, chi = (theta**2).sum(axis=1), np.tensordot(theta, X, axes=1)
    right, printed = (forward("bayes_softmax", chi, b, 1.0).w for b in (np.log(P) - norm / 2, -norm * np.log(P) / 2))
    assert_allclose(right, posterior(claims_bayes.UNEVEN, X), atol=ROUNDING)
    assert np.abs(printed - right).max() > 0.5
    even = FlippingSpike(nu=(2.0, 2.0))
    theta, P = even.atoms()
    w = forward("bayes_softmax", np.tensordot(theta, X, axes=1), -(theta**2).sum(axis=1) * np.log(P) / 2, 1.0).w
    assert_allclose(w, posterior(even, X), atol=ROUNDING)


def test_02_symmetric_r_is_another_flow():
    """dq⊥/dτ is the same for every root r of q⊥ if r is free, and is not what the symmetric part of ∇_r gives."""
    model = SingleLocation(prior=Discrete(points=np.array([[1.5]])), length=2, heads=2)
    rule, m = cubature(model, 8, orthogonal=True), torch.tensor([[1.5], [-0.5]], dtype=torch.float64)
    q = np.array([[2.0, 0.3], [0.3, 0.1]])
    values, vectors = np.linalg.eigh(q)
    roots = vectors * np.sqrt(values) @ vectors.T, np.linalg.cholesky(q)
    free = [_velocity_of_q(rule, m, r) for r in roots]
    assert_allclose(free[0], free[1], atol=CUBATURE)
    kept = _velocity_of_q(rule, m, roots[0], symmetric=True)
    assert np.abs(kept - free[0]).max() > 100 * CUBATURE


def _velocity_of_q(rule, m, r, symmetric=False):
    at = torch.tensor(r, requires_grad=True)
    (slope,) = torch.autograd.grad(rule.loss(m, at), at)
    slope = slope.numpy()
    slope = (slope + slope.T) / 2 if symmetric else slope
    return -(slope @ r.T + r @ slope.T)


def test_03_equation_11_needs_m_hat_unless_spikes_are_orthogonal():
    """Noise tokens' scores have covariance q: m̂m̂ᵀ + rrᵀ is q, mmᵀ + rrᵀ is not; the mean m̂L_pᵀθ is mθ in both."""
    order = OrderParameters.from_q([[1.0, 0.4], [0.2, -0.8]], [[3.0, 0.1], [0.1, 2.0]], p=NOT_ORTHOGONAL)
    noise = order.r @ order.r.T
    assert_allclose(order.m_hat @ order.m_hat.T + noise, order.q, atol=ROUNDING)
    assert_allclose(order.m_hat @ order.L_p.T, order.m, atol=ROUNDING)
    assert np.abs(order.m @ order.m.T + noise - order.q).max() > 0.1


def test_03_noise_of_equation_11_has_a_token_index():
    """With ξ_h' in place of ξ_h'l every token's score would move alike, and softmax would not depend on r at all."""
    draw = np.random.default_rng(0)
    chi, r = draw.standard_normal((2, 4, 50)), np.array([[1.0, 0.2], [0.2, 0.7]])
    plain_weights = forward("softmax", chi.copy(), np.zeros(2), 1.0).w
    shared = chi + np.einsum("hk,kn->hn", r, draw.standard_normal((2, 50)))[:, None]
    own = chi + np.einsum("hk,kln->hln", r, draw.standard_normal((2, 4, 50)))
    assert_allclose(forward("softmax", shared, np.zeros(2), 1.0).w, plain_weights, atol=ROUNDING)
    assert np.abs(forward("softmax", own, np.zeros(2), 1.0).w - plain_weights).max() > 0.1


def test_05_heads_leave_the_mean_without_any_noise():
    """III.3: from m = 0, r = I exactly, P⊥m grows to .03 by τ = 5 for a lopsided prior; for the flipping spike not."""
    assert claims_phases._across(claims_phases.FIG1.replace(prior=LOPSIDED)) > 0.02
    assert claims_phases._across(claims_phases.FIG1) < ROUNDING


def test_15_largest_variance_has_the_most_negative_eigenvalue():
    """Section III.1 prints “smaller negative eigenvalues”."""
    found = escape_rates(SingleLocation(prior=Gaussian(F=3, nu=(20.0, 1.0)), length=5, heads=8))
    assert (np.diff(found.rates) < 0).all()
    assert (found.rates > 0).all()
    assert_allclose(np.abs(found.directions), np.eye(3), atol=ROUNDING)


@pytest.mark.parametrize("B", [16.0, 64.0])
def test_17_limits_in_the_proof_of_IV_3(B):
    """A head against the signal has σ_ε → 0, not 1/L; softmax-1's aligned head has σ_ε → v = 2, not 1."""
    chi = B * np.random.default_rng(0).standard_normal((2, 5, 20))
    chi[0, 0], chi[1, 0] = B**2, -(B**2)
    softmax = forward("softmax", chi.copy(), np.zeros(2), 1.0).sigma
    assert softmax[1, 0].max() < 1e-6
    one = forward("softmax1", chi.copy(), np.full(2, B**1.5), 2.0).sigma
    assert_allclose(one[0, 0], 2.0, rtol=1e-6)


def test_18_bayes_risk_lacks_one_over_D():
    """E|y − ŷ|² is D times the loss that it is compared with."""
    D, N = 200, 4000
    model, draw = SingleLocation(prior=FlippingSpike(), length=4, heads=1), np.random.default_rng(0)
    star = np.linalg.qr(draw.standard_normal((D, 2)))[0].T
    X = draw.standard_normal((N, 4, D))
    X[:, 0] += model.prior.theta(draw.random((N, 2))) @ star
    res = posterior(model.prior, (X @ star.T).T)
    res[0] -= 1
    printed = (np.einsum("ln,nld->nd", res, X) ** 2).sum(axis=1)
    risk, _ = model.bayes_risk()
    error = printed.std() / np.sqrt(N) / D
    assert abs(printed.mean() / D - risk) < CERTAIN * error + 2 / D  # F/D: what D → ∞ leaves out
    assert printed.mean() > 100 * risk


def test_19_posterior_at_finite_D_has_theta_p_theta():
    """With |θ|² in place of θᵀpθ, and p ≠ I, the weights are not calibrated and lose more."""
    prior = Discrete(points=np.array([[2.0, 2.0], [2.0, -2.0], [0.5, 0.0]]))
    theta, P = prior.atoms()
    L_p = np.linalg.cholesky(NOT_ORTHOGONAL)
    chi = plain(SingleLocation(prior=prior, length=5, heads=1), 40_000, 0, NOT_ORTHOGONAL).X[:2]
    scores = np.tensordot(theta @ L_p, chi, axes=1) + (np.log(P) - (theta**2).sum(axis=1) / 2)[:, None, None]
    printed = np.log(np.exp(scores).sum(axis=0))
    right, wrong = (claims_bayes._weights(score) for score in (log_weight(prior, chi, L_p), printed))
    z = [abs(gap.mean()) / gap.std() * np.sqrt(gap.size) for gap in (w[0] - (w**2).sum(axis=0) for w in (right, wrong))]
    assert z[0] < CERTAIN < z[1]
    more = claims_bayes._loss(wrong) - claims_bayes._loss(right)
    assert more.mean() > CERTAIN * more.std() / np.sqrt(more.size)
