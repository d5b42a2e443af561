"""Escape rates: exact second derivatives, the rates at the origin, and the growth along a path."""

import numpy as np
import pytest

from softmaxlab.errors import SpecError
from softmaxlab.specialization.landscape import cubature, curvature, escape_rates, growth, unspecialised
from softmaxlab.specialization.landscape.escape import curvature_over
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters
from softmaxlab.specialization.population import slope_over
from softmaxlab.specialization.priors import Discrete, FlippingSpike, Gaussian
from softmaxlab.specialization.sampling import Samples, symmetric
from tests.specialization.expansion import second, tensor

EXACT = 1e-12  # rounding of autograd
ERRORS = 5  # standard errors between a quasi-random mean and its limit
RATE = 2e-3  # of rates along the path of Figure 1: those from 2^11 points and 2^13 differ by 7e-4
SAMPLED = 5e-3  # a sampled flow leaves M_u a little, so that splits mix; measured 1.2e-3
MAPS = ("softmax", "softmax1", "bayes_softmax")
FIGURE_1 = SingleLocation(prior=FlippingSpike(nu=(2.0, 2.0)), length=10, heads=2)
SPLIT = np.array([[0.0, 1.0], [0.0, -1.0]]) / np.sqrt(2)  # of two heads along the second feature


@pytest.mark.parametrize("map", MAPS)
def test_second_derivative_is_autograds(map):
    rng = np.random.default_rng(1)
    model = SingleLocation(prior=FlippingSpike(nu=(2.0, 3.0)), length=2, heads=2, map=map)
    rule = cubature(model, 3, orthogonal=True)
    m, r, u = (rng.standard_normal((2, 2)) for _ in range(3))
    order = OrderParameters(m=m, r=r, b=np.array([0.3, -0.6]), v=1.3)
    found = curvature_over(map, order, u, Samples.of(rule.X.numpy(), rule.weight.numpy()))
    expected = second(lambda t: rule.loss(tensor(m) + t * tensor(u), tensor(r), tensor(order.b), 1.3))
    assert found == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("map", MAPS)
def test_rates_at_the_origin_are_minus_the_curvature(map):
    b, v = (0.2, 1.4) if map == "softmax1" else (0.0, 1.0)
    C = np.array([[2.0, 0.7, 0.0], [0.7, 1.0, 0.3], [0.0, 0.3, 1.5]])
    model = SingleLocation(prior=Gaussian(covariance=C), length=2, heads=3, map=map)
    rule = cubature(model, 2)
    found = escape_rates(model, b, v)
    u = np.array([2.0, -1.0, -1.0]) / np.sqrt(6)

    def curved(along):
        return second(lambda t: rule.loss(t * tensor(np.outer(u, along)), None, tensor([b] * 3), v))

    assert [-curved(along) for along in found.directions] == pytest.approx(found.rates, abs=EXACT)
    principal = np.linalg.eigh(C)[1].T[::-1]  # the heads find principal components, the largest first
    assert np.allclose(np.abs((found.directions * principal).sum(axis=1)), 1.0)
    assert (np.diff(found.rates) <= 0).all()


def test_rates_leave_out_the_mean():
    prior = Discrete(points=np.array([[2.0, 1.0, 0.0], [2.0, -1.0, 0.5], [1.0, 0.0, -0.5]]))
    mean, covariance = prior.moments()
    found = escape_rates(SingleLocation(prior=prior, length=4, heads=2))
    assert found.directions.shape == (2, 3)
    assert np.abs(found.directions @ mean).max() < EXACT
    projected = found.directions @ covariance @ found.directions.T
    assert np.abs(projected - np.diag(np.diag(projected))).max() < EXACT


def test_figure_1_at_the_origin():
    assert escape_rates(FIGURE_1).rates == pytest.approx([0.144], abs=EXACT)
    value, error = curvature(FIGURE_1, unspecialised(FIGURE_1, np.zeros(2)), SPLIT, points=2**10)
    assert value == pytest.approx(-0.144, abs=ERRORS * error)
    twice, _ = curvature(FIGURE_1, unspecialised(FIGURE_1, np.zeros(2)), 2 * SPLIT, points=2**10)
    assert twice == pytest.approx(4 * value)


def test_growth_of_a_constant_rate():
    path = [unspecialised(FIGURE_1, np.zeros(2))] * 3
    found = growth(FIGURE_1, np.array([0.0, 1.0, 4.0]), path, 3 * SPLIT, points=2**10)
    assert found.log_factor == pytest.approx(found.rate[0] * found.tau)
    assert found.time(2 * found.rate[0]) == pytest.approx(2.0)
    assert np.isnan(found.time(5 * found.rate[0]))
    assert found.slope(2.0) == pytest.approx(0.5 / found.rate[0])


def unspecialised_path(model, tau, points):
    """(m̃_1, r̃1, r̃2) of softmax heads along the flow on M_u from r = I, E θ along the first feature."""
    from scipy.integrate import solve_ivp

    drawn, F = symmetric(model, points, 0), model.features

    def at(y):
        return unspecialised(model, y[0] * np.eye(F)[0], y[1], y[2])

    def velocity(_, y):
        order = at(y)
        slope = slope_over(model.map, order.K, order.b, order.v, drawn).K
        r, other = slope[:, F:], ~np.eye(model.heads, dtype=bool)
        return -np.array([slope[:, 0].mean(), np.diag(r).mean() - r[other].mean(), r[other].mean()])

    return [at(y) for y in solve_ivp(velocity, (0, tau[-1]), [0, 1, 0], t_eval=tau, rtol=1e-4, atol=1e-6).y.T]


def test_figure_1_along_the_unspecialised_path():
    """The rate falls from .095 at r = I to .067, rises to .081, and predicts + 29.2 in τ from D = 1e4 to 1e6.

    A path of 2^10 points gives 31: too few, and no standard error of the rates tells, because the path is given.
    """
    tau = np.concatenate([np.linspace(0, 10, 11), np.arange(14.0, 101.0, 4.0)])
    found = growth(FIGURE_1, tau, unspecialised_path(FIGURE_1, tau, 2**12), SPLIT, points=2**11)
    late = found.rate[tau >= 10]
    assert late.min() == pytest.approx(0.067, abs=RATE)
    assert late.max() == pytest.approx(0.080, abs=RATE)
    assert found.rate[0] == pytest.approx(0.0953, abs=RATE)
    longer = found.time(0.5 * np.log(1e6)) - found.time(0.5 * np.log(1e4))
    assert longer == pytest.approx(29.2, rel=RATE / late.min())
    assert longer == pytest.approx(found.slope(found.time(0.5 * np.log(1e5))) * np.log(100), rel=0.01)
    # a control: the rate at the origin alone would give 16
    assert np.log(100) / (2 * escape_rates(FIGURE_1).rates[0]) < 17


def test_a_small_split_grows_at_the_rate():
    """The flow itself, started off the manifold by 1e-6, over the path's first unit of time."""
    from scipy.integrate import solve_ivp

    model, drawn, small = FIGURE_1.replace(length=4), symmetric(FIGURE_1.replace(length=4), 2**8, 0), 1e-6
    start = unspecialised(model, np.array([0.3, 0.0]), 0.8, -0.1)

    def velocity(_, y):
        return -slope_over(model.map, y.reshape(2, 4), start.b, 1.0, drawn).K.ravel()

    def path(split):
        first = (start.K + np.hstack([split * SPLIT, np.zeros((2, 2))])).ravel()
        return solve_ivp(velocity, (0, 1), first, t_eval=np.linspace(0, 1, 9), rtol=1e-10, atol=1e-14).y

    off, on = path(small), path(0.0)
    orders = [OrderParameters(m=y.reshape(2, 4)[:, :2], r=y.reshape(2, 4)[:, 2:]) for y in on.T]
    rates = np.array([-curvature_over(model.map, order, SPLIT, drawn) for order in orders])
    predicted = np.trapezoid(rates, dx=1 / 8)
    grown = ((off - on).reshape(2, 4, -1)[:, :2] * SPLIT[:, :, None]).sum(axis=(0, 1))
    assert np.log(grown[-1] / small) == pytest.approx(predicted, rel=SAMPLED)


def test_bad_input_is_named():
    order = unspecialised(FIGURE_1, np.zeros(2))
    with pytest.raises(SpecError, match="direction"):
        curvature(FIGURE_1, order, np.ones(2))
    with pytest.raises(SpecError, match="direction"):
        curvature(FIGURE_1, order, np.zeros((2, 2)))
    with pytest.raises(SpecError, match="tau"):
        growth(FIGURE_1, np.array([1.0, 0.0]), [order, order], SPLIT)
    with pytest.raises(SpecError, match="sigmoid"):
        curvature(FIGURE_1.replace(map="sigmoid"), order, SPLIT)
    other = unspecialised(FIGURE_1.replace(heads=3), np.zeros(2))
    with pytest.raises(SpecError, match=r"m must be \[head, feature\] = \[2, 2\]"):
        curvature(FIGURE_1, other, SPLIT)
    with pytest.raises(SpecError, match=r"m must be \[head, feature\] = \[2, 2\]"):
        growth(FIGURE_1, np.array([0.0, 1.0]), [order, other], SPLIT)
    with pytest.raises(SpecError, match="same spikes' overlaps p"):
        growth(FIGURE_1, np.array([0.0, 1.0]), [order, order.replace(p=2 * np.eye(2))], SPLIT)
    with pytest.raises(SpecError, match="heads must be at least 2 to split, got 1"):
        escape_rates(FIGURE_1.replace(heads=1))
