"""Equations of Appendix A.2.2 that are not true as printed, each beside the form that is.

Every test evaluates both against autograd on a cubature: the printed form must fail, the corrected one must hold.
"""

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian

from softmaxlab.specialization.landscape import (
    cubature,
    gain_on_curve,
    hessian_coefficients,
    mean_gradient,
    mean_gradient_at_origin,
    quartic_coefficients,
    softmax1_gradient,
)
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.priors import Discrete, Gaussian
from tests.specialization.expansion import at_zero, derivatives, mixed, second, shared_null, sigma, tensor

EXACT = 1e-12  # rounding of autograd on an exact rule
FAILS = 1e-3  # by at least so much is a printed form wrong, where the terms are of order 0.01 to 1
SKEWED = Discrete(points=np.array([[2.0], [-1.0]]), probabilities=np.array([1, 2]) / 3)  # mean 0, E θ³ = 2
LOPSIDED = Discrete(points=np.array([[2.0, 1.0], [1.0, -1.0]]))  # E θ = (1.5, 0)


def model_of(prior, length=3, heads=2, map="softmax"):
    return SingleLocation(prior=prior, length=length, heads=heads, map=map)


@pytest.mark.parametrize("map", ["softmax", "softmax1", "bayes_softmax"])
def test_equations_25_to_29_lack_one_over_H(map):
    """∇_{m_h} = (2/H) E Σ_l (w_l − δ) Σ_{h'l'} ∂_{hl'} σ(h')_l χ*_l', the outer 1/H of w differentiated too."""
    model = model_of(LOPSIDED, length=2, heads=3, map=map)
    rule, of = cubature(model, 3), sigma(map)
    m = tensor(np.random.default_rng(0).standard_normal((3, 2))).requires_grad_()
    (truth,) = torch.autograd.grad(rule.loss(m), m)
    printed = tensor(np.zeros((3, 2)))
    for X, weight in zip(rule.X.permute(2, 0, 1), rule.weight):
        chi = m.detach() @ X
        res = of(chi).mean(dim=0) - tensor([1.0, 0.0])
        printed += 2 * weight * torch.einsum("l,klhp,fp->hf", res, jacobian(of, chi), X)
    assert torch.allclose(printed / 3, truth, atol=EXACT)
    assert (printed - truth).abs().max() > FAILS
    # (29), at m = r = 0: c^(1) is 1/H of what is printed, (2/H)(L−1)/L² for softmax
    assert mean_gradient_at_origin(model_of(LOPSIDED)) == pytest.approx((2 / 2) * 2 / 9)


def test_lemma_A2_independence_fails_for_a_lopsided_prior():
    """w·χ* is independent of the scores given θ only; its mean w·θ depends on θ as the scores do."""
    x, mean = 0.5, np.array([1.5, 0.0])
    m = tensor(np.tile(x * mean, (2, 1))).requires_grad_()
    few, many = (torch.autograd.grad(cubature(model_of(LOPSIDED, 2), n).loss(m), m)[0][0].numpy() for n in (8, 10))
    assert np.abs(few - many).max() < 1e-5  # converged
    assert many[1] == pytest.approx(0.0304, abs=1e-4)  # printed: 0, the gradient is along E θ
    model = model_of(LOPSIDED, length=4)
    sampled = mean_gradient(model, x, r1=0.3, points=2**11)
    assert sampled.e[1] == pytest.approx(0.0141, abs=5 * sampled.e_error[1] + 1e-4)
    assert sampled.e[1] > 20 * sampled.e_error[1]
    started = mean_gradient(model, 0.0, r1=1.0, points=2**10)  # at x = 0 the lemma holds for every prior
    assert abs(started.e[1]) < 5 * started.e_error[1]


def test_equation_33_is_the_gradient_of_one_bias():
    heads, length, b, v = 3, 4, 0.3, 1.5
    rule = cubature(model_of(SKEWED, length, heads, "softmax1"), 1)
    printed, _ = softmax1_gradient(heads, length, b, v)
    zero, one = tensor(np.zeros((heads, 1))), tensor([1.0, 0, 0])
    of_one = derivatives(lambda t: rule.loss(zero, None, b + t * one, v), 1)[1]
    of_all = derivatives(lambda t: rule.loss(zero, None, b + t * torch.ones_like(one), v), 1)[1]
    assert of_one == pytest.approx(printed, abs=EXACT)
    assert of_all == pytest.approx(heads * printed, abs=EXACT)
    assert abs(of_all - printed) > FAILS


def test_equations_37_and_43_need_r_rT_in_place_of_r_squared():
    model, r = model_of(SKEWED), np.array([[0.0, 1.0], [0.0, 0.0]])
    rule = cubature(model, 2, orthogonal=True)
    found = second(lambda t: rule.loss(tensor(np.zeros((2, 1))), t * tensor(r))) / 2
    c1 = hessian_coefficients(model).c1
    assert found == pytest.approx(c1 * (r @ r.T).sum(), abs=EXACT)
    assert found == pytest.approx(2 / 36, abs=EXACT)
    assert c1 * (r @ r).sum() == 0


def test_equations_13_and_37_have_a_third_order():
    """Ẽ − quadratic form is O(m³) if θ has third moments, and O(b r²), for softmax-1 and its b, in any case."""
    u = tensor([[2.0], [-1.0], [-1.0]])

    def third(prior):
        return derivatives(lambda t: cubature(model_of(prior, heads=3), 2).loss(t * u), 3)[3]

    # −(2/H) Σ_h u_h³ E θ³ κ4 with κ4 = a (1−a) (1 − 6 a (1−a)), a = 1/L; printed: 0
    assert third(SKEWED) == pytest.approx(-(2 / 3) * 6 * 2 * (-2 / 27), abs=EXACT)
    assert abs(third(Gaussian(F=1, nu=(2.0, 2.0)))) < EXACT
    model, b = model_of(SKEWED, map="softmax1"), 0.2
    rule, zero, ones = cubature(model, 2, orthogonal=True), tensor(np.zeros((2, 1))), tensor([1.0, 1.0])

    def curvature_in_r(at):
        v = gain_on_curve(3, b)
        return second(lambda t: rule.loss(zero, t * tensor(np.eye(2)), at * ones, v))

    step = 1e-4
    assert abs(curvature_in_r(b + step) - curvature_in_r(b - step)) / (2 * step) > FAILS


@pytest.mark.parametrize("map", ["softmax", "softmax1", "bayes_softmax", "shared null token"])
def test_equation_41_pairs_h_prime_with_h_second(map):
    """r_h'·r_h'' in place of r_h'·r_h'. For the paper's maps the term vanishes, so a map where it does not decides."""
    H, L, v = 2, 3, gain_on_curve(3, 0.0)
    of = shared_null if map == "shared null token" else sigma(map, 0.0, v)
    value, first, curved = at_zero(of, H, L)
    r = tensor([[1.0, 0.5], [-0.3, 0.8]])
    res = value.mean(dim=0) - tensor([1.0, 0, 0])
    squares = torch.einsum("klhp,jlgp,hi,gi->", first, first, r, r) / H**2
    truth = second(lambda t: _loss_of(of, r, t)) / 2
    corrected = torch.einsum("l,klhpgp,hi,gi->", res, curved, r, r) / H + squares
    printed = torch.einsum("l,klhpgp,hi,hi->", res, curved, r, r) / H + squares
    assert corrected.item() == pytest.approx(truth, abs=EXACT)
    assert (abs(printed.item() - truth) > FAILS) == (map == "shared null token")


def _loss_of(of, r, t):
    """Ẽ(0, t r) of any map, by the rule with two nodes ±1 over ξ [head, token], exact to third order."""
    H, L = 2, 3
    signs = tensor(np.array(np.meshgrid(*[[-1.0, 1.0]] * (H * L))).reshape(H * L, -1).T.reshape(-1, H, L))
    w = torch.stack([of(t * r @ xi).mean(dim=0) for xi in signs])
    return ((w - tensor([1.0, 0, 0])) ** 2).sum(dim=1).mean()


def test_equation_49_sums_over_h_prime_and_h_second():
    """As printed the last sum runs over h, already used inside, and leaves h'' free: none of its values is right."""
    H, L, prior = 2, 3, Gaussian(covariance=np.array([[2.0, 0.7], [0.7, 1.0]]))
    model = model_of(prior, L, H, "bayes_softmax")
    value, first, curved = at_zero(sigma("bayes_softmax"), H, L)
    m, C = tensor([[1.0, 0.5], [-0.3, 0.8]]), tensor(prior.moments()[1])
    second_moment = torch.eye(2).double() + C * tensor([1.0, 0, 0])[:, None, None]  # [token, feature, feature]
    res, J = value.mean(dim=0) - tensor([1.0, 0, 0]), first.sum(dim=0)
    bend = torch.einsum("l,klhg,hf,gi,fi->", res, curved[:, :, :, 0, :, 0], m, m, C) / H
    free = torch.einsum("lhp,lgp,hf,gi,pfi->g", J, J, m, m, second_moment) / H**2
    truth = second(lambda t: cubature(model, 2).loss(t * m)) / 2
    assert (bend + free.sum()).item() == pytest.approx(truth, abs=EXACT)
    printed = bend + H * free  # the sum over h repeats the same terms H times
    assert (printed - truth).abs().min() > FAILS


def test_equation_52_sums_over_l_only():
    """With the sum over l' too, c2 would be L times larger: c1 instead of c1/L."""
    H, L = 2, 4
    prior = Gaussian(F=1, nu=(2.0, 2.0))
    model, u = model_of(prior, L, H), np.ones((H, 1))
    truth = second(lambda t: cubature(model, 2).loss(t * tensor(u))) / 2
    c = hessian_coefficients(model)
    J = at_zero(sigma("softmax"), H, L)[1].sum(dim=0)[:, 0, 0]
    printed = (L * (J**2).sum() / H**2).item()
    assert c.c2 == pytest.approx((J**2).sum().item() / H**2, abs=EXACT)
    assert c.quadratic_form(u, np.zeros((H, H)), np.zeros(H), prior.moments()[1]) == pytest.approx(truth, abs=EXACT)
    wrong = c.c1 * H**2 + printed * 2 * H**2 - c.c3 * 2 * H
    assert printed == pytest.approx(L * c.c2)
    assert abs(wrong - truth) > FAILS


INDEPENDENT = Discrete(
    points=np.array([[x, y] for x in (1.5, -1.5) for y in (2.0, -0.5)]), probabilities=np.array([1, 2, 1, 2]) / 6
)  # E θ = (0, 1/3), θ_1 and θ_2 independent


def test_equation_59_is_about_m_plus_m_bar():
    """The right-hand side of (60) at m = 0 is Ẽ(m̄), not Ẽ(0) as σ(m χ*) would give."""
    rule, m_bar = cubature(model_of(INDEPENDENT), 3), tensor([[1.0, 0.0], [-1.0, 0.0]])
    of = sigma("softmax")
    points = torch.einsum("hf,fln->nhl", m_bar, rule.X)
    w = torch.stack([of(chi).mean(dim=0) for chi in points])
    expansion = (rule.weight @ ((w - tensor([1.0, 0, 0])) ** 2).sum(dim=1)).item()
    assert expansion == pytest.approx(rule.loss(m_bar).item(), abs=EXACT)
    assert abs(expansion - rule.loss(0 * m_bar).item()) > FAILS


def test_equation_62_has_a_minus():
    """ "+−2" stands for −2: seen with E θ_2 ≠ 0, where the term is not zero."""
    # the identity holds point by point of the rule's own average, so few nodes do
    rule, m_bar = cubature(model_of(INDEPENDENT), 2), tensor([[0.8, 0.0], [-0.5, 0.0]])
    m, mean, of = tensor([[0.0, 0.7], [0.0, 1.1]]), tensor(INDEPENDENT.moments()[0]), sigma("softmax")
    term = 0.0
    for X, weight in zip(rule.X.permute(2, 0, 1), rule.weight):
        chi = m_bar @ X
        rest = tensor([1.0, 0, 0]) - of(chi).mean(dim=0)
        moved = torch.einsum("klhf,h->l", jacobian(of, chi)[:, :, :, :1], m @ mean) / 2
        term += (weight * (rest @ moved)).item()
    truth = derivatives(lambda t: rule.loss(m_bar + t * m), 1)[1]
    assert truth == pytest.approx(-2 * term, abs=EXACT)
    assert abs(truth - 2 * term) > FAILS


@pytest.mark.parametrize("m", [[[0.0, 1.0], [0.0, -1.0]], [[0.3, 1.0], [0.5, 0.2]]], ids=["split", "any"])
def test_equations_63_to_68_swap_c2_and_c3_and_miss_a_sign(m):
    """At m̄ = 0: (1) = −c3 tr(m C mᵀ), (2) = c1 Σ m mᵀ + c2 Σ m C mᵀ. As printed no split of heads would ever grow."""
    prior = Gaussian(F=2, nu=(3.0, 1.5))
    model, C = model_of(prior, length=4, heads=2), prior.moments()[1]
    rule, c = cubature(model, 2), hessian_coefficients(model)
    m = np.array(m)
    truth = second(lambda t: rule.loss(t * tensor(m))) / 2
    common, own, plain = (m @ C @ m.T).sum(), np.trace(m @ C @ m.T), (m @ m.T).sum()
    assert -c.c3 * own + c.c1 * plain + c.c2 * common == pytest.approx(truth, abs=EXACT)
    printed = c.c2 * own + c.c1 * plain + c.c3 * common
    assert printed > max(0, truth + FAILS)


def test_equation_70_lacks_a_factor_two():
    """The Hessian is twice the form of (69): c_1^(4) = 2 Var(θ_f) c̃_1, and so for the others."""
    nu_learnt, nu, H, L = 3.0, 1.5, 4, 3
    model = model_of(Gaussian(F=2, nu=(nu_learnt, nu)), L, H)
    u, learnt = np.array([1.0, -1, 0, 0]), np.array([0.0, 0, 1, -1])  # for these c2 and c3 do not count
    rule = cubature(model, 3)
    truth = mixed(lambda s, t: rule.loss(torch.stack([t * tensor(learnt), s * tensor(u)], dim=1))) / 2
    D2 = at_zero(sigma("softmax"), 1, L)[2][0, :, 0, 0, 0, 0]
    tilde = nu_learnt * (D2**2).sum().item() / (2 * H**2)  # c̃_1 of (65), for this one learnt feature
    printed = nu * tilde * (learnt @ learnt) * (u @ u)
    assert truth == pytest.approx(2 * printed, abs=EXACT)
    assert abs(truth - printed) > FAILS
    assert truth == pytest.approx(quartic_coefficients(model, nu, nu_learnt).quadratic_form(u, learnt), abs=EXACT)


def test_lemma_A6_constants_vanish_for_two_tokens():
    """c̃_4 and c̃_5 are said to be positive for all L ≥ 2: at L = 2 softmax has no second derivative at 0."""
    prior = Gaussian(F=2, nu=(3.0, 1.5))
    c = quartic_coefficients(model_of(prior, length=2, heads=4), 1.5, 3.0)
    assert (c.c1, c.c2, c.c3) == (0, 0, 0)
    assert at_zero(sigma("softmax"), 1, 2)[2].abs().max() < EXACT
    assert quartic_coefficients(model_of(prior, length=3, heads=4), 1.5, 3.0).c3 > FAILS


@pytest.mark.parametrize("length", [2, 3])
def test_r_zero_is_stable_at_fourth_order_only(length):
    """A.2.1 has r = 0 stable by the Hessian, but that is c1 |rᵀ1|², flat for rᵀ1 = 0; with a = 1/L,

    Ẽ(0, r) = Ẽ(0, 0) + c1 |rᵀ1|² + a (1−a) (1−2a)/(2H²) |r rᵀ|² + …   for softmax and rᵀ1 = 0:
    r decays as τ^(−1/2), not exponentially, and for L = 2 is flat at this order too.
    """
    model, r = model_of(SKEWED, length=length), np.array([[1.0, 0.4], [-1.0, -0.4]])
    rule, zero, a = cubature(model, 3, orthogonal=True), tensor(np.zeros((2, 1))), 1 / length
    found = derivatives(lambda t: rule.loss(zero, t * tensor(r)), 4)
    assert abs(found[2]) < EXACT
    assert found[4] / 24 == pytest.approx(a * (1 - a) * (1 - 2 * a) / 8 * ((r @ r.T) ** 2).sum(), abs=EXACT)
    along = second(lambda t: rule.loss(zero, t * tensor(np.ones((2, 2)))))
    assert along > FAILS
