"""gradient_flow of any torch loss: against the laboratory's own flow and against closed forms."""

import numpy as np
import pytest
import torch

from softmaxlab import SpecError, simulate
from softmaxlab.core.result import Outcome
from softmaxlab.polarization import gradient_flow
from tests.polarization.autograd import torch_loss
from tests.polarization.flow_cases import MODELS, flow

AGREEMENT = 1e-8  # two flows at rtol 1e-11


@pytest.mark.parametrize("model", MODELS)
def test_it_is_the_laboratorys_flow(model):
    spec = flow("logistic", "softmax", model, 0, t_end=1e4, points=12, rtol=1e-11)
    general = gradient_flow(lambda tensors: torch_loss(spec, tensors), spec.start(), t_end=1e4, points=12, rtol=1e-11)
    own = simulate(spec)
    np.testing.assert_array_equal(general["t"], own["t"])
    for name in ("loss", *spec.start()):
        np.testing.assert_allclose(general[name], own[name], rtol=0, atol=AGREEMENT * np.abs(own[name]).max())


def test_tensors_by_name_or_in_a_dict():
    start = {"x": torch.tensor([1.0, 2.0]), "y": 3.0}
    by_name = gradient_flow(lambda x, y: (x**2).sum() / 2 + y**2, start, t_end=3.0, points=5, rtol=1e-12)
    in_dict = gradient_flow(lambda p: (p["x"] ** 2).sum() / 2 + p["y"] ** 2, start, t_end=3.0, points=5, rtol=1e-12)
    any_name = gradient_flow(lambda **p: (p["x"] ** 2).sum() / 2 + p["y"] ** 2, start, t_end=3.0, points=5, rtol=1e-12)
    for result in (by_name, in_dict, any_name):
        assert result.status.ok
        np.testing.assert_allclose(result["x"], np.exp(-result["t"])[:, None] * [1.0, 2.0], atol=1e-10)
        np.testing.assert_allclose(result["y"], 3 * np.exp(-2 * result["t"]), atol=1e-10)
        assert result.axes["x"] == ("t", "x_0")
        assert result["t"][-1] == 3.0


def test_a_divergence_is_a_status():
    result = gradient_flow(lambda x: -(x**2).sum(), {"x": np.ones(2)}, t_end=1e6)
    assert result.status.outcome is Outcome.DIVERGED
    assert np.isfinite(result["x"]).all()


def square(x):
    return (x**2).sum()


@pytest.mark.parametrize(
    ("loss", "params", "more", "sentence"),
    [
        (square, {}, {}, "at least one"),
        (square, {"t": np.ones(1)}, {}, "not 't' or 'loss'"),
        (square, {"x": [np.nan]}, {}, "finite"),
        (square, {"x": [1.0]}, {"t_end": 0.0}, "t_end"),
        (square, {"x": [1.0]}, {"points": 1}, "points"),
        (square, {"x": [1.0]}, {"rtol": 1e-30}, "rtol"),
        (square, {"w": [1.0]}, {}, "loss_fn fails"),
        (lambda x: x, {"x": [1.0, 2.0]}, {}, "one number"),
        (lambda x: 3.0, {"x": [1.0]}, {}, "one number"),
        (lambda x: torch.log(-(x**2).sum()), {"x": [1.0]}, {}, "not finite"),
    ],
)
def test_bad_input(loss, params, more, sentence):
    with pytest.raises(SpecError, match=sentence):
        gradient_flow(loss, params, **{"t_end": 1.0} | more)


@pytest.mark.parametrize(("rate", "rtol"), [(1e-9, 1e-9), (1e-13, 1e-9), (1e-10, 1e-6)])
def test_two_time_scales_are_both_followed(rate, rtol):
    """e^{−10}, long after x has settled at a large value."""
    result = gradient_flow(
        lambda x, y: 0.5 * (x - 1e4) ** 2 + 0.5 * rate * y**2, {"x": 1.0, "y": 1.0}, t_end=10 / rate, rtol=rtol
    )
    assert result["y"][-1] == pytest.approx(np.exp(-10), rel=1e4 * rtol)
    assert "at_rest_from" not in result.notes


def test_rest_is_said():
    result = gradient_flow(lambda x: (x - 1) ** 2, {"x": 0.0}, t_end=1e100)
    assert result["x"][-1] == pytest.approx(1.0, rel=1e-12)
    assert result.notes["at_rest_from"] < 1e9
