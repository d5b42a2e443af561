"""Every way to get a problem wrong: one line that names the field, raised before any work."""

import numpy as np
import pytest

from softmaxlab import SpecError
from softmaxlab.polarization import Flow, Problem, register
from tests.polarization.flow_cases import fields, figure_two

rng = np.random.default_rng(0)
LOGISTIC = figure_two(p=4)
ENTROPY = fields("cross_entropy", "softmax", "value", 0)
TIED = fields("logistic", "softmax", "tied", 0)
MATRIX = fields("logistic", "softmax", "matrix", 0)
DATASET = fields("dataset", "softmax", "value", 0)
NAN = np.array([np.nan, 0, 0, 0])

REFUSED = [
    (LOGISTIC | {"loss": "logistik"}, "did you mean 'logistic'"),
    (LOGISTIC | {"map": "softmx"}, "did you mean 'softmax'"),
    (LOGISTIC | {"model": "values"}, "model"),
    (LOGISTIC | {"freeze": "U"}, "freeze"),
    (LOGISTIC | {"bta": 1}, "did you mean 'beta'"),
    (LOGISTIC | {"beta": None}, "beta is required for loss 'logistic'"),
    (LOGISTIC | {"a": None}, "a is required for model 'value'"),
    (LOGISTIC | {"U": np.eye(4)}, "U is not used by model 'value'"),
    (LOGISTIC | {"X": np.eye(4)}, "X is not used by loss 'logistic'"),
    (ENTROPY | {"beta": np.ones(3)}, "beta is not used by loss 'cross_entropy'"),
    (LOGISTIC | {"a": NAN}, "a: must be finite, found nan"),
    (LOGISTIC | {"V": np.full((4, 4), np.inf)}, "V: must be finite"),
    (LOGISTIC | {"beta": np.zeros(4)}, "beta must not be zero"),
    (LOGISTIC | {"beta": np.ones(3)}, "beta must match V"),
    (LOGISTIC | {"a": np.zeros(5)}, "a must match V"),
    (LOGISTIC | {"a": np.zeros((4, 1))}, "a must be a non-empty vector"),
    (LOGISTIC | {"V": np.zeros((0, 4)), "beta": np.zeros(0)}, "non-empty"),
    (LOGISTIC | {"a": ["x", "y"]}, "array of real numbers"),
    (LOGISTIC | {"map": "mlp"}, "acts on queries and keys"),
    (LOGISTIC | {"map": "elu_elu_norm"}, "acts on queries and keys"),
    (LOGISTIC | {"map": "relu_norm"}, "divides by zero"),
    (LOGISTIC | {"map": "abs_norm"}, "divides by zero"),
    (LOGISTIC | {"map": "square_norm"}, "divides by zero"),
    (LOGISTIC | {"map": "sum", "a": np.array([0.1, 0.2, -0.3, 0.0])}, "divides by zero"),
    (LOGISTIC | {"map": "relu_norm", "a": -np.ones(4)}, "divides by zero"),
    (LOGISTIC | {"map": "relu"}, "can never move"),
    (LOGISTIC | {"map": "square"}, "can never move"),
    (LOGISTIC | {"map": "relu", "a": -np.ones(4)}, "can never move"),
    (TIED | {"U": np.ones((4, 3))}, "U must be square"),
    (TIED | {"freeze": "V"}, "freeze='V' has no meaning"),
    (TIED | {"map": "sum", "a": np.zeros(4)}, "U a is a point where map 'sum' divides by zero"),
    (MATRIX | {"A": np.zeros((4, 5))}, "A must be square"),
    (MATRIX | {"V": np.zeros((5, 3))}, "V must match A"),
    (MATRIX | {"beta": np.ones(4)}, "beta must match V"),
    (ENTROPY | {"target": np.array([0.5, 0.6, -0.1])}, "target must be a distribution"),
    (ENTROPY | {"target": np.ones(3)}, "sum 3"),
    (ENTROPY | {"target": np.ones(4) / 4}, "target must match V"),
    (ENTROPY | {"loss": "kl", "V": -np.ones((3, 4))}, "infinite at β_i ≤ 0"),
    (DATASET | {"target": np.array([1.0, 2, 1, 1, 1])}, "labels"),
    (DATASET | {"target": np.ones(4)}, "target must match X"),
    (DATASET | {"X": np.ones((5, 2))}, "X must match V"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_bad_problems_are_refused_in_one_line(given, sentence):
    with pytest.raises(SpecError) as error:
        Problem(**given)
    message = str(error.value)
    assert sentence in message
    assert "\n" not in message
    assert len(message) < 200


BAD_FLOWS = [
    ({"t_end": 0.0}, "t_end"),
    ({"t_end": -1.0}, "t_end"),
    ({"t_end": np.inf}, "t_end"),
    ({"t_end": np.nan}, "t_end"),
    ({"t_end": "long"}, "t_end"),
    ({}, "t_end is required"),
    ({"t_end": 1.0, "points": 1}, "points"),
    ({"t_end": 1.0, "points": 2.5}, "points"),
    ({"t_end": 1.0, "rtol": 0.0}, "rtol"),
    ({"t_end": 1.0, "rtol": 1e-20}, "rtol"),
    ({"t_end": 1.0, "solver": "dopri5"}, "solver"),
]


@pytest.mark.parametrize(("given", "sentence"), BAD_FLOWS)
def test_bad_flows_are_refused(given, sentence):
    with pytest.raises(SpecError, match=sentence):
        Flow(**LOGISTIC, **given)


def test_good_problems_are_accepted():
    for given in (LOGISTIC, ENTROPY, TIED, MATRIX, DATASET, DATASET | {"target": None}):
        Problem(**given)
    # zero scores are fine where f(0) is not 0, or where the slope is not
    for map in ("softmax", "sigmoid", "elu_norm", "linear", "linear_norm", "uniform"):
        Problem(**LOGISTIC | {"map": map})
    by_position = Flow("logistic", "softmax", "value", *(LOGISTIC[x] for x in ("beta", "V", "a")), t_end=1.0)
    assert by_position == Flow(**LOGISTIC, t_end=1.0)


def test_bad_losses_are_refused():
    with pytest.raises(SpecError, match="function of the output, then any of beta, X, target"):
        register(lambda output, gamma: output)
    with pytest.raises(SpecError, match="takes a function"):
        register(3)
    with pytest.raises(SpecError, match="registered already"):
        register(lambda output: output.sum(), name="logistic")
    register(lambda output: output, name="not_scalar")
    register(lambda output: output @ output[:2], name="wrong_shape")
    register(lambda output: (output - output).sum() / 0, name="not_finite")
    for name, sentence in (
        ("not_scalar", "must return one number"),
        ("wrong_shape", "fails on an output of size 4"),
        ("not_finite", "not finite at the start"),
    ):
        with pytest.raises(SpecError, match=sentence):
            Problem(**LOGISTIC | {"loss": name, "beta": None})
