"""Small language models: training lowers the loss, the map and its biases survive the way to disk."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch

from softmaxlab import simulate
from softmaxlab.errors import SpecError
from softmaxlab.probing import load, loss, quantised
from softmaxlab.training.language_model import LanguageModel, build, corpus, train_and_save, trained

TINY = {"vocab": 300, "layers": 1, "heads": 2, "width": 16, "context": 64, "batch": 4, "lr": 1e-2}
OPEN = 50.0  # a gate of 1 in float32
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


def test_a_closed_gate_lets_nothing_through_and_an_open_one_all():
    plain, gated = (build(LanguageModel(**TINY, gate=gate)).eval() for gate in (False, True))
    gate = gated.model.layers[0].self_attn.o_proj.gate
    tokens = torch.arange(64)[None]
    with torch.no_grad():
        gate.weight.zero_()
        gate.bias.fill_(OPEN)
        torch.testing.assert_close(gated(tokens).logits, plain(tokens).logits)
        gate.bias.copy_(torch.tensor([OPEN, -OPEN]))
        plain.model.layers[0].self_attn.o_proj.weight[:, 8:] = 0  # what the second head gives
        torch.testing.assert_close(gated(tokens).logits, plain(tokens).logits)


def test_a_gate_is_learned_and_follows_the_token():
    model, *_, result = trained(LanguageModel(**TINY, steps=30, gate=True))
    gate = model.model.layers[0].self_attn.o_proj.gate
    start = build(LanguageModel(**TINY, gate=True)).model.layers[0].self_attn.o_proj.gate
    assert (gate.weight - start.weight).abs().max() > 0.01
    assert result["train_loss"][-5:].mean() < result["train_loss"][:5].mean() - 0.3


def test_a_copy_has_gates_of_its_own():
    model = build(LanguageModel(**TINY, gate=True)).eval()
    tokens = torch.arange(64)[None]
    before = model(tokens).logits
    copied = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    with torch.no_grad():
        torch.testing.assert_close(copied(tokens).logits, before)
        copied.model.layers[0].self_attn.o_proj.gate.bias.fill_(-OPEN)
        torch.testing.assert_close(model(tokens).logits, before)
        assert (copied(tokens).logits - before).abs().max() > 1e-4


def test_a_fixed_bias_stays():
    *_, biases, result = trained(LanguageModel(map="softmax1", bias=2.0, **TINY, steps=3))
    assert [b.tolist() for b in biases.values()] == [[2.0, 2.0]]
    learned = simulate(LanguageModel(map="softmax1", **TINY, steps=3))
    assert np.abs(learned["bias"]).max() > 1e-4
    assert float(result["total"].mean()) < float(learned["total"].mean())


def test_rounding_to_int8_and_massive_activations_are_measured():
    spec = LanguageModel(**TINY, steps=3)
    model, *_, result = trained(spec)
    assert result["massive"].shape == (1,)
    assert result["massive"][0] > 1
    _, _, test = corpus(300)
    held_out = [{"input_ids": part} for part in test[: len(test) // 64 * 64].view(-1, 64).split(32)]
    with quantised(model):
        assert loss(model, held_out).mean == pytest.approx(float(result["int8_loss"]), rel=SAME)


def test_a_gated_model_is_not_saved(tmp_path):
    with pytest.raises(SpecError, match="gate must be False"):
        train_and_save(LanguageModel(**TINY, gate=True), tmp_path / "model")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"map": "sofmax"}, "did you mean 'softmax'"),
        ({"map": "elu_elu"}, "acts on queries and keys"),
        ({"bias": 1.0}, "bias must not be given for map 'softmax'"),
        ({"heads": 3}, "multiple of twice the heads"),
    ],
)
def test_bad_settings(wrong, message):
    with pytest.raises(SpecError, match=message):
        LanguageModel(**wrong)
