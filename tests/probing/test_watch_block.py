"""Watching a model changes nothing: not its gradients, not its settings, not what is counted."""

import copy

import numpy as np
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing import swapped, watch
from softmaxlab.probing.definitions import FULL
from tests.probing.families import LAYERS, SAMPLES, batch, build

GRADIENT = 1e-3  # relative: float32 back through two sharp layers, in another order of summation


def test_gradient_step_is_unchanged():
    inputs = batch("llama", "left")
    inputs["labels"] = inputs["input_ids"]
    gradients = []
    for watched in (False, True):
        model = build("llama").train()
        with watch(model) if watched else torch.enable_grad():
            model(**inputs).loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for found, expected in zip(*gradients):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss"])
def test_gradient_through_our_own_output(name):
    """With a soft cap or a learned sink the output is not SDPA's, so its gradient is compared with eager's."""
    inputs = batch(name, "right")
    inputs["labels"] = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    gradients = []
    for watched in (False, True):
        model = build(name)
        model.set_attn_implementation("eager")
        with watch(model) if watched else torch.enable_grad():
            model(**inputs).loss.backward()
        gradients.append({path: p.grad for path, p in model.named_parameters() if p.grad is not None})
    for path, expected in gradients[0].items():
        difference = torch.linalg.vector_norm(gradients[1][path] - expected)
        assert difference <= GRADIENT * torch.linalg.vector_norm(expected) + GRADIENT, path


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_counts_once(reentrant):
    model, inputs = build("llama").train(), batch("llama")
    inputs["labels"] = inputs["input_ids"]
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    with watch(model) as w:
        model(**inputs).loss.backward()
    assert set(w.report()["sequences"]) == {SAMPLES}
    assert set(w.report()["queries"]) == {inputs["input_ids"].numel()}


def test_every():
    model = build("llama")
    batches = [batch("llama", "left", seed) for seed in range(6)]
    with torch.no_grad(), watch(model, every=3) as some:
        for inputs in batches:
            model(**inputs)
    with torch.no_grad(), watch(model) as chosen:
        for inputs in (batches[2], batches[5]):
            model(**inputs)
    assert set(some.report()["sequences"]) == {2 * SAMPLES}
    np.testing.assert_array_equal(some.report()["entropy"], chosen.report()["entropy"])


def _implementations(model) -> list[str]:
    return [module.config._attn_implementation for module in model.modules() if hasattr(module, "config")]


@pytest.mark.parametrize("name", ["llama", "t5", "bart", "gemma2", "vit"])
def test_restored_after_the_block_and_after_an_exception(name):
    model, inputs = build(name), batch(name)
    before, hooks = _implementations(model), [len(m._forward_hooks) for m in model.modules()]
    with watch(model), torch.no_grad():
        assert set(_implementations(model)) == {"softmaxlab"}
        model(**inputs)
    assert _implementations(model) == before
    with pytest.raises(RuntimeError, match="stop"), watch(model):
        raise RuntimeError("stop")
    assert _implementations(model) == before
    assert [len(m._forward_hooks) for m in model.modules()] == hooks
    assert not any(name.startswith("_softmaxlab") for m in model.modules() for name in m.__dict__)


def test_exception_inside_a_forward_ends_the_pass():
    model, inputs = build("llama"), batch("llama")
    with torch.no_grad(), watch(model) as w:
        with pytest.raises(IndexError):
            model(input_ids=inputs["input_ids"] + 10_000)
        model(**inputs)
    assert set(w.report()["sequences"]) == {SAMPLES}


def test_nested_watches_measure_the_same():
    model, inputs = build("llama"), batch("llama", "right")
    with torch.no_grad(), watch(model) as outer:
        with watch(model) as inner:
            model(**inputs)
        assert model.config._attn_implementation == "softmaxlab"
        model(**inputs)
    assert model.config._attn_implementation == "sdpa"
    np.testing.assert_allclose(outer.report()["entropy"], inner.report()["entropy"], atol=1e-12)
    assert set(outer.report()["sequences"]) == {2 * SAMPLES} != set(inner.report()["sequences"])


def test_report_within_the_block_does_not_disturb_it():
    model, inputs = build("llama"), batch("llama")
    with torch.no_grad(), watch(model) as w:
        model(**inputs)
        first = w.report()
        model(**inputs)
    assert set(first["sequences"]) == {SAMPLES}
    assert set(w.report()["sequences"]) == {2 * SAMPLES}


def test_tables_before_anything_ran():
    with watch(build("llama"), statistics="fast") as w:
        pass
    for table in (w.report(), w.profile(), w.sinks(), w.activations()):
        assert len(table) == 0
        assert "layer" in table.columns


def test_numbers_are_explained():
    model = build("gpt2")
    with torch.no_grad(), watch(model) as w:
        model(**batch("gpt2"))
    table = w.report()
    assert set(FULL) <= set(table.attrs["definitions"])
    assert len(table) == LAYERS * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every must be a whole number from 1, got 0"),
        ({"eps": 1.5}, "eps must lie between 0 and 1, got 1.5"),
        ({"statistics": "fats"}, "unknown statistics 'fats', did you mean 'fast'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(SpecError, match=message):
        watch(build("gpt2"), **options)


def test_no_transformers_model():
    with pytest.raises(SpecError, match="must be a transformers model, got Linear"), watch(torch.nn.Linear(2, 2)):
        pass


def test_a_row_of_padding_alone_is_no_sequence():
    model, inputs = build("llama"), batch("llama", "right")
    with torch.no_grad(), watch(model) as w:
        model(**inputs)
    alone = {name: torch.cat([value, torch.zeros_like(value[:1])]) for name, value in inputs.items()}
    with torch.no_grad(), watch(model) as padded:
        model(**alone)
    assert (padded.report()["sequences"] == SAMPLES).all()
    np.testing.assert_allclose(padded.report()[list(FULL)], w.report()[list(FULL)], rtol=1e-5, atol=1e-6)


def test_looking_at_a_report_does_not_end_a_sequence():
    model, ids = build("llama"), torch.arange(3, 23)[None]
    tables = []
    for looks in (False, True):
        with torch.no_grad(), watch(model) as w:
            cache = model(ids[:, :12], use_cache=True).past_key_values
            if looks:
                w.report()
            model(ids[:, 12:], past_key_values=cache)
        tables.append(w.report())
    assert (tables[0]["sequences"] == 1).all()
    assert tables[0].equals(tables[1])


def test_eager_attention_would_undo_a_swap():
    model = build("llama")
    with swapped(model, "relu"), pytest.raises(SpecError, match="another map is swapped in"), watch(model, eager=True):
        pass


def test_an_activation_that_is_no_number_is_told():
    model = build("llama")
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight[0, 0] = float("nan")
        with watch(model) as w:
            model(**batch("llama"))
    assert np.isnan(w.activations()["top"]).all()


def test_packed_texts_are_refused_and_padded_ones_are_not():
    model, inputs = build("llama"), batch("llama", "left")
    positions = (inputs["attention_mask"].cumsum(dim=-1) - 1).clamp(min=0)
    with torch.no_grad(), watch(model) as padded:
        model(**inputs, position_ids=positions)
    assert padded.report()["sequences"].eq(SAMPLES).all()
    packed = torch.arange(inputs["input_ids"].shape[1]) % 5
    with pytest.raises(SpecError, match="packed texts are not measured"), watch(model):
        model(input_ids=inputs["input_ids"], position_ids=packed.expand(SAMPLES, -1))


def test_a_watch_serves_one_block():
    model = build("llama")
    with watch(model) as w:
        model(**batch("llama"))
    with pytest.raises(SpecError, match="make another"), w:
        pass


@pytest.mark.parametrize("block", [watch, lambda model: swapped(model, "relu_norm")])
def test_a_model_in_use_is_not_copied(block):
    model = build("llama")
    with block(model), pytest.raises(SpecError, match="copy it before or after"):
        copy.deepcopy(model)
    assert torch.equal(copy.deepcopy(model)(**batch("llama")).logits, model(**batch("llama")).logits)
