"""Streamed similarities against the full weights and outputs of eager attention."""

import numpy as np
import pytest
import torch

from softmaxlab import measure
from softmaxlab.probing.head_similarity import redundancy, similarity
from softmaxlab.probing.streaming import call
from tests.probing import families
from tests.probing.families import batch, build, dense_layers, is_cross

ROUND_OFF = 1e-5  # float32 weights against float64 sums
CASES = [(name, kind) for name in ("gpt2", "llama", "bert", "gemma2", "gpt_oss", "t5") for kind in families.PADDING]


def streamed(model, inputs) -> similarity:
    with torch.no_grad(), similarity(model) as found:
        model(**inputs)
    return found


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_weights_agree_with_the_dense_measure(name, kind, monkeypatch):
    monkeypatch.setattr(call, "TILE", 512)  # several tiles a call
    model, inputs = build(name), batch(name, kind)
    found = streamed(model, inputs).weights()
    _, layers = dense_layers(name, model, inputs)
    dense = [layer for module, layer in layers.items() if not is_cross(module)]
    assert len(found) == len(dense)
    for number, layer in enumerate(dense):
        w = layer.w.astype(np.float64) * layer.queries[:, None, :, None]
        pooled = np.concatenate(list(w), axis=1)  # [head, sample · query, key]
        np.testing.assert_allclose(found[number], measure.head_similarity(pooled), atol=ROUND_OFF)


OUTPUT = {"llama": "o_proj", "gpt2": "c_proj", "bert": "output.dense"}


@pytest.mark.parametrize("name", OUTPUT)
def test_outputs_are_compared_in_the_hidden_state(name):
    model, inputs = build(name), batch(name, "left")
    found = streamed(model, inputs).outputs()
    _, layers = dense_layers(name, model, inputs)
    for number, (module, layer) in enumerate(layers.items()):
        parent = module.rpartition(".")[0] if name == "bert" else module
        W = model.get_submodule(parent).get_submodule(OUTPUT[name]).weight.detach().double().numpy()
        W = (W if name == "gpt2" else W.T).reshape(families.HEADS, -1, families.WIDTH)  # [head, D, d]
        v = np.repeat(layer.v, layer.w.shape[1] // layer.v.shape[1], axis=1).astype(np.float64)
        o = np.einsum("bhqk,bhkc,hcd->hbqd", layer.w.astype(np.float64), v, W)[:, layer.queries]
        np.testing.assert_allclose(found[number], measure.head_similarity(o), atol=ROUND_OFF)


def test_a_copied_head_is_found_and_only_that():
    model, inputs = build("llama"), batch("llama")
    attention, D = model.model.layers[0].self_attn, families.WIDTH // families.HEADS
    with torch.no_grad():  # heads 0 and 1 share keys and values
        attention.q_proj.weight[D : 2 * D] = attention.q_proj.weight[:D]
        attention.o_proj.weight[:, D : 2 * D] = attention.o_proj.weight[:, :D]
    table = redundancy(model, [inputs, inputs])
    assert len(table) == families.LAYERS * 6
    same = (table["weights"] > 1 - ROUND_OFF) & (table["outputs"] > 1 - ROUND_OFF)
    assert table.loc[same, ["layer", "head", "other"]].to_numpy().tolist() == [[0, 0, 1]]
    assert model.config._attn_implementation == "sdpa"
