"""Lemmas A.5 and A.6 in closed form, against autograd on a cubature that is exact for them."""

import numpy as np
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.specialization.landscape import (
    cubature,
    gain_on_curve,
    hessian_coefficients,
    mean_gradient_at_origin,
    quartic_coefficients,
)
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.priors import Discrete, FlippingSpike, Gaussian
from tests.specialization.expansion import derivatives, mixed, second, tensor

EXACT = 1e-12  # rounding of autograd on an exact rule
MAPS = ("softmax", "softmax1", "bayes_softmax")
CORRELATED = Gaussian(covariance=np.array([[2.0, 0.7], [0.7, 1.0]]))
SKEWED = Discrete(points=np.array([[2.0, 1.0], [1.0, -1.0], [0.5, 0.0]]))


def split(rng, H, mean):
    """m [head, feature] orthogonal to E θ."""
    m = rng.standard_normal((H, len(mean)))
    return m - np.outer(m @ mean, mean) / (mean @ mean) if mean.any() else m


@pytest.mark.parametrize("prior", [FlippingSpike(nu=(2.0, 3.0)), CORRELATED, SKEWED], ids=["flip", "gauss", "skewed"])
@pytest.mark.parametrize(("length", "heads"), [(2, 2), (3, 1), (3, 2)])
@pytest.mark.parametrize(("b", "v"), [(0.0, 1.0), (0.4, 1.7), (-0.3, None)], ids=["start", "off", "on the curve"])
@pytest.mark.parametrize("map", MAPS)
def test_quadratic_form_is_the_second_derivative(map, b, v, length, heads, prior):
    model = SingleLocation(prior=prior, length=length, heads=heads, map=map)
    rule, (mean, covariance) = cubature(model, 2, orthogonal=True), prior.moments()
    rng, v = np.random.default_rng(length + 10 * heads), gain_on_curve(length, b) if v is None else v
    m, r = split(rng, heads, mean), rng.standard_normal((heads, heads))
    b_bar = np.zeros(heads) if map == "softmax" else rng.standard_normal(heads)
    found = second(lambda t: rule.loss(t * tensor(m), t * tensor(r), b + t * tensor(b_bar), v))
    expected = 2 * hessian_coefficients(model, b, v).quadratic_form(m, r, b_bar, covariance)
    assert found == pytest.approx(expected, abs=EXACT)


def test_coefficients_are_the_papers_table():
    H, L = 3, 5
    softmax, bayes = (
        hessian_coefficients(SingleLocation(prior=CORRELATED, length=L, heads=H, map=map))
        for map in ("softmax", "bayes_softmax")
    )
    assert (softmax.c1, softmax.c2) == pytest.approx(((L - 1) / (H * L) ** 2, (L - 1) / (H**2 * L**3)))
    assert (softmax.c3, softmax.c4) == pytest.approx(((L - 1) / (H * L**2) * (1 - 2 / L), 0.0))
    assert bayes.c3 == pytest.approx((L - 1) / (H * L**2) * (1 - 2 / (H * L)))
    assert bayes.c4 == pytest.approx((L - 1) / L * 2 / (H * L) ** 2)
    b = -0.2
    v, s = gain_on_curve(L, b), 1 / (L + np.exp(b))
    one = hessian_coefficients(SingleLocation(prior=CORRELATED, length=L, heads=H, map="softmax1"), b, v)
    assert one.c3 == pytest.approx(v / H * (L - 1) / L * s * (1 - 2 * s))
    assert one.c5 == pytest.approx(v**2 * L / H**2 * np.exp(2 * b) * s**4)  # half of eq. (56)
    assert max(abs(one.c0), abs(one.c6)) < EXACT


@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize("length", range(2, 12))
def test_signs_of_the_lemma(map, length):
    for heads in (1, 2, 5):
        b = 0.1
        c = hessian_coefficients(
            SingleLocation(prior=CORRELATED, length=length, heads=heads, map=map), b, gain_on_curve(length, b)
        )
        assert min(c.c1, c.c2) > 0
        assert min(c.c4, c.c5) >= 0
        assert c.c3 > 0 if length >= 3 else c.c3 >= 0


@pytest.mark.parametrize(("b", "v"), [(0.0, 1.0), (0.7, 0.6)])
@pytest.mark.parametrize("map", MAPS)
def test_mean_gradient_at_the_origin(map, b, v):
    model = SingleLocation(prior=SKEWED, length=3, heads=2, map=map)
    mean, _ = SKEWED.moments()
    rule, direction = cubature(model, 1), tensor(np.array([mean, 0 * mean]))
    slope = derivatives(lambda t: rule.loss(t * direction, None, tensor([b, b]), v), 1)[1]
    assert slope == pytest.approx(-mean_gradient_at_origin(model, b, v) * mean @ mean, abs=EXACT)


def orthogonal_columns(rng, H):
    columns = rng.standard_normal((2, H))
    return columns - columns.mean(axis=1, keepdims=True)


def change_of_hessian(model, u, learnt):
    """½ ∂²_t of uᵀ ∇²_{m_2} Ẽ u at m_1 = t · learnt."""
    rule, u, learnt = cubature(model, 3), tensor(u), tensor(learnt)
    return mixed(lambda s, t: rule.loss(torch.stack([t * learnt, s * u], dim=1))) / 2


@pytest.mark.parametrize("heads", [4, 5])
@pytest.mark.parametrize("length", [2, 3, 4])
def test_quartic_coefficients_are_identified_by_fourth_derivatives(length, heads):
    """Four directions determine c1, c2, c3 (three unknowns) for H ≥ 4."""
    nu_learnt, nu = 3.0, 1.5
    model = SingleLocation(prior=Gaussian(F=2, nu=(nu_learnt, nu)), length=length, heads=heads)
    rng = np.random.default_rng(length)
    pairs = [orthogonal_columns(rng, heads) for _ in range(4)]
    found = [change_of_hessian(model, u, learnt) for u, learnt in pairs]
    design = [[(n @ n) * (u @ u), (n**2) @ (u**2), (n @ u) ** 2] for u, n in pairs]
    assert np.linalg.matrix_rank(design) == 3
    fitted, *_ = np.linalg.lstsq(np.array(design), np.array(found))
    c = quartic_coefficients(model, nu, nu_learnt)
    assert np.allclose(fitted, [c.c1, c.c2, c.c3], atol=1e3 * EXACT)
    assert np.allclose(found, [c.quadratic_form(u, n) for u, n in pairs], atol=EXACT)


def test_quartic_coefficients_hold_for_independent_discrete_features():
    points = np.array([[x, y] for x in (1.5, -1.5) for y in (2.0, -1.0)])
    prior = Discrete(points=points, probabilities=np.array([1, 2, 1, 2]) / 6)
    (first, _), (_, other) = prior.moments()[1]
    model = SingleLocation(prior=prior, length=3, heads=4)
    u, learnt = orthogonal_columns(np.random.default_rng(7), 4)
    expected = quartic_coefficients(model, other, first).quadratic_form(u, learnt)
    assert change_of_hessian(model, u, learnt) == pytest.approx(expected, abs=EXACT)
    assert abs(quartic_coefficients(model, first, first).quadratic_form(u, learnt) - expected) > 1e-3


def test_signs_of_the_quartic_coefficients():
    for length in range(3, 12):
        c = quartic_coefficients(SingleLocation(prior=CORRELATED, length=length, heads=4), 2.0, 1.0)
        assert min(c.c1, c.c3) > 0


def test_other_maps_are_refused():
    with pytest.raises(SpecError, match="sigmoid"):
        hessian_coefficients(SingleLocation(prior=CORRELATED, length=3, heads=2, map="sigmoid"))
    with pytest.raises(SpecError, match="softmax1"):
        quartic_coefficients(SingleLocation(prior=CORRELATED, length=3, heads=4, map="softmax1"), 1.0, 1.0)
