"""Trained checkpoints as plain arrays, and the probing report on them."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.from_weights import from_weights
from softmaxlab.training.heads import attention_weights

ROUND_OFF = 1e-12  # the same float64 weights on both sides
REPORTED = 1e-6  # the report multiplies visible keys in float32


def trained(map: str):
    task = sl.training.Induction(vocab=11, tokens=5, train=64, evaluate=20)
    spec = sl.training.Run(task=task, width=16, heads=2, layers=2, map=map, epochs=1, batch=32)
    return sl.training.train(spec)[0], spec


def test_checkpoint_gives_the_weights_of_its_heads(tmp_path):
    model, spec = trained("softmax")
    path = sl.training.save(model, spec, tmp_path / "run.safetensors")
    found = attention_weights(path)
    T = spec.task.length()
    assert found.shape == (2, 2, 20, T, T)
    np.testing.assert_allclose(found, attention_weights((model, spec)), atol=ROUND_OFF)
    np.testing.assert_array_equal(attention_weights(path, samples=3), found[:, :, :3])
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=REPORTED)
    assert (found[..., 0, 1:] == 0).all()  # the first query sees only itself


@pytest.mark.parametrize("map", ["softmax", "softmax1", "sigmoid", "relu"])
def test_report_of_a_checkpoint_equals_plain_measures(map):
    weights = attention_weights(trained(map))
    table = from_weights(weights, leaks_weight=map == "softmax1")
    total = weights.sum(axis=-1)
    some = (weights != 0).any(axis=-1)  # relu may leave a query without weight
    np.testing.assert_allclose(table["total"], total.mean(axis=(2, 3)).ravel(), atol=REPORTED)
    np.testing.assert_allclose(table["empty"], 1 - some.mean(axis=(2, 3)).ravel(), atol=REPORTED)
    for column, rows in {"sparsity": weights.max(axis=-1), "sink": weights[..., 0]}.items():
        share = np.where(some, rows / np.where(some, total, 1), 0).sum(axis=(2, 3)) / some.sum(axis=(2, 3))
        np.testing.assert_allclose(table[column], share.ravel(), atol=REPORTED, err_msg=column)
    assert (table["sequences"] == 20).all()


def test_impossible_number_of_samples_is_refused():
    with pytest.raises(SpecError, match="samples must lie between 1 and 20, got 21"):
        attention_weights(trained("softmax"), samples=21)
