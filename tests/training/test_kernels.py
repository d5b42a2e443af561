"""Training through every kernel is training: losses of 50 steps and weights as those of the plain model."""

import numpy as np
import pytest
import torch
from torch.nn import functional

import softmaxlab as sl
from softmaxlab.attention import MAPS
from softmaxlab.core import kernels
from softmaxlab.training import Classification, Induction, Run
from softmaxlab.training import mlp as mlp_module
from softmaxlab.training.compiled.gelu import bias_gelu
from softmaxlab.training.loop import batches, train
from softmaxlab.training.run import build, optimizer_of
from tests.training import plain

GELU = 4e-7  # torch's own GELU is off by as much in float32, for |x| up to 12
LOSS = 1e-4  # relative, float32: AdamW amplifies the rounding of small gradients for 50 steps
WEIGHTS = 2e-5  # after 50 steps of SGD
FIRST_KEY = "da93393fcd34d96974b87cfd"  # of the default induction run, when runs had no precision


@pytest.fixture
def every_size(monkeypatch):
    """Kernels for small products too, and the one pass of the MLP."""
    monkeypatch.setattr(kernels, "SMALL", 0)
    monkeypatch.setattr(mlp_module, "SMALL", 0)
    monkeypatch.setattr(kernels, "_chosen", {})
    kernels.forget_used()


def test_gelu_and_its_slope():
    x = np.linspace(-12, 12, 20_001, dtype=np.float32)[:, None]
    slope, out, bias = x.copy(), np.empty_like(x), np.array([0.5], dtype=np.float32)
    bias_gelu(slope, bias, out)
    exact = torch.tensor(x + bias, dtype=torch.float64, requires_grad=True)
    value = functional.gelu(exact)
    value.sum().backward()
    assert np.abs(out - value.detach().numpy()).max() < GELU
    assert np.abs(slope - exact.grad.numpy()).max() < GELU  # type: ignore[union-attr]


@pytest.mark.parametrize("given", [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0])
def test_gelu_of_extreme_numbers(given):
    x, out = np.full((1, 1), given, dtype=np.float32), np.empty((1, 1), dtype=np.float32)
    bias_gelu(x, np.zeros(1, dtype=np.float32), out)
    exact = float(functional.gelu(torch.tensor(given)))
    if np.isfinite(given):
        assert out[0, 0] == pytest.approx(exact, abs=1e-30)
    else:
        assert not np.isfinite(out[0, 0]) or out[0, 0] == exact


def small(map, task=None):
    task = task or Induction(vocab=9, tokens=5, train=200)
    return Run(task, heads=2, width=16, epochs=8, batch=32, map=map)


def losses(model, spec, optimizer):
    data, order = spec.task.data(0, "train"), list(batches(200, 32, 8, 0, "cpu"))[:50]
    return [s.loss.item() for s in train(model, data, optimizer, iter(order), spec.task.weight_elsewhere())]


def plain_losses(model, spec, optimizer):
    """As one would write it, in double precision."""
    data, kept = spec.task.data(0, "train"), []
    for _, part, _ in list(batches(200, 32, 8, 0, "cpu"))[:50]:
        optimizer.zero_grad()
        loss = plain.loss(model, data.tokens[part], data.targets[part], spec.task.weight_elsewhere())
        loss.backward()
        optimizer.step()
        kept.append(loss.item())
    return kept


@pytest.mark.parametrize("kernel", list(kernels.available()))
@pytest.mark.parametrize("map", sorted(set(MAPS) - {"sum"}))
def test_50_steps_of_every_map_with_every_kernel(map, kernel, every_size, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, kernel)
    spec = small(map)
    ours, exact = build(spec), build(spec).double()
    found = losses(ours, spec, optimizer_of(spec, ours))
    assert set(kernels.used().values()) == {kernel}
    assert found == pytest.approx(plain_losses(exact, spec, optimizer_of(spec, exact)), rel=LOSS)
    assert found[-1] < 0.99 * found[0]  # the weights did move


@pytest.mark.parametrize("kernel", list(kernels.available()))
@pytest.mark.parametrize("task", [None, Classification(vocab=19, labels=3, tokens=4, train=200)])
def test_weights_after_50_steps_of_sgd(task, kernel, every_size, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, kernel)
    spec = small("softmax", task)
    ours, exact = build(spec), build(spec).double()
    losses(ours, spec, torch.optim.SGD(ours.parameters(), lr=0.1))
    plain_losses(exact, spec, torch.optim.SGD(exact.parameters(), lr=0.1))
    for one, other in zip(ours.parameters(), exact.parameters()):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=WEIGHTS)


def test_precision_is_an_option_that_leaves_older_keys_alone():
    assert Run(Induction()).key == FIRST_KEY
    assert Run(Induction(), precision="bfloat16").key != FIRST_KEY
    assert "precision" not in Run(Induction()).plain()
    assert Run(Induction(), precision="bfloat16").plain()["precision"] == "bfloat16"


def test_a_run_in_bfloat16_learns_and_differs_by_rounding(every_size):
    spec = small("softmax")
    both = [sl.simulate(spec.replace(precision=precision)) for precision in ("float32", "bfloat16")]
    one, other = (r["train_loss"] for r in both)
    assert other[-1] < 0.9 * other[0]
    assert 0 < np.abs(one - other).max() < 0.02 * one[0]
    assert all(p.dtype is torch.float32 for p in build(spec.replace(precision="bfloat16")).parameters())


def test_a_result_says_which_kernels_made_it(every_size, monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "torch")
    result = sl.simulate(small("softmax").replace(epochs=1))
    assert set(result.provenance["kernels"].values()) == {"torch"}
    assert any(name.startswith("weight_gradient") for name in result.provenance["kernels"])
