"""Lemmas III.1 and A.5, III.2 and A.6: the Hessian of the loss before and while heads specialize.

By a cubature that is exact for these derivatives at m = r = 0.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from softmaxlab.papers.claim import Claim, Finding, Verdict
from softmaxlab.papers.specialization.claim_flows import MAPS, PAPER, tensor
from softmaxlab.specialization import Discrete, FlippingSpike, Gaussian, Prior, SingleLocation
from softmaxlab.specialization.landscape import (
    HessianCoefficients,
    QuarticCoefficients,
    cubature,
    gain_on_curve,
    hessian_coefficients,
    quartic_coefficients,
)

EXACT = 1e-11  # rounding, in derivatives that the cubature has exactly
LENGTHS = range(3, 31)
FLIP = FlippingSpike(nu=(2.0, 3.0))
THIRD = Discrete(points=np.array([[1.0, 2.0], [1.0, -1.0]]), probabilities=np.array([1 / 3, 2 / 3]))
SKEWED = Discrete(points=np.array([[2.0, 1.0], [1.0, -1.0], [0.5, 0.0]]))
CORRELATED = Gaussian(covariance=np.array([[2.0, 0.7], [0.7, 1.0]]))


def printed_c2(c: HessianCoefficients) -> HessianCoefficients:
    """c2 with eq. (52)'s sum over l' as well: it is c1."""
    return replace(c, c2=c.c1)


def swapped(c: HessianCoefficients) -> HessianCoefficients:
    return replace(c, c3=c.c2, c2=c.c3)


def unchanged(c):
    return c


def c1_dropped(c: QuarticCoefficients) -> QuarticCoefficients:
    return replace(c, c1=0.0)


def quadratic_form_is_the_hessian(change: Callable[[HessianCoefficients], HessianCoefficients]) -> Finding:
    """The second derivative along random (m, r, b̄) with m Eθ = 0, against Lemma A.5, and with (52) as printed."""
    off, off_printed = 0.0, 0.0
    draw = np.random.default_rng(1)
    for map in MAPS:
        for prior in (FLIP, CORRELATED, SKEWED):
            model = SingleLocation(prior=prior, length=3, heads=2, map=map)
            seen, c, at = _second_derivative(model, draw)
            off = max(off, abs(seen - 2 * change(c).quadratic_form(*at)))
            off_printed = max(off_printed, abs(seen - 2 * printed_c2(change(c)).quadratic_form(*at)))
    text = f"9 models: the form is off by {off:.0e} with c2 summed over l, by {off_printed:.3f} as (52) is printed"
    if off > EXACT:
        return Finding(Verdict.FAILS, text)
    return Finding(Verdict.HOLDS if off_printed <= EXACT else Verdict.CONDITION, text)


def _second_derivative(model: SingleLocation, draw: np.random.Generator) -> tuple[float, HessianCoefficients, tuple]:
    """∂²_t Ẽ(t m, t r, b̃ + t b̄, v), the coefficients, and (m, r, b̄, Cov θ)."""
    H, b = model.heads, -0.3
    v = gain_on_curve(model.length, b)
    mean, covariance = model.prior.moments()
    m, r, b_bar = draw.standard_normal((H, 2)), draw.standard_normal((H, H)), draw.standard_normal(H)
    m = m - np.outer(m @ mean, mean) / (mean @ mean) if mean.any() else m
    b_bar = 0 * b_bar if model.map == "softmax" else b_bar
    rule, parts = cubature(model, 2, orthogonal=True), [torch.from_numpy(x) for x in (m, r, b_bar)]
    seen = along(lambda t: rule.loss(t * parts[0], t * parts[1], b + t * parts[2], v), 2)
    return seen, hessian_coefficients(model, b, v), (m, r, b_bar, covariance)


def remainder_is_of_fourth_order(prior_and_symmetric: tuple[Prior, Prior]) -> Finding:
    """∂³ of the loss along a random m with m Eθ = 0, and the signs of c1 … c4 for 3 ≤ L ≤ 30."""
    skewed, even = (abs(_third(prior)) for prior in prior_and_symmetric)
    signs = [_signs(map, L) for map in MAPS for L in LENGTHS]
    text = f"signs right for L = 3 … 30: {all(signs)}; ∂³Ẽ/∂m³ {even:.0e} without third moments of θ, {skewed:.4f} with"
    if not all(signs) or even > EXACT:
        return Finding(Verdict.FAILS, text)
    return Finding(Verdict.HOLDS if skewed <= EXACT else Verdict.CONDITION, text)


def _signs(map: str, L: int) -> bool:
    model = SingleLocation(prior=FLIP, length=L, heads=3, map=map)
    c = hessian_coefficients(model, 0.1, gain_on_curve(L, 0.1))
    return c.c1 > 0 and c.c2 > 0 and c.c3 > 0 and c.c4 >= 0


def _third(prior: Prior) -> float:
    mean, _ = prior.moments()
    across = np.array([-mean[1], mean[0]]) if mean.any() else np.array([0.6, 0.8])
    direction = torch.from_numpy(np.outer([1.0, -0.4], across))
    rule = cubature(SingleLocation(prior=prior, length=3, heads=2), 3)
    return along(lambda t: rule.loss(t * direction), 3)


def learnt_feature_changes_the_hessian(change: Callable[[QuarticCoefficients], QuarticCoefficients]) -> Finding:
    """½ ∂²_t uᵀ∇²Ẽ(t m̄) u against Lemma A.6 for random columns at H = 4, L = 3; the signs of c1, c3 for 3 ≤ L ≤ 30."""
    model = SingleLocation(prior=Gaussian(F=2, nu=(3.0, 1.5)), length=3, heads=4)
    rule, draw, off = cubature(model, 3), np.random.default_rng(2), 0.0
    c = change(quartic_coefficients(model, 1.5, 3.0))
    for _ in range(3):
        u, learnt = (x - x.mean() for x in draw.standard_normal((2, 4)))
        off = max(off, abs(_mixed(rule.loss, u, learnt) - c.quadratic_form(u, learnt)))
    of_length = [quartic_coefficients(model.replace(length=L), 1.5, 3.0) for L in LENGTHS]
    signs = [c.c1 > 0 and c.c3 > 0 for c in of_length]
    verdict = Verdict.HOLDS if off <= EXACT and all(signs) else Verdict.FAILS
    return Finding(verdict, f"H = 4, L = 3: off by {off:.0e}; c1 > 0 and c3 > 0 for L = 3 … 30: {all(signs)}")


def _mixed(loss: Callable[[Tensor], Tensor], u: np.ndarray, learnt: np.ndarray) -> float:
    """½ ∂²_s ∂²_t Ẽ(t m̄, s u) at 0."""
    s, t = tensor(0.0), tensor(0.0)
    value = loss(torch.stack([t * torch.from_numpy(learnt), s * torch.from_numpy(u)], dim=1))
    for variable in (s, s, t, t):
        (value,) = torch.autograd.grad(value, variable, create_graph=True)
    return value.item() / 2


def along(f: Callable[[Tensor], Tensor], order: int) -> float:
    """The derivative of that order of f(t) at t = 0."""
    t = tensor(0.0)
    value = f(t)
    for _ in range(order):
        (value,) = torch.autograd.grad(value, t, create_graph=True)
    return value.item()


CLAIMS = (
    Claim(
        id="specialization/lem3.1",
        source=PAPER,
        place="Lemma III.1",
        statement="c1, c2, c3 > 0 and c4 ≥ 0 for L ≥ 3, and the remainder of (13) is O(m⁴)",
        tolerance=f"{EXACT:g}: rounding, in ∂³Ẽ/∂m³",
        judge=remainder_is_of_fourth_order,
        subject=(THIRD, FLIP),
        control=(FLIP, THIRD),
        control_is="the prior with third moments in place of the one without",
        expected=Verdict.CONDITION,
        proof="The third derivative at 0 is a moment E[θ_f θ_g θ_h] times a constant that is not 0: exact by "
        "cubature (erratum 6).",
        condition="θ has no third moments; otherwise the remainder is O(m³)",
        why="The third derivative at 0 is a third moment of θ times a constant that is not 0.",
        erratum=("specialization/6",),
        figures=("specialization/escape",),
    ),
    Claim(
        id="specialization/lemA.5",
        source=PAPER,
        place="Lemma A.5",
        statement="The Hessian in m, r and b at m = r = 0 is (37) with the constants (44), (52) to (54)",
        tolerance=f"{EXACT:g}: rounding",
        judge=quadratic_form_is_the_hessian,
        subject=unchanged,
        control=swapped,
        control_is="c2 and c3 exchanged, as in (63) to (68)",
        expected=Verdict.CONDITION,
        proof="(37), (41), (49) and (52) are polynomials in m, r, b; as printed they differ from the exact "
        "derivatives by more than rounding (errata 8 to 10).",
        condition="(37), (41), (49) and (52) are read as corrected",
        why="As printed the four equations differ from the exact derivatives by more than rounding.",
        erratum=("specialization/8", "specialization/9", "specialization/10"),
        figures=("specialization/escape",),
    ),
    Claim(
        id="specialization/lem3.2",
        source=PAPER,
        place="Lemmas III.2, A.6",
        statement="A learnt feature adds c1|m̄|² I + c2 Diag(m̄²) + c3 m̄m̄ᵀ to the Hessian of another, c1, c3 > 0",
        tolerance=f"{EXACT:g}: rounding",
        judge=learnt_feature_changes_the_hessian,
        subject=unchanged,
        control=c1_dropped,
        control_is="without c1",
        erratum=("specialization/11", "specialization/12", "specialization/13"),
    ),
)
