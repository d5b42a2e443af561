"""A sequence read in pieces through a cache is measured as in one pass."""

import copy

import numpy as np
import pandas
import pytest
import torch
from transformers import DynamicCache, StaticCache

from softmaxlab.probing import watch
from tests.probing.families import SAMPLES, batch, build, padding

AGREES = 1e-5  # float32 keys and values, once from a cache and once not
NEW = 9  # tokens generated; more than the window holds
CAUSAL = ("gpt2", "llama", "mistral", "gemma2", "gemma3", "gpt_oss", "opt")
KINDS = ("no", "left")


def assert_tables_equal(found: pandas.DataFrame, expected: pandas.DataFrame, tolerance: float = AGREES) -> None:
    assert list(found.columns) == list(expected.columns)
    assert len(found) == len(expected) > 0
    for column in found.columns:
        if column == "module":
            assert (found[column] == expected[column]).all()
        else:
            np.testing.assert_allclose(found[column], expected[column], atol=tolerance, rtol=tolerance, err_msg=column)


def assert_same_measurements(found: watch, expected: watch) -> None:
    assert_tables_equal(found.report(), expected.report())
    assert_tables_equal(found.profile(), expected.profile())
    for column in ("top", "position", "token", "dimension", "kurtosis"):
        np.testing.assert_allclose(found.activations()[column], expected.activations()[column], rtol=1e-4)
    order = ["layer", "head", "position", "token"]
    sinks = [w.sinks().sort_values(order, ignore_index=True) for w in (found, expected)]
    pandas.testing.assert_frame_equal(*sinks)


def watched(model, **inputs) -> watch:
    with torch.no_grad(), watch(model, eps=0.2) as w:
        model(**inputs)
    return w


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate_equals_one_full_pass(name, kind, cache):
    model, inputs = build(name), batch(name, kind)
    model.generation_config.eos_token_id = None
    with torch.no_grad(), watch(model, eps=0.2) as w:
        ids = model.generate(
            **inputs, max_new_tokens=NEW, do_sample=False, cache_implementation=cache, disable_compile=True
        )
    mask = torch.cat([inputs["attention_mask"], torch.ones(SAMPLES, NEW - 1, dtype=torch.long)], dim=1)
    # GPT-2 has absolute positions, which `generate` counts from the first real token
    positions = {"position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0)} if name == "gpt2" else {}
    full = watched(model, input_ids=ids[:, :-1], attention_mask=mask, **positions)
    assert set(w.report()["sequences"]) == {SAMPLES}
    assert_same_measurements(w, full)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("cache", [DynamicCache, StaticCache])
def test_chunked_prefill_equals_one_full_pass(name, kind, cache):
    model, inputs = build(name), batch(name, kind)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    past = cache(config=model.config) if cache is DynamicCache else cache(config=model.config, max_cache_len=32)
    with torch.no_grad(), watch(model, eps=0.2) as w:
        for start, stop in ((0, 10), (10, 16), (16, 19)):
            model(input_ids=ids[:, start:stop], attention_mask=mask[:, :stop], past_key_values=past)
    assert_same_measurements(w, watched(model, **inputs))


def test_sequences_that_share_a_prefix_in_a_cache_are_counted_apart():
    model, inputs = build("llama"), batch("llama")
    ids = inputs["input_ids"]
    with torch.no_grad(), watch(model) as w:
        for part in (slice(5, 12), slice(12, 19)):
            past = DynamicCache(config=model.config)
            model(input_ids=ids[:, :5], past_key_values=past)
            model(input_ids=ids[:, part], past_key_values=past)
    assert set(w.report()["sequences"]) == {2 * SAMPLES}


def test_prefix_read_before_the_block():
    """Only the new queries count, but the sink is the prefix's first token and its value is in the cache."""
    model, inputs = build("llama"), batch("llama")
    ids = inputs["input_ids"]
    past = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=ids[:, :5], past_key_values=past)
        with watch(model) as w:
            for _ in range(2):
                model(input_ids=ids[:, 5:], past_key_values=copy.deepcopy(past))
    table, whole = w.report(), watched(model, **inputs).report()
    assert set(table["sequences"]) == {2 * SAMPLES}
    assert set(table["queries"]) == {2 * SAMPLES * 14}
    np.testing.assert_allclose(table["sink_value"], whole["sink_value"], atol=AGREES)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_fast_statistics_through_a_cache(cache):
    model, inputs = build("mistral"), batch("mistral")
    model.generation_config.eos_token_id = None
    options = {"max_new_tokens": NEW, "do_sample": False, "cache_implementation": cache, "disable_compile": True}
    with torch.no_grad(), watch(model) as full, watch(model, statistics="fast") as fast:
        model.generate(**inputs, **options)
    quick = fast.report()
    for column in [c for c in quick.columns if c != "module"]:
        np.testing.assert_allclose(quick[column], full.report()[column], atol=AGREES, err_msg=column)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_generate_of_encoder_decoders(name):
    model, inputs = build(name), batch(name, "right")
    text = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    model.generation_config.eos_token_id = model.generation_config.forced_eos_token_id = None
    with torch.no_grad(), watch(model) as w:
        ids = model.generate(**text, max_new_tokens=NEW, do_sample=False, num_beams=1)
    with torch.no_grad(), watch(model) as full:
        model(**text, decoder_input_ids=ids[:, :-1])
    for kind in ("self", "cross"):
        assert_tables_equal(w.report(kind), full.report(kind))
        assert_tables_equal(w.profile(kind), full.profile(kind))


def test_every_counts_generate_as_one_pass():
    model, inputs = build("llama"), batch("llama", "left")
    model.generation_config.eos_token_id = None
    options = {"max_new_tokens": NEW, "do_sample": False}
    with torch.no_grad(), watch(model, every=2) as w:
        for _ in range(4):
            ids = model.generate(**inputs, **options)
    mask = padding("left", ids.shape[1] - 1)
    full = watched(model, input_ids=ids[:, :-1], attention_mask=mask)
    assert set(w.report()["sequences"]) == {2 * SAMPLES}
    np.testing.assert_allclose(w.report()["sink"], full.report()["sink"], atol=AGREES)
