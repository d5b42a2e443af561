"""Drop-in maps: equal to a dense reference on every kind of model, trainable, and gone without a trace afterwards."""

import numpy as np
import pytest
import torch

import softmaxlab.probing.streaming.call as call
from softmaxlab.attention import MAPS, names
from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.sites import sites
from softmaxlab.probing.swap.swapped import swapped
from softmaxlab.probing.watch import watch
from tests.probing.families import batch, build
from tests.probing.plain import plain, tiny

FAMILIES = ("gpt2", "llama", "mistral", "gemma2", "gpt_oss", "bert", "t5", "vit")

DROP_IN = [name for name in names() if not name.startswith("mlp")]
SOME = ("softmax1", "sigmoid", "bayes_softmax", "entmax15", "elu_norm", "elu_elu_norm")
FLOAT32 = 1e-5  # relative to the largest logit: rounding through two layers, observed 2e-6
SINGULAR = 1e-2  # of the map `sum`, χ/Σχ: near Σχ = 0 rounding is magnified without bound, observed 3e-3
B_H = torch.tensor([-2.0, -1.0, 0.0, 0.5])


@pytest.fixture(scope="module")
def models():
    return {family: tiny(family) for family in FAMILIES}


def bias_of(map, model):
    return {site.name: B_H for site in sites(model)} if MAPS[map].takes_bias else None


def inputs(family, padding="no"):
    """Arguments of the model, and which of its outputs are not padding."""
    given = batch(family, padding)
    mask = given.get("decoder_attention_mask", given.get("attention_mask"))
    return given, ... if mask is None else mask.bool()


def output(model, given):
    out = model(**given)
    return out.logits if "logits" in out else out.last_hidden_state


def logits(model, given):
    with torch.no_grad():
        return output(model, given)


def difference(a, b, real=...):
    return float((a - b)[real].abs().max() / b[real].abs().max())


def check(model, family, map, padding):
    given, real = inputs(family, padding)
    with swapped(model, map, bias=bias_of(map, model)):
        ours = logits(model, given)
    with plain(model, map, B_H if MAPS[map].takes_bias else None):
        reference = logits(model, given)
    assert difference(ours, reference, real) < (SINGULAR if map == "sum" else FLOAT32)
    return ours


@pytest.mark.parametrize("map", DROP_IN)
def test_every_map_equals_the_dense_reference_and_changes_the_model(models, map):
    ours = check(models["llama"], "llama", map, "left")
    given, real = inputs("llama", "left")
    own = difference(logits(models["llama"], given), ours, real)
    assert own < FLOAT32 if map == "softmax" else own > 1e-3


@pytest.mark.parametrize("padding", ["no", "left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_maps_equal_the_dense_reference_on_every_family(models, family, padding):
    for map in SOME:
        check(models[family], family, map, padding)


def test_tiles_make_no_difference(models, monkeypatch):
    monkeypatch.setattr(call, "TILE", 500)  # three queries of 3 × 4 × 19 scores at a time
    for map in SOME:
        check(models["gemma2"], "gemma2", map, "left")


@pytest.mark.parametrize("family", FAMILIES)
def test_softmax1_with_a_low_bias_is_softmax(models, family):
    given, real = inputs(family, "right")
    own = logits(models[family], given)
    with swapped(models[family], "softmax1", bias=-30.0):
        assert (logits(models[family], given) - own)[real].abs().max() < 1e-5


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss"])
@pytest.mark.parametrize("map", SOME)
def test_decoding_with_a_cache_equals_one_full_pass(models, family, map):
    model = models[family]
    given, real = inputs(family, "left")
    with swapped(model, map, bias=bias_of(map, model)):
        whole = logits(model, given)
        cache, steps = None, []
        with torch.no_grad():
            for start, stop in [(0, 8), *((i, i + 1) for i in range(8, 19))]:
                mask, ids = given["attention_mask"][:, :stop], given["input_ids"][:, start:stop]
                positions = (mask.cumsum(dim=-1) - 1).clamp(min=0)[:, start:stop]
                out = model(
                    input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
                )
                cache = out.past_key_values
                steps.append(out.logits)
        positions = (given["attention_mask"].cumsum(dim=-1) - 1).clamp(min=0)
        whole = logits(model, given | {"position_ids": positions})
    assert difference(torch.cat(steps, dim=1), whole, real) < FLOAT32


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate_goes_on_as_full_passes_do(models, cache):
    model = models["llama"]
    given, _ = inputs("llama", "left")
    with swapped(model, "sigmoid", bias="-log n"):
        options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
        fast = model.generate(**given, **options, cache_implementation=cache)
        assert torch.equal(fast, model.generate(**given, **options, use_cache=False))


def test_minus_log_n_counts_the_keys_that_each_query_sees(models):
    given, real = inputs("mistral", "left")
    model = models["mistral"]
    with swapped(model, "sigmoid", bias="-log n"), watch(model) as w:
        ours = logits(model, given)
    with swapped(model, "sigmoid", bias=0.0):
        assert difference(logits(model, given), ours, real) > 0.1
    # small scores: a row of n weights σ(χ − log n) sums to about n/(n + 1)
    assert w.report()["total"].between(0.5, 1.2).all()


def test_a_learned_sink_is_one_more_key(models):
    model = models["gpt_oss"]
    given, _ = inputs("gpt_oss")
    own = logits(model, given)
    with swapped(model, "softmax"):
        assert difference(logits(model, given), own) < FLOAT32
    sinks = {site.name: site.module.sinks.detach().clone() for site in sites(model)}
    with swapped(model, "softmax1", bias=0.3):
        both = logits(model, given)
    try:
        for site in sites(model):
            site.module.sinks.data = torch.logaddexp(sinks[site.name], torch.tensor(0.3))
        assert difference(logits(model, given), both) < FLOAT32
    finally:
        for site in sites(model):
            site.module.sinks.data = sinks[site.name]


def test_bfloat16_models_agree_within_their_precision():
    model = tiny("llama").to(torch.bfloat16)
    given, real = inputs("llama", "left")
    with swapped(model, "softmax1", bias=0.0):
        half = logits(model, given).float()
    with swapped(model.float(), "softmax1", bias=0.0):
        assert difference(half, logits(model, given), real) < 0.05  # 2⁻⁸ a rounding, a dozen in a row


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss", "t5"])
@pytest.mark.parametrize("map", ["softmax1", "sigmoid", "bayes_softmax", "elu_elu_norm", "sparsemax"])
def test_gradients_equal_those_of_the_dense_reference(models, family, map):
    model, takes = models[family], MAPS[map].takes_bias
    given, real = inputs(family, "left")
    bias = B_H.clone().requires_grad_() if takes else None
    with swapped(model, map, bias={site.name: bias for site in sites(model)} if takes else None):
        ours = gradients(model, given, real, bias)
    with plain(model, map, bias):
        reference = gradients(model, given, real, bias)
    assert (ours - reference).abs().max() < 1e-4 * reference.abs().max()  # ten times FLOAT32: sums over all tokens
    assert not takes or ours[: len(B_H)].abs().min() > 0


def gradients(model, given, real, bias):
    asked = [*([bias] if bias is not None else []), *model.parameters()]
    loss = output(model, given)[real].logsumexp(dim=-1).sum()
    found = torch.autograd.grad(loss, asked, allow_unused=True, materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in found])


def test_the_model_is_put_back_bit_by_bit(models):
    for family, model in models.items():
        given, _ = inputs(family, "left")
        own, name, config = logits(model, given), model.config._attn_implementation, model.config.to_dict()
        with pytest.raises(RuntimeError, match="on purpose"), swapped(model, "relu"):
            raise RuntimeError("on purpose")
        with swapped(model, "relu"):
            assert model.config._attn_implementation != name
        assert model.config._attn_implementation == name
        assert model.config.to_dict() == config
        assert torch.equal(logits(model, given), own)


def test_the_inner_of_two_blocks_wins_and_the_outer_comes_back(models):
    model = models["llama"]
    given, _ = inputs("llama")
    relu, one = swapped(model, "relu"), swapped(model, "softmax1", bias=1.0)
    with relu:
        outer = logits(model, given)
        with one:
            inner = logits(model, given)
            with one, relu:
                assert torch.equal(logits(model, given), outer)
            assert torch.equal(logits(model, given), inner)
        assert torch.equal(logits(model, given), outer)
    with one:
        assert torch.equal(logits(model, given), inner)
    assert not torch.equal(inner, outer)


def test_blocks_that_end_out_of_order_are_refused_and_leave_nothing_behind(models):
    model = models["llama"]
    config, name = model.config.to_dict(), model.config._attn_implementation
    relu = swapped(model, "relu")
    with relu, pytest.raises(SpecError, match="leave that one first"), swapped(model, "abs"):
        relu.__exit__(None, None, None)
    assert model.config.to_dict() == config
    assert model.config._attn_implementation == name


def test_watch_measures_the_swapped_weights(models):
    model = models["llama"]
    given, _ = inputs("llama")
    with swapped(model, "softmax1", bias=2.0), watch(model) as w:
        logits(model, given)
    with swapped(model, "uniform"), watch(model) as uniform:
        logits(model, given)
    assert (w.report()["total"] < 0.9).all()
    harmonic = sum(1 / n for n in range(1, 20)) / 19
    assert uniform.report()["sink"].to_numpy() == pytest.approx(harmonic, abs=FLOAT32)


@pytest.mark.parametrize("form", ["number", "tensor", "list", "dictionary"])
def test_a_bias_can_be_written_in_four_ways(models, form):
    model = models["llama"]
    given, _ = inputs("llama")
    rows = torch.stack([B_H, B_H + 1])
    name = [site.name for site in sites(model)]
    same = {
        "number": 0.25,
        "tensor": rows,
        "list": [B_H, (B_H + 1).tolist()],
        "dictionary": {name[1]: rows[1], name[0]: rows[0]},
    }[form]
    with swapped(model, "softmax1", bias=same) as swap:
        ours = logits(model, given)
    expected = {n: torch.full((4,), 0.25) if form == "number" else rows[i] for i, n in enumerate(name)}
    assert all(torch.equal(swap.bias[n], b) for n, b in expected.items())
    with swapped(model, "softmax1", bias=expected):
        assert torch.equal(logits(model, given), ours)


def test_learned_biases_are_trained_alone(models):
    model = models["gpt2"]
    given, _ = inputs("gpt2")
    before = [parameter.clone() for parameter in model.parameters()]
    swap = swapped(model, "softmax1", bias=0.0, learn=True)
    assert [tuple(b.shape) for b in swap.parameters()] == [(4,), (4,)]
    optimizer, losses = torch.optim.Adam(swap.parameters(), lr=0.1), []
    for _ in range(5):
        with swap:
            loss = model(**given, labels=given["input_ids"]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.zero_grad()
    assert losses == sorted(losses, reverse=True)
    assert all(b.abs().min() > 0.1 for b in swap.bias.values())
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))


BAD = [
    ({"map": "softmax2"}, "did you mean 'softmax"),
    ({"map": 3}, "unknown map"),
    ({"map": "mlp"}, "feature network"),
    ({"map": "softmax1"}, "needs bias="),
    ({"map": "softmax1", "bias": "calibrate"}, "did you mean 'calibrated'"),
    ({"map": "softmax1", "bias": "calibrated"}, "need each other"),
    ({"map": "softmax1", "bias": 0.0, "calibration": [torch.zeros(1, 4)]}, "need each other"),
    ({"map": "softmax1", "bias": "calibrated", "calibration": []}, "at least one, got none"),
    ({"map": "softmax1", "bias": "calibrated", "calibration": ["a text"]}, "got str"),
    ({"map": "softmax1", "bias": "-log n"}, "sigmoid and sigmoid_norm"),
    ({"map": "sigmoid", "bias": "-log n", "learn": True}, "not learned"),
    ({"map": "relu", "bias": 0.0}, "takes no bias"),
    ({"map": "relu", "learn": True}, "takes no bias"),
    ({"map": "softmax1", "bias": float("nan")}, "finite, got nan"),
    ({"map": "softmax1", "bias": -float("inf")}, "finite, got -inf"),
    ({"map": "softmax1", "bias": True}, "bias must be a number"),
    ({"map": "softmax1", "bias": object()}, "bias must be a number"),
    ({"map": "softmax1", "bias": torch.zeros(3, 4)}, r"attention module \(2\), got 3 rows"),
    ({"map": "softmax1", "bias": torch.zeros(2, 3)}, r"one per head \(4\), got shape \(3,\)"),
    ({"map": "softmax1", "bias": {"model.layers.0.self_atn": 0.0}}, "did you mean 'model.layers.0.self_attn'"),
    ({"map": "softmax1", "bias": {"model.layers.0.self_attn": 0.0}}, "lacks module 'model.layers.1.self_attn'"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_refused_before_the_model_is_touched(models, given, message):
    model = models["llama"]
    name = model.config._attn_implementation
    with pytest.raises(SpecError, match=message) as error:
        swapped(model, **given)
    assert "\n" not in str(error.value)
    assert model.config._attn_implementation == name


def test_models_outside_the_registry_are_refused():
    with pytest.raises(SpecError, match="does not use the attention registry"):
        swapped(build("gpt_neo"), "relu")
    with pytest.raises(SpecError, match="must be a transformers model, got Linear"):
        swapped(torch.nn.Linear(2, 2), "relu")


def test_a_bias_of_one_axis_is_refused():
    """Per head or per site? On a model with as many heads as layers nothing would tell."""
    with pytest.raises(SpecError, match=r"got a tensor of shape \(2,\): per head or per site"):
        swapped(build("llama"), "softmax1", bias=torch.zeros(2))
    with pytest.raises(SpecError, match=r"got \[0.5, 0.5\]: per head or per site"):
        swapped(build("llama"), "softmax1", bias=[0.5, 0.5])


def test_a_number_of_numpy_is_a_number():
    model, inputs = build("llama"), batch("llama")
    with torch.no_grad(), swapped(model, "softmax1", bias=np.float32(0.5)):
        found = model(**inputs).logits
    with torch.no_grad(), swapped(model, "softmax1", bias=0.5):
        assert torch.equal(model(**inputs).logits, found)
