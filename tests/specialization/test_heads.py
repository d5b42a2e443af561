"""The closed-form weights and gradients of the heads: torch's autograd, symmetries, extreme scores."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softmaxlab.attention import weights
from softmaxlab.specialization.heads import CLOSED_FORM, forward, learns_bias, learns_gain

ROUNDING = 1e-12
BY_AUTOGRAD = ("sigmoid", "sparsemax", "relu_norm")  # not of closed form, one of each kind
H, L, N = 3, 4, 6


def drawn(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal((H, L, N)), rng.standard_normal(H), rng.uniform(0.5, 2.0)


def torch_weights(map, chi, b, v):
    """w [token, sample] by the maps of softmaxlab.attention, one sample at a time, as eq. (3) says."""
    each = []
    for s in range(chi.shape[-1]):
        sigma = weights(map, chi[:, None, :, s], **({"bias": b} if learns_bias(map) else {}))[:, 0]
        each.append((v if learns_gain(map) else 1.0) * sigma.mean(dim=0))
    return torch.stack(each, dim=-1)


@pytest.mark.parametrize("map", CLOSED_FORM + BY_AUTOGRAD)
@pytest.mark.parametrize("scale", [0.5, 20.0])
def test_weights_and_gradient_are_those_of_autograd(map, scale):
    chi, b, v = drawn(0, scale)
    tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (chi, b, v)]
    w = torch_weights(map, *tensors)
    U = np.random.default_rng(1).standard_normal((L, N))
    expected = torch.autograd.grad((2 * torch.tensor(U) * w).sum(), tensors, allow_unused=True, materialize_grads=True)
    heads = forward(map, chi, b, v)
    c, db, dv = heads.pullback(U)
    np.testing.assert_allclose(heads.w, w.detach().numpy(), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(heads.sigma.mean(axis=0), heads.w, rtol=0, atol=ROUNDING)
    for ours, autograd in zip((c, db.sum(axis=-1), dv.sum()), expected):
        np.testing.assert_allclose(ours, autograd.numpy(), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("map", CLOSED_FORM)
def test_the_gradient_is_linear_in_U_and_leaves_its_input_alone(map):
    chi, b, v = drawn(2)
    kept = chi.copy()
    U, factor = np.random.default_rng(3).standard_normal((L, N)), np.linspace(0.1, 2, N)
    heads = forward(map, chi, b, v)
    for plain, scaled in zip(heads.pullback(U), heads.pullback(U * factor)):
        np.testing.assert_allclose(scaled, plain * factor, rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(chi, kept)


@given(seed=st.integers(0, 10**6), shift=st.floats(-50, 50))
def test_what_a_shift_of_the_scores_does(seed, shift):
    """Softmax: nothing, head by head. Bayes-softmax: nothing if all heads shift. Softmax-1: nothing if b shifts too."""
    chi, b, v = drawn(seed)
    one = np.array([shift, 0.0, 0.0])
    pairs = {
        "softmax": (chi + one[:, None, None], b),
        "bayes_softmax": (chi + shift, b),
        "softmax1": (chi + one[:, None, None], b + one),
    }
    for map, (shifted, bias) in pairs.items():
        np.testing.assert_allclose(forward(map, shifted, bias, v).w, forward(map, chi, b, v).w, rtol=0, atol=ROUNDING)
    if abs(shift) > 0.1:  # a control: one head alone shifts in the others
        for map in ("bayes_softmax", "softmax1"):
            assert np.abs(forward(map, *pairs["softmax"], v).w - forward(map, chi, b, v).w).max() > 1e-6


@pytest.mark.parametrize("map", CLOSED_FORM)
@pytest.mark.parametrize("size", [1e3, 1e300])
def test_extreme_scores_give_finite_weights(map, size):
    chi, b, v = drawn(4)
    heads = forward(map, size * chi, size * b / 10, v)
    c, db, dv = heads.pullback(heads.w)
    assert all(np.isfinite(x).all() for x in (heads.w, c, db, dv))
    assert (heads.w >= 0).all()


def test_which_maps_learn_a_bias_and_a_gain():
    assert [m for m in CLOSED_FORM if learns_bias(m)] == ["softmax1", "bayes_softmax"]
    assert [m for m in CLOSED_FORM if learns_gain(m)] == ["softmax1"]
    assert [m for m in ("sigmoid", "sigmoid_norm") if learns_gain(m)] == ["sigmoid"]
