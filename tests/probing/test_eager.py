"""Models that compute attention themselves are refused, or measured through the weights they return."""

import numpy as np
import pytest
import torch
from transformers import GraniteSWAConfig, GraniteSWAForCausalLM

from softmaxlab.errors import SpecError
from softmaxlab.probing import watch
from softmaxlab.probing.definitions import FULL
from softmaxlab.probing.load import load
from softmaxlab.probing.logits_check import compare_logits
from softmaxlab.probing.streaming import attach
from softmaxlab.probing.streaming.eager import capture_weights, eager_sites
from softmaxlab.probing.support.tiny import model_types
from softmaxlab.probing.support.trial import _runnable
from tests.probing import dense
from tests.probing.checkpoints import WORDS, saved
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


def falcon(alibi: bool):
    from transformers import FalconConfig, FalconForCausalLM

    torch.manual_seed(0)
    sized = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": len(WORDS)}
    return FalconForCausalLM(FalconConfig(**sized, alibi=alibi)).eval()


@pytest.mark.parametrize("alibi", [False, True])
def test_falcon_is_measured_with_its_causal_mask(tmp_path, alibi):
    model = load(saved(falcon(alibi), tmp_path / "falcon")).model
    ids = torch.randint(3, len(WORDS), (2, 16))
    with torch.no_grad():
        plain = model(ids).logits
        captured = []
        with capture_weights(model, eager_sites(model), lambda site, weights: captured.append(weights)):
            watched = model(ids).logits
        assert torch.equal(model(ids).logits, plain), "its own attention is put back"
    torch.testing.assert_close(watched, plain, atol=1e-5, rtol=1e-5)  # float32, two implementations
    assert compare_logits(model, {"input_ids": ids}, eager=True)["relative"] < 1e-4
    assert len(captured) == 2
    assert all(weights.triu(1).abs().max() == 0 for weights in captured)


def test_falcon_with_alibi_under_sdpa_is_another_model_and_is_refused():
    ids = torch.randint(3, len(WORDS), (2, 16))
    with pytest.raises(SpecError, match="measuring would change"):
        compare_logits(falcon(alibi=True), {"input_ids": ids}, eager=True)


def test_weights_without_the_learned_sink_are_refused():
    """GraniteSWA multiplies its output by what the sink leaves; its eager weights still sum to one."""
    config = GraniteSWAConfig(
        vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    model = GraniteSWAForCausalLM(config).eval()
    inputs = {"input_ids": torch.randint(0, 97, (2, 9))}
    with pytest.raises(SpecError, match="without its learned sink"), watch(model, eager=True):
        model(**inputs)
    with torch.no_grad(), watch(model) as w:
        model(**inputs)
    assert (w.report()["total"] < 0.95).all()


@pytest.mark.parametrize("training", [False, True])
def test_a_measurement_that_changes_the_model_is_refused(monkeypatch, training):
    model = build("llama").train(training)
    batch = {"input_ids": torch.arange(3, 15)[None].repeat(2, 1), "attention_mask": torch.ones(2, 12, dtype=torch.long)}
    batch["attention_mask"][0, :4] = 0
    with watch(model) as w:
        model(**batch)
    assert w.logits["relative"] < 1e-5
    assert w.logits["tokens"] == 20

    plain = attach._attend
    monkeypatch.setattr(
        attach, "_attend", lambda module, q, k, v, mask, **options: plain(module, q, k, v, None, **options)
    )
    with pytest.raises(SpecError, match="measuring would change"), watch(model):
        model(**batch)
    with watch(model, compare_logits=False) as w:
        model(**batch)
    assert w.logits is None


def test_comparing_outputs_draws_no_random_number_and_takes_no_cache():
    model = build("llama").train()
    model.config.attention_dropout = 0.5
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    ids = torch.arange(3, 15)[None]
    torch.manual_seed(0)
    expected = model(ids).logits
    torch.manual_seed(0)
    with watch(model) as w:
        assert torch.equal(model(ids).logits, expected)
    assert w.logits["relative"] < 1e-5
    with torch.no_grad():
        model.eval()
        with watch(model) as w:
            model.generate(ids, max_new_tokens=3, do_sample=False)
    assert w.logits["relative"] < 1e-5
    assert w.report()["queries"].max() == 14, "twelve tokens, and the first two of three that were generated"


def test_eager_knows_the_keys_that_a_sparse_index_chose_for_each_sequence():
    """Two sequences see different keys at the same positions."""
    model = _runnable("axk2", model_types("causal")["axk2"]).float()
    ids = torch.randint(5, 95, (2, 20), generator=torch.Generator().manual_seed(0))
    tables = []
    for eager in (False, True):
        with torch.no_grad(), watch(model, eager=eager) as w:
            model(ids)
        tables.append(w.report()["entropy_normalised"].to_numpy())
    np.testing.assert_allclose(*tables, atol=AGREES)
