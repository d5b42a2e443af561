"""Lemmas A.1 to A.4: the gradient on the unspecialised manifold, in r at r = 0, and of softmax-1's b and v."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.specialization.landscape import (
    conserved_quantity,
    cubature,
    gain_on_curve,
    mean_gradient,
    mean_gradient_at_origin,
    softmax1_gradient,
    unspecialised,
    unspecialised_fixed_point,
)
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.priors import Discrete, FlippingSpike, Gaussian, OneHotSpikes
from tests.specialization.expansion import tensor

EXACT = 1e-13  # rounding of autograd
REFERENCE = json.loads((Path(__file__).parents[2] / "reference" / "specialization.json").read_text())
FIXED_POINT = 1e-9  # the reference was solved to 1e-12
ERRORS = 5  # standard errors between a quasi-random mean and its limit
MAPS = ("softmax", "softmax1", "bayes_softmax")


def gradient(model, order, nodes=3):
    """∇Ẽ in m, r, b, v over a cubature, which has the heads' symmetry though it is not exact away from 0."""
    given = [tensor(x).requires_grad_() for x in (order.m, order.r, order.b, order.v)]
    loss = cubature(model, nodes, orthogonal=True).loss(*given)
    return [g.numpy() for g in torch.autograd.grad(loss, given, allow_unused=True, materialize_grads=True)]


def spread(gradients):
    """How far the gradient points out of M_u: rows of ∇m alike, one diagonal and one other entry of ∇r, ∇b alike."""
    m, r, b, _ = gradients
    other = r[~np.eye(len(r), dtype=bool)]
    return max(float(np.ptp(part, axis=0).max()) for part in (m, np.diag(r), other, b))


@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize("heads", [2, 3])
def test_unspecialised_heads_stay_so(map, heads):
    model = SingleLocation(prior=FlippingSpike(), length=2, heads=heads, map=map)
    order = unspecialised(model, np.array([0.4, -0.3]), 0.7, -0.1, 0.2, 1.3)
    nodes = 3 if heads == 2 else 2
    assert spread(gradient(model, order, nodes)) < EXACT
    moved = order.replace(m=order.m + np.eye(heads, 2))
    assert spread(gradient(model, moved, nodes)) > 1e-3


@pytest.mark.parametrize("map", MAPS)
def test_no_gradient_in_r_at_r_zero(map):
    model = SingleLocation(prior=FlippingSpike(), length=2, heads=2, map=map)
    order = unspecialised(model, np.zeros(2)).replace(m=np.array([[1.0, 0.5], [-0.3, 0.8]]), b=np.array([0.3, -0.1]))
    assert np.abs(gradient(model, order)[1]).max() < EXACT
    assert np.abs(gradient(model, order.replace(r=0.5 * np.eye(2)))[1]).max() > 1e-3


@pytest.mark.parametrize("prior", [FlippingSpike(), OneHotSpikes(F=2, nu=3.0)], ids=["flipping", "one-hot"])
@pytest.mark.parametrize("map", MAPS)
def test_gradient_follows_the_mean(map, prior):
    model = SingleLocation(prior=prior, length=4, heads=2, map=map)
    at_start = mean_gradient(model, x=0.0, r1=1.0, points=2**10)
    assert at_start.c1 > ERRORS * at_start.c1_error
    later = mean_gradient(model, x=0.5, r1=0.8, r2=-0.1, b=0.1, v=1.1, points=2**10)
    assert (np.abs(later.e) < ERRORS * later.e_error + EXACT).all()


def test_mean_gradient_joins_the_closed_form():
    model = SingleLocation(prior=FlippingSpike(), length=4, heads=2, map="softmax1")
    found = mean_gradient(model, x=0.0, r1=0.0, b=0.3, v=1.2, points=2**8)
    assert found.c1 == pytest.approx(mean_gradient_at_origin(model, 0.3, 1.2), abs=ERRORS * found.c1_error + EXACT)
    with pytest.raises(SpecError, match="E θ"):
        mean_gradient(model.replace(prior=Gaussian(F=2, nu=(2.0, 1.0))), x=0.5, r1=0.0)


@pytest.mark.parametrize(("b", "v"), [(0.0, 1.0), (0.7, 0.6), (-1.2, 2.0)])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_softmax1_gradient_in_b_and_v(heads, b, v):
    prior = Discrete(points=np.array([[1.0]]))
    model = SingleLocation(prior=prior, length=4, heads=heads, map="softmax1")
    order = unspecialised(model, np.zeros(1), b=b, v=v)
    _, _, in_b, in_v = gradient(model, order, nodes=1)
    of_b, of_v = softmax1_gradient(heads, 4, b, v)
    assert [*in_b, float(in_v)] == pytest.approx([of_b] * heads + [of_v], abs=EXACT)


def test_signs_at_the_start_and_rest_on_the_curve():
    of_b, of_v = softmax1_gradient(2, 5, 0.0, 1.0)
    assert of_b > 0 > of_v
    assert np.abs(softmax1_gradient(2, 5, 0.4, gain_on_curve(5, 0.4))).max() < EXACT


@pytest.mark.parametrize(("heads", "length"), [(1, 5), (2, 4), (4, 5)])
def test_conserved_quantity_along_the_flow(heads, length):
    from scipy.integrate import solve_ivp

    def velocity(_, y):
        return -np.array(softmax1_gradient(heads, length, *y))

    flow = solve_ivp(velocity, (0.0, 1e4), [0.0, 1.0], method="LSODA", rtol=1e-12, atol=1e-13)
    drift = np.ptp([conserved_quantity(heads, length, *y) for y in flow.y.T])
    assert drift < 1e-9  # 1e3 times the solver's tolerance
    assert np.ptp(flow.y[0]) > 1e-3  # it did move
    assert flow.y[:, -1] == pytest.approx(unspecialised_fixed_point(heads, length), abs=1e-9)


@pytest.mark.parametrize("case", REFERENCE["softmax1_unspecialised_fixed_point_r0"])
def test_fixed_point_is_the_reference(case):
    heads, length = (int(part[1:]) for part in case.split("_"))
    b, v = unspecialised_fixed_point(heads, length)
    expected = REFERENCE["softmax1_unspecialised_fixed_point_r0"][case]
    assert (b, v) == pytest.approx((expected["b"], expected["v"]), abs=FIXED_POINT)
    assert length * v == pytest.approx(length + np.exp(b), abs=EXACT * length)


def test_fixed_point_of_a_start_on_the_curve_is_itself():
    for b in (-3.0, 0.5, 4.0):
        start = (b, gain_on_curve(5, b))
        assert unspecialised_fixed_point(2, 5, *start) == pytest.approx(start, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 5, -800.0), "b must be from -300 to 300, got -800.0"),
        ((4, 5, 0.0, 1e200), r"v must be from -1e\+50 to 1e\+50, got 1e\+200"),
        ((4, 5, float("nan")), "b must be from"),
        ((0, 5), "heads must be a whole number from 1 to 1000000, got 0"),
        ((4, 2.5), "length must be a whole number"),
    ],
)
def test_a_fixed_point_beyond_all_numbers_is_refused(arguments, message):
    with pytest.raises(SpecError, match=message):
        unspecialised_fixed_point(*arguments)
    full = (*arguments, *(5, 0.0, 1.0)[len(arguments) - 1 :])
    for function in (conserved_quantity, softmax1_gradient):
        with pytest.raises(SpecError, match=message):
            function(*full)


@pytest.mark.parametrize(("b", "v"), [(-300.0, 1.0), (300.0, 1.0), (0.0, 1e50), (0.0, -1e50), (-300.0, 1e50)])
@pytest.mark.parametrize(("heads", "length"), [(1, 1), (10**6, 10**6), (4, 5)])
def test_every_start_that_is_accepted_has_a_fixed_point(heads, length, b, v):
    found_b, found_v = unspecialised_fixed_point(heads, length, b, v)
    assert np.isfinite([found_b, found_v]).all()
    assert length * found_v == pytest.approx(length + np.exp(found_b))


def test_a_gain_beyond_all_numbers_is_refused():
    with pytest.raises(SpecError, match="b must be at most 300"):
        gain_on_curve(5, 800.0)
