"""Kernels of matrix products: each equals the product in double precision, and plain torch is the fallback."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from softmaxlab.core import kernels
from softmaxlab.errors import SpecError

FLOAT32 = 2e-6  # relative to the largest number: sums of a few hundred float32 terms in any order
BFLOAT16 = 2**-7  # factors and product rounded to eight bits
SHAPES = [(300, 128, 101), (64, 512, 128), (1, 128, 512), (2640, 16, 16)]
NAMES = list(kernels.available())


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Measure anew, also for small products."""
    monkeypatch.setattr(kernels, "SMALL", 0)
    monkeypatch.setattr(kernels, "_chosen", {})
    kernels.forget_used()


def tensors(M, K, N, dtype=torch.float32):
    draw = torch.Generator().manual_seed(M + K + N)
    return [torch.randn(shape, generator=draw).to(dtype) for shape in ((M, K), (N, K), (N,), (M, N))]


def close(found, exact, relative):
    assert found.dtype is torch.float32
    assert (found - exact).abs().max() <= relative * exact.abs().max()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_kernel_gives_all_three_products(name, shape, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, name)
    x, w, b, dy = tensors(*shape)
    X, W, B, dY = (t.double() for t in (x, w, b, dy))
    close(kernels.forward(x, w, b), X @ W.t() + B, FLOAT32)
    close(kernels.input_gradient(dy, w), dY @ W, FLOAT32)
    close(kernels.weight_gradient(dy, x), dY.t() @ X, FLOAT32)
    assert set(kernels.used().values()) == {name}


@pytest.mark.parametrize("name", NAMES)
def test_views_with_gaps_are_multiplied_like_others(name, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, name)
    x, w, _, dy = tensors(64, 128, 96)
    last_x, last_dy = (
        torch.stack([torch.zeros_like(t), t], dim=1)[:, -1] for t in (x, dy)
    )  # as a last position is read
    close(kernels.weight_gradient(last_dy, last_x), dy.double().t() @ x.double(), FLOAT32)
    close(kernels.forward(last_x, w, None), x.double() @ w.double().t(), FLOAT32)


def test_onednn_reads_no_view_with_gaps():
    x = torch.randn(64, 3, 128)
    assert kernels._packed(x[:, -1]).is_contiguous()
    assert kernels._packed(x[:, 0].contiguous().t()).stride() == (1, 128)  # dense either way is not copied


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_a_linear_layer(name, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, name)
    x, w, b, _ = tensors(40, 12, 7)
    given = [t.clone().requires_grad_() for t in (x.view(5, 8, 12), w, b)]
    plain = [t.detach().double().requires_grad_() for t in given]
    kernels.linear(*given).sin().sum().backward()
    functional.linear(*plain).sin().sum().backward()
    for ours, exact in zip(given, plain):
        close(ours.grad, exact.grad, 10 * FLOAT32)  # the sine's slope amplifies the rounding of its argument


@pytest.mark.parametrize("which", ["native", "rounded"])
def test_bfloat16_rounds_factors_and_product(which, monkeypatch):
    chosen = {"native": "bfloat16", "rounded": "rounded"}[which]
    monkeypatch.setattr(kernels, "_choose", lambda seconds: chosen if chosen in seconds else next(iter(seconds)))
    x, w, b, dy = tensors(64, 96, 32)
    X, W, dY = (t.bfloat16().double() for t in (x, w, dy))
    close(kernels.forward(x, w, b, "bfloat16") - b, X @ W.t(), BFLOAT16)
    close(kernels.input_gradient(dy, w, "bfloat16"), dY @ W, BFLOAT16)
    close(kernels.weight_gradient(dy, x, "bfloat16"), dY.t() @ X, BFLOAT16)
    off = (kernels.forward(x, w, None, "bfloat16") - x.double() @ w.double().t()).abs().max()
    assert off > 100 * FLOAT32  # it does round


def test_a_faster_kernel_is_taken_and_kept(monkeypatch):
    calls = []

    def slow(x, w, b):
        calls.append("slow")
        for _ in range(50):
            functional.linear(x, w, b)
        return functional.linear(x, w, b)

    def fast(x, w, b):
        calls.append("fast")
        return functional.linear(x, w, b)

    monkeypatch.setattr(kernels, "available", lambda: {"torch": slow, "onednn": fast})
    x, w, *_ = tensors(300, 128, 101)
    kernels.forward(x, w, None)
    assert kernels.used() == {"forward 512x128x128": "onednn"}
    calls.clear()
    kernels.forward(x[:290], w, None)  # the same class
    assert calls == ["fast"]


@pytest.mark.parametrize(("seconds", "taken"), [((1.0, 0.85), "torch"), ((1.0, 0.5), "onednn"), ((1.0, 2.0), "torch")])
def test_torch_stays_unless_another_is_clearly_faster(seconds, taken):
    assert kernels._choose(dict(zip(("torch", "onednn"), seconds))) == taken


def test_other_types_and_small_products_are_plain_torch(monkeypatch):
    x, w, b, _ = tensors(30, 8, 4)
    for other in (torch.float64, torch.bfloat16):
        result = kernels.linear(x.to(other), w.to(other), b.to(other))
        assert torch.equal(result, functional.linear(x.to(other), w.to(other), b.to(other)))
    monkeypatch.setattr(kernels, "SMALL", 2**22)
    assert torch.equal(kernels.linear(x, w, b), functional.linear(x, w, b))
    assert kernels.used() == {}


def test_fast_linears_leave_a_model_as_it_was():
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 3))
    x = torch.randn(20, 16)
    before = model(x)
    with kernels.fast_linears(model):
        torch.testing.assert_close(model(x), before)
        assert len(kernels.used()) == 2
    assert [type(layer) for layer in model] == [nn.Linear, nn.GELU, nn.Linear]


def test_a_kernel_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "onednm")
    with pytest.raises(SpecError, match=r"unknown kernel in SOFTMAXLAB_KERNEL 'onednm'"):
        kernels.forward(*tensors(4, 4, 4)[:2], None)


def test_bfloat16_is_of_float32_tensors():
    x, w, *_ = tensors(4, 4, 4, torch.float64)
    with pytest.raises(SpecError, match=r"rounds float32 tensors, got torch\.float64"):
        kernels.linear(x, w, precision="bfloat16")
