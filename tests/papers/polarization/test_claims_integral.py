"""The mechanism's claims, by formulas of their own: signs of u″, and weights at equal integrals of the gradient."""

import numpy as np
import pytest

from softmaxlab.papers.claim import Verdict, check
from softmaxlab.papers.polarization.claims import integral as claims_integral
from softmaxlab.papers.polarization.claims.integral import CLAIMS, _agreements
from softmaxlab.papers.polarization.instances import finished
from softmaxlab.papers.polarization.problems import along, classification
from softmaxlab.polarization import Flow


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_claim_and_its_control(claim):
    done = check(claim)
    assert done.ok, (done.finding.measured, done.control.measured)


def test_signs_are_those_of_the_written_out_derivatives():
    """d²u_i/dΓ² = b s_i (s_i(u_i − m) − Σ s_j²(u_j − m)), and in t there is −γ(1 − γ) m′ b s_i besides."""
    run = finished(Flow(**classification(8, None), t_end=1e3, points=20))
    for k in (0, 10, 19):
        s, u = run["weights"][k], run["u"][k]
        m = s @ u
        gamma = 1 / (1 + np.exp(m))
        fitness = u - m
        in_strength = s * (s * fitness - (s**2 * fitness).sum())
        growth = gamma * (s @ s + np.square(s * fitness).sum())
        in_time = gamma**2 * in_strength - gamma * (1 - gamma) * growth * s
        expected = [1.0, *(np.mean(np.sign(x) == np.sign(fitness)) for x in (in_time, in_strength))]
        np.testing.assert_allclose(_agreements(run, k), expected)


def test_the_winner_decelerates_in_time_though_it_is_the_fittest():
    """u_0 ~ log t is concave: u″ cannot have the sign of u_0 − ⟨u, s⟩ > 0."""
    run = finished(Flow(**classification(8, None), t_end=1e6, points=60))
    slopes = np.diff(run["u"][:, 0]) / np.diff(run["t"])
    assert (np.diff(slopes[-20:]) < 0).all()
    assert (run["u"][-20:, 0] > (run["u"] * run["weights"]).sum(axis=1)[-20:]).all()


def test_weights_depend_on_the_start_as_well_as_on_the_integral(monkeypatch):
    """Runs from different starts are told apart at equal θ."""
    starts = iter(range(99))
    monkeypatch.setattr(claims_integral, "along", lambda p, seed, norm: along(p, next(starts), norm))
    assert claims_integral.integral_sets_weights("θ").verdict is Verdict.FAILS
