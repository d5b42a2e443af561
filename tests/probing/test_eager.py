"""Models that compute attention themselves are refused, or measured through the weights they return."""

import numpy as np
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing import watch
from softmaxlab.probing.definitions import FULL
from tests.probing import dense
from tests.probing.families import PADDING, UNSWITCHABLE, WINDOW, batch, build

AGREES = 1e-5  # float32 weights on both sides
UNSEEN = ("sink_value", "sink_output")  # they need values
SEEN = [name for name in FULL if name not in UNSEEN]
CASES = [(name, kind) for name in UNSWITCHABLE for kind in PADDING]


@pytest.mark.parametrize("name", UNSWITCHABLE)
def test_refused_with_the_reason(name):
    with pytest.raises(SpecError, match=r"does not use the attention registry .* eager=True"), watch(build(name)):
        pass


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_agrees_with_returned_weights(name, kind):
    model, inputs = build(name), batch(name, kind)
    with torch.no_grad(), watch(model, eager=True) as w:
        found = model(**inputs)
    with torch.no_grad():
        plain = model(**inputs)
        attentions = model(**inputs, output_attentions=True).attentions
    torch.testing.assert_close(found.logits, plain.logits, rtol=0, atol=0)
    assert found.attentions is None
    mask, table = inputs["attention_mask"].bool().numpy(), w.report()
    for number, weights in enumerate(attentions):
        window = WINDOW if name == "gpt_neo" and number == 1 else None
        visible = dense.visibility(mask, mask, True, window)
        no_values = np.ones((*weights.shape[:2], weights.shape[-1], 1))
        layer = dense.Layer("", weights.numpy(), no_values, mask, mask, visible)
        for head in range(weights.shape[1]):
            expected = dense.head_statistics(layer, head)
            row = table[(table["layer"] == number) & (table["head"] == head)].iloc[0]
            for column in [c for name in SEEN for c in (name, f"{name}_se")] + ["queries", "sequences"]:
                assert abs(row[column] - expected[column]) <= AGREES * max(1, abs(expected[column])), column
    assert table[list(UNSEEN)].isna().all(axis=None)
    assert set(w.activations()["layer"]) == {0, 1}


@pytest.mark.parametrize("kind", PADDING)
@pytest.mark.parametrize("name", ["llama", "gpt_oss", "t5"])
def test_eager_equals_normal_watch(name, kind):
    model, inputs = build(name), batch(name, kind)
    before = model.config._attn_implementation
    with torch.no_grad(), watch(model, eager=True) as eager:
        model(**inputs)
    assert model.config._attn_implementation == before
    with torch.no_grad(), watch(model) as normal:
        model(**inputs)
    for table_kind in ("self", "cross") if name == "t5" else ("self",):
        found, expected = eager.report(table_kind), normal.report(table_kind)
        for column in SEEN:
            np.testing.assert_allclose(found[column], expected[column], atol=AGREES, rtol=AGREES, err_msg=column)


def test_generate_through_eager_weights():
    model, inputs = build("bloom"), batch("bloom", "left")
    model.generation_config.eos_token_id = None
    with torch.no_grad(), watch(model, eager=True) as w:
        ids = model.generate(**inputs, max_new_tokens=5, do_sample=False)
    mask = torch.cat([inputs["attention_mask"], torch.ones(3, 4, dtype=torch.long)], dim=1)
    with torch.no_grad(), watch(model, eager=True) as full:
        model(input_ids=ids[:, :-1], attention_mask=mask)
    for column in SEEN:
        np.testing.assert_allclose(w.report()[column], full.report()[column], atol=AGREES, rtol=AGREES, err_msg=column)


def test_restored_after_an_exception():
    model = build("llama")
    hooks = [len(m._forward_hooks) for m in model.modules()]
    with pytest.raises(IndexError), watch(model, eager=True):
        model(input_ids=torch.tensor([[10_000]]))
    assert model.config._attn_implementation == "sdpa"
    assert [len(m._forward_hooks) for m in model.modules()] == hooks
