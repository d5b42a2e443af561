"""Plain arrays of weights give the table that watching the model gives."""

import numpy as np
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing import watch
from softmaxlab.probing.streaming.from_weights import from_weights
from tests.probing.families import batch, build, dense_layers, paddings

AGREES = 1e-5  # float32 weights on both sides
VALUED = ("sink_value", "sink_value_se", "sink_output", "sink_output_se")
CASES = [(name, kind) for name in ("gpt2", "bert", "mistral", "gpt_oss", "vit") for kind in paddings(name)]
WEIGHTS_LACK = ("module", "max_logit")  # names and scores


def arrays_of(name: str, kind: str):
    """The watched report, and what `from_weights` takes: weights, mask and values."""
    model, inputs = build(name), batch(name, kind)
    _, layers = dense_layers(name, model, inputs)
    with torch.no_grad(), watch(model) as w:
        model(**inputs)
    weights = np.stack([layer.w.swapaxes(0, 1) for layer in layers.values()])
    values = np.stack([layer.v.swapaxes(0, 1) for layer in layers.values()])
    return w.report(), weights, next(iter(layers.values())).keys, values


def assert_equal(found, expected, skipped=WEIGHTS_LACK) -> None:
    assert list(found.columns) == list(expected.columns)
    for column in set(found.columns) - set(skipped):
        np.testing.assert_allclose(found[column], expected[column], atol=AGREES, rtol=AGREES, err_msg=column)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_equals_watch(name, kind):
    expected, weights, mask, values = arrays_of(name, kind)
    nowhere = name == "gpt_oss"
    assert_equal(from_weights(weights, mask, values, leaks_weight=nowhere), expected)
    found = from_weights(weights, mask, leaks_weight=nowhere)
    assert_equal(found, expected, skipped=(*WEIGHTS_LACK, *VALUED))
    assert found[[*VALUED, "max_logit"]].isna().all(axis=None)


def test_torch_lists_and_lazy_layers_are_the_same():
    expected, weights, mask, values = arrays_of("llama", "left")
    for given in (torch.from_numpy(weights), list(weights), (layer for layer in weights), weights.astype(np.float64)):
        assert_equal(from_weights(given, torch.from_numpy(mask), values), expected)


def test_last_queries_alone():
    """Decoding keeps only the new queries: fewer rows than keys."""
    _, weights, mask, _ = arrays_of("gpt2", "no")
    found = from_weights(weights[..., 12:, :], mask)
    np.testing.assert_allclose(found["sparsity"], weights[..., 12:, :].max(-1).mean(axis=(2, 3)).ravel(), atol=AGREES)
    assert set(found["queries"]) == {3 * 7}


GOOD = np.full((1, 2, 3, 4, 4), 0.25)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": GOOD[0]}, "weights must have five axes, the first one layers, got 4"),
        ({"weights": 3.0}, "weights must be an array with five axes or an iterable of layers, got float"),
        ({"weights": [GOOD]}, "a layer of weights must be numbers"),
        ({"weights": [np.full((2, 3, 4, 4), "a")]}, "a layer of weights must be numbers"),
        ({"weights": []}, "weights must hold at least one layer"),
        ({"weights": np.ones((1, 2, 3, 5, 4))}, "at least as many keys as queries, got 5 and 4"),
        ({"weights": GOOD * np.nan}, "weights of layer 0 must be finite"),
        ({"weights": GOOD, "mask": np.ones((3, 5))}, r"mask must be \[sample, token\] = \[3, 4\], got \[3, 5\]"),
        ({"weights": GOOD, "mask": np.zeros((3, 4))}, "mask must leave at least one token"),
        ({"weights": GOOD, "values": np.ones((1, 2, 3, 5, 8))}, r"values of layer 0 must be \[2, 3, 4, dimension\]"),
        ({"weights": [GOOD[0]] * 2, "values": np.ones((1, 2, 3, 4, 8))}, "as many layers as weights, got 1"),
        ({"weights": GOOD, "eps": 1.5}, "eps must lie between 0 and 1"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(SpecError, match=message):
        from_weights(**given)
