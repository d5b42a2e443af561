"""The loss against log-probabilities summed by hand, and the standard error of a change."""

import math

import numpy as np
import pytest
import torch
import transformers as tf

from softmaxlab.errors import SpecError
from softmaxlab.probing.inference import as_batches
from softmaxlab.probing.next_token_loss import Loss, change, loss
from tests.probing import families
from tests.probing.families import batch, build

ROUND_OFF = 1e-5  # float32 logits of a tiny model, sums of about 20 nats each of relative error 1e-7
EXACT = 1e-12  # float64 arithmetic on a few numbers


def by_hand(model, ids: torch.Tensor) -> float:
    """Σ −log p of one sequence without padding, in float64."""
    with torch.no_grad():
        logits = model(input_ids=ids[None]).logits[0].double().numpy()
    logits = logits - logits.max(axis=-1, keepdims=True)
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return sum(-math.log(p[t, ids[t + 1]]) for t in range(len(ids) - 1))


@pytest.mark.parametrize("kind", families.PADDING)
def test_loss_of_each_sequence_is_that_of_the_sequence_alone(kind):
    model, inputs = build("llama"), batch("llama", kind)
    found = loss(model, [inputs])
    for b, mask in enumerate(inputs["attention_mask"].bool()):
        assert found.n[b] == mask.sum() - 1
        assert found.S[b] == pytest.approx(by_hand(model, inputs["input_ids"][b][mask]), rel=ROUND_OFF)


def test_the_mean_is_over_tokens_and_batches_do_not_matter():
    model = build("gpt2")
    draw = torch.Generator().manual_seed(0)
    sequences = [torch.randint(3, families.VOCAB, (length,), generator=draw) for length in (5, 9, 17)]
    found = loss(model, sequences)
    assert found.mean == pytest.approx(sum(by_hand(model, ids) for ids in sequences) / (4 + 8 + 16), rel=ROUND_OFF)
    assert found.perplexity == pytest.approx(math.exp(found.mean), rel=EXACT)


def test_labels_choose_the_predicted_tokens():
    model, inputs = build("llama"), batch("llama")
    labels = inputs["input_ids"].clone()
    labels[:, :10] = -100
    found = loss(model, [{**inputs, "labels": labels}])
    assert found.n.tolist() == [families.LENGTH - 10] * families.SAMPLES
    with torch.no_grad():
        assert found.mean == pytest.approx(model(**inputs, labels=labels).loss.item(), rel=ROUND_OFF)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_encoder_decoders_need_labels(name):
    model, inputs = build(name), batch(name)
    text = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    labels = inputs["input_ids"][:, :7].clone()
    labels[0, 4:] = -100
    found = loss(model, [{**text, "labels": labels}])
    with torch.no_grad():
        assert found.mean == pytest.approx(model(**text, labels=labels).loss.item(), rel=ROUND_OFF)
    with pytest.raises(SpecError, match="needs labels"):
        loss(model, [text])


def test_models_without_a_next_token_are_refused():
    with pytest.raises(SpecError, match="does not predict the next token"):
        loss(build("bert"), [batch("bert")])
    encoder = tf.BertLMHeadModel(tf.BertConfig(**families._PLAIN))
    with pytest.raises(SpecError, match="not causal"):
        loss(encoder, [batch("bert")])


@pytest.mark.parametrize(
    "given", [[], [torch.zeros(3)], ["text"], [torch.tensor([1])]], ids=["none", "float", "str", "1"]
)
def test_what_is_no_batch_is_refused(given):
    with pytest.raises(SpecError, match="batch"):
        as_batches(given)


def test_there_is_no_dropout_and_modes_are_put_back():
    torch.manual_seed(0)
    model = tf.GPT2LMHeadModel(tf.GPT2Config(**families._GPT2, resid_pdrop=0.5)).train()
    model.lm_head.eval()
    assert loss(model, [batch("gpt2")]).mean == loss(model, [batch("gpt2")]).mean
    assert model.training
    assert not model.lm_head.training


def test_a_change_is_paired():
    n = np.array([10.0, 20.0, 30.0])
    before = Loss(np.array([20.0, 70.0, 50.0]), n)
    shifted = change(before, Loss(before.S + 0.25 * n, n))
    assert (shifted.mean, shifted.sequences) == (pytest.approx(0.25, rel=EXACT), 3)
    assert shifted.se == pytest.approx(0.0, abs=EXACT)  # the sequences differ, their changes do not
    D = np.array([1.0, 2.0, -6.0])
    found = change(before, Loss(before.S + D, n))
    mean = D.sum() / n.sum()
    assert found.mean == pytest.approx(mean, rel=EXACT)
    assert found.se == pytest.approx(math.sqrt(1.5 * ((D - mean * n) ** 2).sum()) / 60, rel=EXACT)
    one = Loss(n[:1], n[:1])
    assert math.isnan(change(one, one).se)
    assert str(one) == "loss 1.0000 nats per token (1 sequence, so no standard error)"
    assert "±" not in str(change(one, one))
    assert "Δloss -0.0500 ±" in str(found)


def test_a_change_needs_the_same_tokens():
    with pytest.raises(SpecError, match="same sequences"):
        change(Loss(np.ones(2), np.array([3.0, 4.0])), Loss(np.ones(2), np.array([3.0, 5.0])))


def test_ids_beyond_the_vocabulary_are_refused():
    model = build("gpt2")
    known = model.get_input_embeddings().num_embeddings
    with pytest.raises(SpecError, match=f"input_ids must be below {known}, .*, got {known}"):
        loss(model, [torch.tensor([1, 2, known])])
