"""The exact cubature: what it integrates without error, and what not."""

import numpy as np
import pytest

from softmaxlab.errors import SpecError
from softmaxlab.specialization.landscape import cubature
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.priors import Discrete, FlippingSpike, Gaussian, Sampled, register
from tests.specialization.expansion import derivatives, mixed, tensor

EXACT = 1e-13  # rounding of a sum of some thousand terms below one
CONVERGED = 1e-6  # 8 nodes leave 1e-7 at scores of order one, 3 nodes 1e-4
PRIORS = (
    FlippingSpike(nu=(2.0, 3.0)),
    Gaussian(covariance=np.array([[2.0, 0.7], [0.7, 1.0]])),
    Discrete(points=np.array([[2.0, 1.0], [1.0, -1.0]]), probabilities=np.array([0.3, 0.7])),
)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_points_have_the_moments_of_the_model(prior):
    rule = cubature(SingleLocation(prior=prior, length=2, heads=1), 2, orthogonal=True)
    X, weight = rule.X.numpy(), rule.weight.numpy()
    mean, covariance = prior.moments()
    assert np.allclose(X @ weight, np.c_[[*mean, 0], [0, 0, 0]], atol=EXACT)
    flat = (X - (X @ weight)[..., None]).reshape(6, -1)
    expected = np.eye(6)
    signal = [0, 2]  # features 1 and 2 of the first token
    expected[np.ix_(signal, signal)] += covariance
    assert np.allclose((flat * weight) @ flat.T, expected, atol=EXACT)


def line(model, nodes, order):
    u = np.ones((model.heads, model.features))
    return derivatives(lambda t: cubature(model, nodes).loss(t * tensor(u)), order)[order]


@pytest.mark.parametrize(("order", "enough"), [(1, 1), (2, 2), (3, 2), (4, 3)])
def test_a_derivative_at_the_origin_needs_so_many_nodes_and_no_more(order, enough):
    prior = Discrete(points=np.array([[2.0], [-0.5]]), probabilities=np.array([0.3, 0.7]))
    model = SingleLocation(prior=prior, length=3, heads=2)
    found = line(model, enough, order)
    assert found == pytest.approx(line(model, enough + 1, order), abs=EXACT)
    if order % 2 == 0:
        assert abs(found - line(model, enough - 1, order)) > 1e-3


def test_away_from_the_origin_it_converges_to_the_sampled_loss():
    model = SingleLocation(prior=FlippingSpike(), length=2, heads=2)
    m = np.array([[1.0, 0.5], [0.8, -0.5]])
    few, many, most = (cubature(model, nodes).loss(tensor(m)).item() for nodes in (3, 8, 14))
    assert abs(many - most) < CONVERGED < abs(few - most)
    sampled, error = model.loss(m, np.zeros((2, 2)), samples=2**10)
    assert abs(sampled - most) < 5 * error


def test_fourth_derivatives_do_not_feel_xi_at_r_zero():
    model = SingleLocation(prior=Gaussian(F=1, nu=(2.0, 2.0)), length=2, heads=2, map="bayes_softmax")
    u, w = tensor([[1.0], [0.3]]), tensor([[-0.2], [0.9]])
    zero = tensor(np.zeros((2, 2)))
    without = mixed(lambda s, t: cubature(model, 3).loss(s * u + t * w))
    assert mixed(lambda s, t: cubature(model, 3, True).loss(s * u + t * w, zero)) == pytest.approx(without, abs=EXACT)


@register
def landscape_uniform(u):
    return u


def test_bad_input_is_named():
    model = SingleLocation(prior=FlippingSpike(), length=10, heads=2)
    with pytest.raises(SpecError, match="nodes"):
        cubature(model, 3)
    with pytest.raises(SpecError, match="nodes"):
        cubature(model, 0)
    small = model.replace(length=2)
    with pytest.raises(SpecError, match="orthogonal"):
        cubature(small, 2).loss(tensor(np.zeros((2, 2))), tensor(np.eye(2)))
    with pytest.raises(SpecError, match="Sampled"):
        cubature(small.replace(prior=Sampled(name="landscape_uniform", F=2)), 2)
