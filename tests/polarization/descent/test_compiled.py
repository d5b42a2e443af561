"""The compiled descent against a plain loop, autograd and torch.optim, for every loss, map and model."""

import itertools

import numpy as np
import pytest
import torch

import softmaxlab as sl
from softmaxlab.core.exponential import exp
from softmaxlab.polarization import Descent
from softmaxlab.polarization.descent.compiled.engines import Full
from softmaxlab.polarization.descent.compiled.maps import CODES
from tests.polarization import plain_loop
from tests.polarization.descent_cases import LOSSES, MODELS, fields, rows_and_values

STEPS, LR = 1000, 0.005
SAME = 1e-12  # relative to the largest entry: 1000 steps of rounding, 1e-16 each, grow like their number at most
OF_AUTOGRAD = 1e-13  # one gradient, a few dozen operations
OF_TORCH = 1e-12  # 200 steps
OPTIMIZERS = {
    "gd": lambda parameters, lr, decay: torch.optim.SGD(parameters, lr, weight_decay=decay),
    "momentum": lambda parameters, lr, decay: torch.optim.SGD(parameters, lr, momentum=0.9, weight_decay=decay),
    "adam": lambda parameters, lr, decay: torch.optim.Adam(parameters, lr, weight_decay=decay),
    "adamw": lambda parameters, lr, decay: torch.optim.AdamW(parameters, lr, weight_decay=decay),
}
PROBLEMS = [
    ("logistic", "softmax", "value"),
    ("square", "sigmoid_norm", "value"),
    ("regression", "softmax1", "value"),
    ("cross_entropy", "elu", "matrix"),
    ("logistic", "softmax", "tied"),
    ("dataset", "sigmoid", "matrix"),
]


def difference(ours, truth) -> float:
    ours, truth = np.asarray(ours), np.asarray(truth)
    assert ours.shape == truth.shape
    return float(np.abs(ours - truth).max() / np.abs(truth).max())


def torch_loss(case: dict, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """L by torch, from softmaxlab.attention's maps."""
    data = {name: torch.tensor(case[name]) for name in ("beta", "X", "target") if name in case}
    a, V = rows_and_values({**case, **tensors})
    z = (V @ a[0])[None] if case["model"] == "tied" else a
    outputs = sl.attention.weights(case["map"], z[None])[0] @ V.T
    return torch.stack([_torch_loss(case["loss"], beta, data) for beta in outputs]).mean()


def _torch_loss(loss: str, beta: torch.Tensor, data: dict[str, torch.Tensor]) -> torch.Tensor:
    softplus = torch.nn.functional.softplus
    return {
        "logistic": lambda: softplus(-data["beta"] @ beta),
        "square": lambda: (data["beta"] - beta).square().sum() / 2,
        "regression": lambda: (data["beta"] - data["X"] @ beta).square().sum(),
        "cross_entropy": lambda: -data["target"] @ torch.log_softmax(beta, dim=0),
        "kl": lambda: -data["target"] @ torch.log(beta),
        "dataset": lambda: softplus(-data["target"] * (data["X"] @ beta)).mean(),
    }[loss]()


def leaves(case: dict) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(case[name], requires_grad=True) for name in ("V", "U", "A", "a") if name in case}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("map", CODES)
@pytest.mark.parametrize("loss", LOSSES)
def test_plain_loop_has_the_gradient_of_autograd(loss, map, model):
    case = fields(loss, map, model)
    tensors = leaves(case)
    torch_loss(case, tensors).backward()
    grad_a, grad_V = plain_loop.gradients((loss, map, model), case, *rows_and_values(case))
    true = {name: np.zeros(x.shape) if x.grad is None else x.grad.numpy() for name, x in tensors.items()}
    true_a, true_V = rows_and_values({"model": model, **true})
    assert difference(grad_V, true_V) < OF_AUTOGRAD
    assert np.abs(grad_a - true_a).max() < OF_AUTOGRAD * max(1, np.abs(true_a).max())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("map", CODES)
@pytest.mark.parametrize("loss", LOSSES)
def test_compiled_is_the_plain_loop(loss, map, model):
    case = fields(loss, map, model)
    a, V = plain_loop.descend((loss, map, model), case, *rows_and_values(case), lr=LR, steps=STEPS)
    spec = Descent(**case, lr=LR, steps=STEPS)
    engine = Full(spec)
    assert engine.advance(0, STEPS) == STEPS
    ours_a, ours_V = rows_and_values({"model": model, **engine.parameters()})
    assert difference(ours_a, a) < SAME
    assert difference(ours_V, V) < SAME


@pytest.mark.parametrize("map", CODES)
def test_reduced_is_the_plain_loop(map):
    case = fields("logistic", map, "value")
    a, V = plain_loop.descend(("logistic", map, "value"), case, *rows_and_values(case), lr=LR, steps=STEPS)
    result = sl.simulate(Descent(**case, lr=LR, steps=STEPS))
    assert result.notes["path"] == "reduced"
    assert difference(result["a"][-1], a[0]) < SAME
    assert difference(result["V"][-1], V) < SAME


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("problem", PROBLEMS, ids="-".join)
def test_optimizers_are_those_of_torch(problem, optimizer, decay):
    case = fields(*problem)
    tensors = leaves(case)
    steps, lr = 200, 0.01
    torch_steps = OPTIMIZERS[optimizer](tensors.values(), lr, decay)
    for _ in range(steps):
        torch_steps.zero_grad()
        torch_loss(case, tensors).backward()
        torch_steps.step()
    spec = Descent(**case, lr=lr, steps=steps, optimizer=optimizer, weight_decay=decay)
    result = sl.simulate(spec)
    for name, x in tensors.items():
        assert difference(result[name][-1], x.detach().numpy()) < OF_TORCH


def test_exponential_to_the_last_place():
    x = -np.concatenate([np.linspace(0, 40, 200_001), np.geomspace(1e-20, 708, 100_000)])
    true = np.exp(x.astype(np.longdouble))
    ours = np.array([exp(value) for value in x])
    assert np.abs((ours - true) / np.spacing(true.astype(float))).max() < 1


def test_exponential_at_the_ends():
    assert [exp(value) for value in (0.0, -0.0, -709.0, -1e300, -np.inf)] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert np.isnan(exp(np.nan))


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(OPTIMIZERS, 2)))
def test_optimizers_differ_from_each_other(first, second):
    case = fields("logistic", "softmax", "value")
    ends = [
        sl.simulate(Descent(**case, lr=LR, steps=20, optimizer=name, weight_decay=0.1))["a"][-1]
        for name in (first, second)
    ]
    assert difference(*ends) > 1e6 * SAME
