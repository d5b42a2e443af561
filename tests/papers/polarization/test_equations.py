"""The equations written out, against closed forms; and that claims which use them notice a flow that stands still."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.claim import Verdict
from softmaxlab.papers.polarization import equations, instances
from softmaxlab.papers.polarization.claims import maps as claims_maps
from softmaxlab.papers.polarization.claims import model as claims_model
from softmaxlab.papers.polarization.claims import onehot as claims_onehot
from softmaxlab.papers.polarization.claims import square as claims_square
from softmaxlab.polarization import exact

SOLVED = 1e-10  # scipy at rtol 1e-12 over a few hundred steps


def test_equal_tokens_follow_the_closed_form():
    """p equal tokens keep s = 1/p, and m + e^m grows by bt/p under the logistic loss."""
    p, beta = 4, np.array([2.0, 1.0])
    fields = {"beta": beta, "V": np.outer(beta, np.full(p, 0.3)) / 5, "a": np.zeros(p)}
    a, u = equations.integrated(fields, lambda m: 1 / (1 + np.exp(m)), 1e4)
    assert_allclose(a, 0.0, atol=SOLVED)
    assert_allclose(u, exact.margin_at_fixed_weights(np.array([1e4]), 0.3, 5 / p)[0], rtol=SOLVED)


def test_two_tokens_keep_their_invariant_and_many_small_steps_are_the_flow():
    beta = np.array([1.5])
    fields = {"beta": beta, "V": np.array([[0.4, -0.2]]) / 1.5, "a": np.array([0.3, 0.0])}
    a, u = equations.integrated(fields, lambda m: 1.0, 3.0)

    def kept(a, u):
        return exact.two_token(a[None], u[None, :, None] / 1.5)[0]

    assert kept(a, u) == pytest.approx(kept(fields["a"], beta @ fields["V"]), rel=SOLVED)
    # twice as many steps halve the error of Euler's method
    errors = [np.abs(equations.descended(fields, lambda m: 1.0, 3.0 / n, n)[1] - u).max() for n in (1000, 2000)]
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.01)


def standing_still(spec) -> Result:
    """The run of a broken engine, in which V, a, u and the weights never move."""
    run = simulate(spec)
    still = {
        name: np.repeat(run[name][:1], len(run[name]), axis=0) for name in ("V", "a", "u", "weights") if name in run
    }
    return Result({**run.arrays, **still}, run.axes, run.status, spec=spec)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (claims_square, "lem3.5-reduction"),
        (claims_square, "common-orbit"),
        (claims_model, "logistic-reduction"),
        (claims_maps, "lemD.4-order"),
    ],
)
def test_a_flow_that_stands_still_is_noticed(module, name, monkeypatch):
    claim = next(claim for claim in module.CLAIMS if claim.id == f"polarization/{name}")
    monkeypatch.setattr(module, "finished", standing_still)
    assert claim.judge(claim.subject).verdict is Verdict.FAILS


def test_a_wrong_loss_of_the_plain_flow_is_noticed(monkeypatch):
    claim = next(claim for claim in claims_onehot.CLAIMS if claim.id == "polarization/loss-constant")

    def doubled(spec) -> Result:
        run = instances.finished(spec)
        return Result({**run.arrays, "loss": 2 * run["loss"]}, run.axes, run.status, spec=spec)

    monkeypatch.setattr(claims_onehot, "finished", doubled)
    assert claim.judge(claim.subject).verdict is Verdict.FAILS
