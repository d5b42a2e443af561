"""Losses of the margin of one's own: along β*, with parameters, in flows, descents and with the strength as clock."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from softmaxlab.core.simulate import simulate
from softmaxlab.errors import SpecError
from softmaxlab.polarization import Descent, Flow, StrengthFlow, register

START = {
    "beta": np.array([2.0, 0.0, 0.0]),
    "V": 0.3 * np.random.default_rng(0).standard_normal((3, 5)),
    "a": np.zeros(5),
}
FLOW = 1e-7  # 100 times rtol: errors of two solvers of the same flow
GRID = 2e-4  # log t from a grid, against quadrature to rounding


@register(margin=True)
def softplus_loss(m, scale=1.0):
    return torch.nn.functional.softplus(-scale * m) / scale


@register(margin=True)
def sums(m):
    return m.sum()


def test_the_logistic_loss_registered_again_has_its_flow():
    ours, own = (simulate(Flow(loss, **START, t_end=1e6, points=30)) for loss in ("logistic", "softplus_loss"))
    for name in ("weights", "u", "strength", "V"):
        assert_allclose(own[name], ours[name], rtol=FLOW, atol=FLOW)
    ours, own = (simulate(Descent(loss, **START, lr=0.1, steps=200)) for loss in ("logistic", "softplus_loss"))
    assert_allclose(own["strength"], ours["strength"], rtol=1e-12)


@pytest.mark.parametrize("end", [20.0, 150.0])
def test_time_from_strength(end):
    ours, own = (simulate(StrengthFlow(loss, **START, strength_end=end)) for loss in ("logistic", "softplus_loss"))
    assert_allclose(own["weights"], ours["weights"], rtol=FLOW, atol=FLOW)
    assert own.axes == ours.axes
    assert len(own["strength"]) == 400
    assert_allclose(own["log_t"][1:], ours["log_t"][1:], atol=GRID)


def test_a_parameter_is_part_of_the_name():
    """ℓ(m; c) = softplus(−cm)/c is the logistic flow of cβ* in the time c t, with V the same times 1/c."""
    own = simulate(Flow("softplus_loss:2", **START, t_end=1e4, points=20))
    default = simulate(Flow("softplus_loss:1", **START, t_end=1e4, points=20))
    assert_allclose(default["u"], simulate(Flow("softplus_loss", **START, t_end=1e4, points=20))["u"], rtol=FLOW)
    m = (own["u"] * own["weights"]).sum(axis=1)
    assert_allclose(own["loss"], np.logaddexp(0.0, -2.0 * m) / 2.0, rtol=1e-12)
    assert abs(own["u"][-1] - default["u"][-1]).max() > 0.1


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("softplus_loss:x", "'softplus_loss:x': a parameter must be a number"),
        ("softplus_loss:1:2", "has the parameters scale"),
        ("logistic:2", "'logistic' has no parameters"),
        ("sums", "one number for each margin"),
    ],
)
def test_bad_losses_are_refused(loss, message):
    with pytest.raises(SpecError, match=message):
        Flow(loss, **START, t_end=1.0)


def test_a_loss_of_the_margin_takes_the_margin_alone():
    with pytest.raises(SpecError, match=r"a function of the margins and of numbers .*, got both\(m, beta\)"):

        @register(margin=True)
        def both(m, beta, scale=1.0):
            return scale * m
