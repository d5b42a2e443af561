"""Pruning: the three rules against their definitions, redundant heads go first; and the weights on sequences."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.specialization.heads import forward
from softmaxlab.specialization.sampling import plain

lab = sl.specialization
PRIOR = lab.OneHotSpikes(F=2, nu=9.0)
SURE = 5.0  # standard errors


def twice(map):
    """The Bayes heads of two spikes, each twice: two of four heads are redundant."""
    best = lab.bayes_softmax_parameters(PRIOR)
    order = lab.OrderParameters(m=np.repeat(best.m, 2, axis=0), r=np.zeros((4, 4)), b=np.repeat(best.b, 2))
    return lab.SingleLocation(PRIOR, length=4, heads=4, map=map), order


def kept_loss(model, order, kept, rule):
    """The loss of the kept heads over plain samples, from the definitions."""
    drawn = plain(model, 40_000, 7)
    chi = np.tensordot(order.K, drawn.X, axes=1)
    sigma = forward(model.map, chi, order.b, order.v).sigma
    if rule == "renormalise":
        w = forward(model.map, chi[kept], order.b[kept], order.v).w
    elif rule == "count":
        w = sigma[kept].mean(axis=0)
    else:
        w = sigma[kept].sum(axis=0) * sigma.sum(axis=(0, 1)).mean() / sigma[kept].sum(axis=(0, 1)).mean() / len(sigma)
    w[0] -= 1
    losses = (w**2).sum(axis=0)
    return losses.mean(), losses.std() / np.sqrt(len(losses))


@pytest.mark.parametrize("map", ["softmax", "softmax1", "bayes_softmax"])
@pytest.mark.parametrize("rule", ["count", "renormalise", "total"])
def test_losses_are_those_of_the_definition(map, rule):
    model, order = twice(map)
    pruned = sl.simulate(lab.Pruning(model, order, rule))
    for gone in range(4):
        kept = sorted(pruned["order"][gone:].tolist())
        expected, error = kept_loss(model, order, kept, rule)
        assert abs(pruned["loss"][gone] - expected) < SURE * np.hypot(error, pruned["loss_error"][gone])


def test_the_two_redundant_heads_go_first_and_cost_nothing_together():
    model, order = twice("bayes_softmax")
    pruned = sl.simulate(lab.Pruning(model, order))
    assert {h // 2 for h in pruned["order"][:2]} == {0, 1}
    assert pruned["loss"][2] == pytest.approx(pruned["loss"][0], rel=1e-12)
    assert pruned["loss"][1] > pruned["loss"][0]  # with three heads one spike counts twice
    assert pruned["loss"][3] > 2 * pruned["loss"][0]


def test_the_rule_decides_for_bayes_softmax():
    model, order = twice("bayes_softmax")
    by_rule = {rule: sl.simulate(lab.Pruning(model, order, rule))["loss"][1] for rule in ("count", "renormalise")}
    assert by_rule["count"] > by_rule["renormalise"] + 0.01


def test_sequences_show_the_heads_weights_and_the_relevant_token():
    model, order = twice("bayes_softmax")
    seen = sl.simulate(lab.Sequences(model, order, count=500))
    np.testing.assert_allclose(seen["sigma"].mean(axis=1), seen["weights"], atol=1e-15)
    np.testing.assert_allclose(seen["weights"], seen["posterior"], atol=1e-12)  # these heads are the Bayes estimator
    on_it = seen["weights"][np.arange(500), seen["relevant"]]
    risk, error = model.bayes_risk()
    assert abs(1 - on_it.mean() - risk) < SURE * (on_it.std() / np.sqrt(500) + error)  # calibrated weights
    assert set(seen["relevant"]) == {0, 1, 2, 3}


def test_bad_input():
    model, order = twice("softmax")
    with pytest.raises(SpecError, match="rule"):
        lab.Pruning(model, order, rule="renormalize")
    with pytest.raises(SpecError, match="head, feature"):
        lab.Sequences(lab.SingleLocation(PRIOR, length=4, heads=2), order)


def test_heads_without_any_share_are_still_renormalised():
    """Where the heads kept have weights that underflow beside the others': the loss was NaN, and the status done."""
    prior = lab.OneHotSpikes(F=4, nu=700.0)
    best = lab.bayes_softmax_parameters(prior)
    model = lab.SingleLocation(prior, length=4, heads=4, map="bayes_softmax")
    pruned = sl.simulate(lab.Pruning(model, best, samples=256))
    assert pruned["loss"][0] == pytest.approx(0.0, abs=1e-12)
    # the other heads put all weight on one token at random where their spike is not: wrong in 3 of 4 cases, by 2
    expected = [gone / 4 * 2 * 3 / 4 for gone in range(4)]
    np.testing.assert_allclose(pruned["loss"], expected, atol=0.1)


def test_a_total_that_may_vanish_is_refused():
    model = lab.SingleLocation(PRIOR, length=4, heads=4, map="linear")
    with pytest.raises(SpecError, match="rule 'total' keeps a total that may be 0 for map 'linear'"):
        lab.Pruning(model, twice("softmax")[1], rule="total")
    assert lab.Pruning(model, twice("softmax")[1], rule="count")


def test_a_result_stands_for_where_it_ended():
    model = lab.SingleLocation(PRIOR, length=3, heads=2, map="bayes_softmax")
    trained = sl.simulate(lab.Flow(model, tau_end=5.0, points=3, samples=64))
    end = lab.OrderParameters.at(trained)
    assert lab.Pruning(model, trained) == lab.Pruning(model, end)
    assert lab.Sequences(model, trained) == lab.Sequences(model, end)
