"""Small language models: training lowers the loss, the map and its biases survive the way to disk."""

import math

import numpy as np
import pytest

from softmaxlab import simulate
from softmaxlab.errors import SpecError
from softmaxlab.probing import load, loss
from softmaxlab.probing.small import LanguageModel, corpus, train_and_save

TINY = {"vocab": 300, "layers": 1, "heads": 2, "width": 16, "context": 64, "batch": 4, "lr": 1e-2}
SAME = 1e-5  # float32 weights, written and read as they are


@pytest.fixture(scope="module")
def text():
    return corpus(300)


def test_the_unigram_loss_is_the_cross_entropy_of_frequencies(text):
    _, train, test = text
    r = simulate(LanguageModel(**TINY, steps=1))
    counts = np.bincount(train, minlength=300) + 1.0
    cut = test[: len(test) // 64 * 64].reshape(-1, 64)[:, 1:].numpy()
    assert float(r["unigram_loss"]) == pytest.approx(-np.log(counts / counts.sum())[cut].mean(), rel=1e-9)
    assert float(r["loss"]) == pytest.approx(math.log(300), rel=0.05)  # a model that was not trained knows nothing


def test_training_learns_and_is_the_same_for_the_same_seed():
    one, other = (simulate(LanguageModel(**TINY, steps=40)) for _ in range(2))
    np.testing.assert_array_equal(one["train_loss"], other["train_loss"])
    assert one["train_loss"][-5:].mean() < one["train_loss"][:5].mean() - 0.3
    assert one["sparsity"].shape == (1, 2)


@pytest.mark.parametrize("map", ["softmax", "sigmoid", "softmax1"])
def test_what_is_saved_computes_with_its_map(map, tmp_path, text):
    spec = LanguageModel(map=map, **TINY, steps=3)
    result = train_and_save(spec, tmp_path / "model")
    loaded = load(str(tmp_path / "model"))
    _, _, test = text
    held_out = [{"input_ids": test[: len(test) // 64 * 64].view(-1, 64)}]
    assert loss(loaded.model, held_out).mean == pytest.approx(float(result["loss"]), rel=SAME)
    assert loaded.tokenizer("And God said").input_ids == text[0]("And God said").input_ids


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"map": "sofmax"}, "did you mean 'softmax'"),
        ({"map": "elu_elu"}, "acts on queries and keys"),
        ({"heads": 3}, "multiple of twice the heads"),
    ],
)
def test_bad_settings(wrong, message):
    with pytest.raises(SpecError, match=message):
        LanguageModel(**wrong)
