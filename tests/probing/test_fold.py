"""Folding the sink: a prefix against the same tokens in front, constants against attention written out."""

import numpy as np
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing import text
from softmaxlab.probing.interventions.fold_sink import fold_sink
from softmaxlab.probing.interventions.prune import pruned
from softmaxlab.probing.interventions.quantise import LEVELS, dynamic_int8, linear_maps, quantise, quantised
from softmaxlab.probing.interventions.sink_constants import Constants
from softmaxlab.probing.interventions.sink_prefix import Prefix
from softmaxlab.probing.load import load
from softmaxlab.probing.next_token_loss import change, loss
from softmaxlab.probing.streaming.attach import attached
from softmaxlab.probing.streaming.sites import output_map
from softmaxlab.probing.watch import watch
from tests.probing.families import HEADS, LENGTH, PADDING, VOCAB, batch, build, padding

ROUND_OFF = 2e-4  # float32 logits of size 10–100 by two orders of summation
EXACT = 1e-6  # float32, same order
CHOSEN = (25898, 260, 25898)  # what fold_sink chose for SmolLM2 on two texts of the corpus "python"
FREE = 0.03  # nats: how far single texts of the licence scatter around a mean change of -0.012 ± 0.009
CLOSED = 0.7  # of the gap in perplexity; 0.85 on five texts of the licence
TOKENS = (5, 7)
SLIDING = ("mistral", "gemma2", "gemma3", "gpt_oss")
PREFIXED = [(name, kind) for name in ("gpt2", "llama", "qwen3", "opt", "gpt_neox") for kind in PADDING]
PREFIXED += [(name, kind) for name in SLIDING for kind in PADDING if kind != "left"]


def ids(count: int, length: int, seed: int = 0) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(3, VOCAB, (length,), generator=draw) for _ in range(count)]


@pytest.mark.parametrize(("name", "kind"), PREFIXED)
def test_a_prefix_is_the_same_tokens_in_front(name, kind):
    model, inputs = build(name), batch(name, kind)
    with torch.no_grad(), Prefix(model, TOKENS):
        found = model(**inputs).logits
    for b, mask in enumerate(inputs["attention_mask"].bool()):
        alone = torch.cat([torch.tensor(TOKENS), inputs["input_ids"][b][mask]])[None]
        with torch.no_grad():
            expected = model(input_ids=alone).logits[0, len(TOKENS) :]
        torch.testing.assert_close(found[b][mask], expected, atol=ROUND_OFF, rtol=ROUND_OFF)
    with torch.no_grad():
        assert not torch.allclose(model(**inputs).logits, found, atol=ROUND_OFF)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
def test_generate_goes_on_behind_the_prefix(name):
    model, prompt = build(name), torch.stack(ids(2, 6))
    told = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    ones = torch.ones(2, 6 + len(TOKENS), dtype=torch.long)
    front = torch.tensor(TOKENS).expand(2, -1)
    expected = model.generate(input_ids=torch.cat([front, prompt], dim=1), attention_mask=ones, **told)
    with Prefix(model, TOKENS):
        found = model.generate(input_ids=prompt, attention_mask=ones[:, :6], **told)
    assert torch.equal(found[:, 6:], expected[:, 6 + len(TOKENS) :])


def test_a_prefix_refuses_what_it_cannot_lengthen():
    model, inputs = build("llama"), batch("llama")
    with torch.no_grad():
        begun = model(**inputs, use_cache=True).past_key_values
    prefix = Prefix(model, TOKENS)
    with prefix:
        with pytest.raises(SpecError, match="empty or was begun behind it"):
            model(input_ids=inputs["input_ids"], past_key_values=begun)
        with pytest.raises(SpecError, match=r"\[sequence, token\]"):
            model(input_ids=inputs["input_ids"], attention_mask=torch.ones(3, 1, LENGTH, LENGTH, dtype=torch.bool))
        with pytest.raises(SpecError, match="in use already"):
            prefix.__enter__()
    sliding = build("mistral")
    with Prefix(sliding, TOKENS), pytest.raises(SpecError, match="out of the model's window"):
        sliding(**batch("mistral", "left"))
    for name in ("bert", "t5"):
        with pytest.raises(SpecError, match="causal language model"):
            Prefix(build(name), TOKENS)
    with pytest.raises(SpecError, match="at least one"):
        Prefix(model, ())


def by_hand(call, first, constant, value):
    """Σ_j w_ij v_j of one site [B, Tq, H, D], with the score of the first key at b and its value at v, in float64."""
    B, H, T, D = call.q.shape
    out = np.zeros((B, T, H, D))
    for n in range(B):
        for h in range(H):
            k, v = (x[n, h // (H // x.shape[1])].double().numpy() for x in (call.k, call.v))
            χ = call.scale * call.q[n, h].double().numpy() @ k.T
            v = v.copy()
            if constant.heads[h]:
                χ[:, first[n]] = constant.b[h].item()
                v[first[n]] = {"own": v[first[n]], "none": 0.0, "mean": constant.v[h].numpy()}[value]
            for i in range(first[n], T):
                e = np.exp(χ[i, first[n] : i + 1] - χ[i, first[n] : i + 1].max())
                out[n, i, h] = e / e.sum() @ v[first[n] : i + 1]
    return out


@pytest.mark.parametrize("value", ["mean", "own", "none"])
def test_constants_against_attention_written_out(value):
    model, inputs = build("llama"), batch("llama", "left")
    folded = Constants(model, [batch("llama", seed=3)], eps=0.17, value=value)  # some of the heads
    assert 0 < sum(int(c.heads.sum()) for c in folded.constants.values()) < 2 * HEADS
    calls, outs, undo = {}, {}, []
    with torch.no_grad(), folded, attached(model) as states:
        for state in states:
            state.observers.append(lambda state, call, _: calls.update({state.site.name: call}))
            keep = lambda _, args, name=state.site.name: outs.update({name: args[0]})  # noqa: E731
            undo.append(output_map(model, state.site).register_forward_pre_hook(keep))
        model(**inputs)
    for hook in undo:
        hook.remove()
    real = inputs["attention_mask"].bool()
    first = real.int().argmax(dim=1).tolist()
    for name, call in calls.items():
        expected = by_hand(call, first, folded.constants[name], value)
        found = outs[name].view(expected.shape).double().numpy()
        np.testing.assert_allclose(found[real.numpy()], expected[real.numpy()], atol=ROUND_OFF)


def test_constants_that_are_the_truth_change_nothing():
    model, pair = build("llama"), ids(1, 2)[0][None]  # one query after the first: its score is the mean score
    with torch.no_grad():
        whole = model(input_ids=pair).logits
        with Constants(model, [{"input_ids": pair}], eps=0.01):
            torch.testing.assert_close(model(input_ids=pair).logits, whole, atol=ROUND_OFF, rtol=ROUND_OFF)
        with Constants(model, [{"input_ids": pair}], eps=0.01, value="none"):
            assert not torch.allclose(model(input_ids=pair).logits, whole, atol=ROUND_OFF)


def test_constants_agree_with_a_cache_a_watch_and_pruned_heads():
    model, text = build("llama"), ids(1, 8)[0][None]
    folded = Constants(model, [{"input_ids": x[None]} for x in ids(2, 8, seed=1)], eps=0.1)
    with torch.no_grad(), folded, pruned(model, [(0, 0)]):
        whole = model(input_ids=text).logits
        past = model(input_ids=text[:, :5], use_cache=True).past_key_values
        rest = [model(input_ids=text[:, i : i + 1], past_key_values=past).logits for i in range(5, 8)]
        with watch(model):
            watched = model(input_ids=text).logits
    torch.testing.assert_close(torch.cat(rest, dim=1), whole[:, 5:], atol=ROUND_OFF, rtol=ROUND_OFF)
    torch.testing.assert_close(watched, whole, atol=EXACT, rtol=EXACT)
    assert model.config._attn_implementation == "sdpa"


def test_rounding():
    x = torch.tensor([-2.54, 0.0, 0.009, 0.011, 1.27])
    torch.testing.assert_close(quantise(x), torch.tensor([-2.54, 0.0, 0.0, 0.02, 1.28]))
    torch.testing.assert_close(quantise(x, torch.tensor(1.27)), torch.tensor([-1.27, 0.0, 0.01, 0.01, 1.27]))
    assert torch.equal(quantise(torch.zeros(3)), torch.zeros(3))
    assert len(quantise(torch.randn(10_000)).unique()) <= 2 * LEVELS + 1


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_quantised_model_has_few_weights_and_gets_its_own_back(name):
    model, inputs = build(name), batch(name)
    before = {key: map.weight.detach().clone() for key, map in linear_maps(model).items()}
    with torch.no_grad():
        whole = model(**inputs).logits
    with quantised(model), torch.no_grad():
        assert all(len(map.weight.unique()) <= 2 * LEVELS + 1 for map in linear_maps(model).values())
        assert not torch.equal(model(**inputs).logits, whole)
    with pytest.raises(KeyError), quantised(model):
        raise KeyError
    assert all(torch.equal(map.weight, before[key]) for key, map in linear_maps(model).items())
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, whole)


def test_an_outlier_spoils_one_scale_per_tensor():
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    spoiled = torch.cat([x, torch.tensor([1e4])])
    assert (quantise(spoiled)[:-1] == 0).all()
    assert (quantise(x) - x).abs().max() <= x.abs().max() / LEVELS / 2 * (1 + EXACT)


def test_static_scales_come_from_the_calibration():
    model, inputs = build("llama"), {"input_ids": batch("llama")["input_ids"]}
    with torch.no_grad():
        with quantised(model):
            pass
        with quantised(model, [inputs]):
            here = model(**inputs).logits
            torch.testing.assert_close(model(**inputs).logits, here)
        with quantised(model, [batch("llama", seed=9)]):
            assert not torch.equal(model(**inputs).logits, here)


def test_fold_sink_reads_texts_and_batches():
    model = build("llama")
    prefix = fold_sink(model, calibration=ids(2, 12))
    assert 1 <= len(prefix.tokens) <= 3
    cost = prefix.cost(ids(3, 12, seed=4))
    before = loss(model, ids(3, 12, seed=4))
    with prefix:
        assert cost == change(before, loss(model, ids(3, 12, seed=4)))
    bias = fold_sink(
        model, "bias", calibration=[{"input_ids": torch.stack(ids(2, 12)), "attention_mask": padding("no", 12, 2)}]
    )
    assert bias.cost(ids(3, 12)).sequences == 3


def test_fold_sink_refuses():
    model = build("llama")
    with pytest.raises(SpecError, match="did you mean 'prefix'"):
        fold_sink(model, "prefx", calibration=ids(1, 5))
    with pytest.raises(SpecError, match="calibration must hold"):
        fold_sink(model)
    with pytest.raises(SpecError, match="no tokenizer is found"):
        fold_sink(model, calibration=["some text"])


@pytest.mark.slow
def test_a_prefix_closes_most_of_the_gap_of_a_real_model(demo_cache):
    loaded = load("smollm2")
    model = loaded.model
    texts = text.sequences(loaded.tokenizer, text.texts("licence"), 512, 2, seed=0)
    prefix = Prefix(model, CHOSEN)
    whole = loss(model, texts)
    with prefix:
        free = change(whole, loss(model, texts))
    with quantised(model):
        spoiled = loss(model, texts)
        with prefix:
            folded = loss(model, texts)
    assert free.mean < FREE
    closed = (spoiled.perplexity - folded.perplexity) / (spoiled.perplexity - whole.perplexity)
    assert closed > CLOSED


def test_scales_per_token_and_channel_round_each_by_itself():
    model = build("llama")
    before = {name: map.weight.clone() for name, map in linear_maps(model).items()}
    with quantised(model, scales="token_channel"):
        for name, map in linear_maps(model).items():
            allowed = before[name].abs().amax(dim=1, keepdim=True) / LEVELS / 2
            assert ((map.weight - before[name]).abs() <= allowed * (1 + EXACT)).all()
    assert all(torch.equal(map.weight, before[name]) for name, map in linear_maps(model).items())
    with pytest.raises(SpecError, match="unknown scales 'chanel'"), quantised(model, scales="chanel"):
        pass


def test_one_massive_token_spoils_the_others_only_with_one_scale_per_tensor():
    torch.manual_seed(0)
    model, inputs = build("llama"), torch.stack(ids(1, 24))
    norm = model.model.layers[0].input_layernorm
    massive = norm.register_forward_hook(lambda module, args, out: out * torch.tensor([1e4] + [1.0] * 23)[:, None])
    with torch.no_grad():
        exact = model(inputs).logits[:, 1:]
        errors = {}
        for scales in ("tensor", "token", "token_channel"):
            with quantised(model, scales=scales):
                errors[scales] = float((model(inputs).logits[:, 1:] - exact).abs().mean())
    massive.remove()
    assert errors["tensor"] > 5 * errors["token"] > 0
    assert errors["token_channel"] < 1.2 * errors["token"]


def test_torchs_int8_kernels_take_the_place_of_the_maps_and_leave_it():
    model, inputs = build("llama"), torch.stack(ids(2, 12))
    maps = linear_maps(model)
    with torch.no_grad():
        exact = model(inputs).logits
        with dynamic_int8(model):
            rounded = model(inputs).logits
            assert linear_maps_are_int8(model, maps)
        assert torch.equal(model(inputs).logits, exact)
    relative = float((rounded - exact).norm() / exact.norm())
    assert 1e-4 < relative < 0.5
    assert {name: id(map) for name, map in linear_maps(model).items()} == {name: id(map) for name, map in maps.items()}
    with pytest.raises(SpecError, match=r"is no plain nn\.Linear"), dynamic_int8(build("gpt2")):
        pass


def linear_maps_are_int8(model, maps) -> bool:
    return all("quantized" in type(model.get_submodule(name)).__module__ for name in maps)
