"""The largest activations against the hidden states that the model returns."""

import numpy as np
import pytest
import torch

from softmaxlab.probing import watch
from softmaxlab.probing.recommendations import ranges
from tests.probing.families import FAMILIES, LAYERS, batch, build, paddings

AGREES = 1e-5  # the same float32 numbers, summed in another order
TEXT = ("gpt2", "llama", "bert", "mistral", "gpt_oss")


def expected_row(h: torch.Tensor, mask: torch.Tensor, ids: torch.Tensor | None) -> dict:
    real = h[mask.bool()].double().numpy()
    size = np.abs(h.double().numpy()) * mask.numpy()[..., None]
    sample, token, dimension = np.unravel_index(size.argmax(), size.shape)
    return {
        "top": size.max(),
        "median": np.median(np.abs(real)),
        "position": token - int(mask[sample].argmax()),
        "token": -1 if ids is None else int(ids[sample, token]),
        "dimension": dimension,
        "kurtosis": (real**4).mean() / (real**2).mean() ** 2,
    }


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in (*TEXT, "vit") for k in paddings(n)])
def test_agrees_with_hidden_states(name, kind):
    model, inputs = build(name), batch(name, kind)
    with torch.no_grad(), watch(model) as w:
        states = model(**inputs, output_hidden_states=True).hidden_states
    table = w.activations()
    assert table["layer"].tolist() == list(range(LAYERS))
    h, ids = states[1], inputs.get("input_ids")  # the last state has gone through the final norm in most families
    mask = inputs["attention_mask"] if FAMILIES[name].takes == "text" else torch.ones(h.shape[:2], dtype=torch.long)
    expected, found = expected_row(h, mask, ids), table.iloc[0]
    for column in ("top", "kurtosis", "position", "token", "dimension"):
        np.testing.assert_allclose(found[column], expected[column], rtol=AGREES, err_msg=column)
    # of an even number torch takes the lower one of the two in the middle
    np.testing.assert_allclose(found["median"], expected["median"], rtol=0.01)
    np.testing.assert_allclose(found["ratio"], found["top"] / found["median"])


def test_padding_does_not_count():
    model, inputs = build("llama"), batch("llama", "left")
    with torch.no_grad():
        model.model.embed_tokens.weight[0] = 1e4  # the pad token's
    inputs["input_ids"] = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, 0)
    with torch.no_grad(), watch(model) as w:
        model(**inputs)
    assert w.activations()["top"].max() < 1e3
    assert (w.activations()["token"] != 0).all()
    with torch.no_grad(), watch(model) as wrong:
        model(input_ids=inputs["input_ids"])
    assert wrong.activations()["top"].max() > 1e3


def test_largest_over_passes_and_through_a_cache():
    model, inputs = build("llama"), batch("llama")
    ids = inputs["input_ids"]
    with torch.no_grad(), watch(model) as w:
        past = model(input_ids=ids[:, :12]).past_key_values
        model(input_ids=ids[:, 12:], past_key_values=past)
    with torch.no_grad(), watch(model) as full:
        model(**inputs)
    for column in ("top", "position", "token", "dimension", "kurtosis"):
        np.testing.assert_allclose(w.activations()[column], full.activations()[column], rtol=1e-4, err_msg=column)


def test_blocks_of_an_encoder_decoder():
    model = build("t5")
    with torch.no_grad(), watch(model) as w:
        model(**batch("t5", "left"))
    blocks = [f"{part}.block.{number}" for part in ("encoder", "decoder") for number in range(LAYERS)]
    assert w.activations()["module"].tolist() == blocks


def test_layers_are_told_in_ranges():
    assert ranges([28, 2, 11, 12, 13, 2]) == "2, 11–13, 28"
