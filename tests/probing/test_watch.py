"""Every statistic of every head against a dense reference, in every family of models, with and without padding."""

import numpy as np
import pandas
import pytest
import torch

from softmaxlab.probing import watch
from softmaxlab.probing.definitions import FAST, FULL
from softmaxlab.probing.streaming import attach
from tests.probing import dense
from tests.probing.families import CASES, FAMILIES, SAMPLES, batch, build, dense_layers, is_cross

AGREES = 1e-5  # float32 scores on both sides; relative for counts of keys, which exceed 1
OUTPUT = 2e-5  # relative to the largest entry: float32 through two layers, T5 without scaling loses two digits
BFLOAT16 = 0.03  # relative: 8 bits of mantissa, 2⁻⁸ in each score of size 1 to 4, pooled over 57 rows
EPS = 0.2


def assert_report_agrees(table, layers: dict, tolerance: float, names=FULL) -> None:
    assert len(table) == sum(layer.w.shape[1] for layer in layers.values())
    for _, row in table.iterrows():
        expected = dense.head_statistics(layers[row["module"]], row["head"])
        for name in [*names, *(f"{name}_se" for name in names), "queries", "sequences"]:
            allowed = tolerance * max(1.0, abs(expected[name]))
            difference = abs(row[name] - expected[name])
            assert difference <= allowed or np.isnan([row[name], expected[name]]).all(), (row["module"], name)


def output_of(result) -> torch.Tensor:
    return result.logits if hasattr(result, "logits") else result.last_hidden_state


def assert_outputs_equal(found, expected, inputs: dict) -> None:
    found, expected = output_of(found), output_of(expected)
    mask = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    real = torch.ones(found.shape[:2], dtype=torch.bool) if mask is None else mask.bool()
    assert (found - expected)[real].abs().max() <= OUTPUT * expected[real].abs().max()


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_report_agrees_with_eager(name, kind):
    model, inputs = build(name), batch(name, kind)
    expected, layers = dense_layers(name, model, inputs)
    with torch.no_grad(), watch(model) as w:
        found = model(**inputs)
    assert_outputs_equal(found, expected, inputs)
    with torch.no_grad(), watch(model, statistics="fast") as fast:
        model(**inputs)
    for table_kind in ("self", "cross") if FAMILIES[name].takes == "pair" else ("self",):
        part = {module: layer for module, layer in layers.items() if is_cross(module) == (table_kind == "cross")}
        full, quick = w.report(table_kind), fast.report(table_kind)
        assert_report_agrees(full, part, AGREES)
        for column in [c for name in FAST for c in (name, f"{name}_se")]:
            np.testing.assert_allclose(quick[column], full[column], atol=AGREES, err_msg=column)


def test_reference_can_fail():
    model, inputs = build("llama"), batch("llama", "left")
    _, layers = dense_layers("llama", model, inputs)
    with torch.no_grad(), watch(model) as w:
        model(input_ids=inputs["input_ids"])  # pads count as tokens
    with pytest.raises(AssertionError):
        assert_report_agrees(w.report(), layers, AGREES)


def test_heads_of_the_test_models_are_sharp_and_differ():
    """Uniform attention would hide mistakes."""
    for name in ("gpt2", "llama", "bert", "gpt_oss", "t5"):
        with torch.no_grad(), watch(build(name)) as w:
            w.model(**batch(name))
        table = w.report()
        assert table["entropy_normalised"].min() < 0.9, name
        assert table["sink"].std() > 0.01, name


@pytest.mark.parametrize("kind", ["no", "left", "right"])
@pytest.mark.parametrize("name", ["llama", "bert", "mistral", "gpt_oss"])
def test_profile_and_sinks_agree_with_eager(name, kind):
    model, inputs = build(name), batch(name, kind)
    _, layers = dense_layers(name, model, inputs)
    with torch.no_grad(), watch(model, eps=EPS) as w:
        model(**inputs)
    profile, sinks, found_any = w.profile(), w.sinks(), False
    for number, layer in enumerate(layers.values()):
        for head in range(layer.w.shape[1]):
            rows = profile[(profile["layer"] == number) & (profile["head"] == head)]
            expected = dense.profile(layer, head)
            assert rows["position"].tolist() == list(range(len(expected)))
            np.testing.assert_allclose(rows["weight"], expected, atol=AGREES)
            rows = sinks[(sinks["layer"] == number) & (sinks["head"] == head)]
            found = dict(zip(zip(rows["position"], rows["token"]), rows["share"]))
            expected = dense.sinks(layer, head, EPS)
            assert found == pytest.approx(expected)
            found_any = found_any or bool(expected)
    assert found_any


@pytest.mark.parametrize(
    ("name", "kind"), [("llama", "left"), ("gemma2", "right"), ("gpt_oss", "no"), ("bert", "left")]
)
def test_the_largest_logit_is_that_of_the_written_out_scores(name, kind):
    model, inputs = build(name), batch(name, kind)
    _, layers = dense_layers(name, model, inputs)
    seen: dict[str, torch.Tensor] = {}

    def keep(state, call, _) -> None:
        seen[state.site.name] = call.raw(slice(0, call.lengths[0]), call.lengths[1])

    with torch.no_grad(), watch(model) as w, attach.attached(model) as states:
        for state in states:
            state.observers.append(keep)
        model(**inputs)
    expected = []
    for module, layer in layers.items():  # `visible` [B, Tq, Tk] of the reference, without padded queries
        shown = layer.visible & layer.queries[:, :, None]
        expected.append(np.where(shown[:, None], seen[module].numpy(), -np.inf).max(axis=(0, 2, 3)))
    np.testing.assert_allclose(w.report()["max_logit"], np.concatenate(expected), rtol=AGREES)


def test_a_reset_begins_anew():
    model = build("llama")
    with torch.no_grad(), watch(model) as w:
        model(**batch("llama", seed=0))
        w.reset()
        model(**batch("llama", seed=1))
    with torch.no_grad(), watch(model) as alone:
        model(**batch("llama", seed=1))
    for one, other in (
        (w.report(), alone.report()),
        (w.activations(), alone.activations()),
        (w.sinks(), alone.sinks()),
    ):
        pandas.testing.assert_frame_equal(one, other)


def test_a_sink_lives_from_its_first_layer_to_its_last():
    model = build("llama")
    with torch.no_grad(), watch(model, eps=0.15) as w:
        model(**batch("llama"))
    sinks = w.sinks()
    assert sinks["first_layer"].lt(sinks["last_layer"]).any()
    for (position, token), rows in sinks.groupby(["position", "token"]):
        assert set(rows["first_layer"]) == {rows["layer"].min()}, (position, token)
        assert set(rows["last_layer"]) == {rows["layer"].max()}, (position, token)


def test_tokens_of_cross_attention_are_the_encoders():
    model, inputs = build("bart"), batch("bart", "left")
    _, layers = dense_layers("bart", model, inputs)
    with torch.no_grad(), watch(model, eps=0.1) as w:
        model(**inputs)
    sinks = w.sinks("cross")
    crossed = [layer for module, layer in layers.items() if is_cross(module)]
    expected = {(n, h): dense.sinks(layer, h, 0.1) for n, layer in enumerate(crossed) for h in range(4)}
    found = {(row.layer, row.head, row.position, row.token): row.share for row in sinks.itertuples()}
    assert found == pytest.approx({(*key, *sink): share for key in expected for sink, share in expected[key].items()})
    assert len(found) > 0


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "gpt_oss"])
def test_bfloat16(name):
    model, inputs = build(name), batch(name, "left")
    with torch.no_grad(), watch(model) as exact:
        model(**inputs)
    with torch.no_grad(), watch(model.to(torch.bfloat16)) as rounded:
        model(**inputs)
    # later layers read hidden states that are rounded many times over
    found, expected = (w.report()[w.report()["layer"] == 0] for w in (rounded, exact))
    for column in ("sparsity", "sink", "entropy", "total", "effective_keys", "sink_value", "sink_output"):
        np.testing.assert_allclose(found[column], expected[column], rtol=BFLOAT16, atol=BFLOAT16, err_msg=column)
    if name != "gpt_oss":  # statistics are in float32 all the same
        np.testing.assert_allclose(rounded.report()["total"], 1, atol=1e-6)


@pytest.mark.parametrize("sink", [None, torch.tensor([0.3, -1.0], dtype=torch.float64)])
def test_output_of_a_float64_call_is_in_float64(sink):
    """With a soft cap or a learned sink the output is our own."""
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, 9, 4, generator=draw, dtype=torch.float64) for _ in range(3))
    found, _ = attach._attend(torch.nn.Identity(), q, k, v, None, scaling=0.5, is_causal=True, softcap=2.0, s_aux=sink)
    scores = 2 * torch.tanh(q @ k.mT / 4)
    scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf).exp()
    beside = 0 if sink is None else sink.exp()[:, None, None]
    expected = (scores / (scores.sum(dim=-1, keepdim=True) + beside)) @ v
    torch.testing.assert_close(found, expected.transpose(1, 2), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("as_float", [False, True])
def test_masks_with_four_axes(as_float):
    model, inputs = build("llama"), batch("llama", "left")
    real = inputs["attention_mask"].bool()
    T = real.shape[1]
    mask = real[:, None, None] & torch.ones(T, T, dtype=torch.bool).tril()
    if as_float:
        mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    _, layers = dense_layers("llama", model, inputs)
    with torch.no_grad(), watch(model) as w:
        model(input_ids=inputs["input_ids"], attention_mask=mask)
    assert_report_agrees(w.report(), layers, AGREES)
    with torch.no_grad(), watch(model) as plain:
        model(**inputs)
    for column in ("top", "position", "token", "kurtosis"):
        np.testing.assert_allclose(w.activations()[column], plain.activations()[column], rtol=1e-5)


def test_queries_that_see_nothing_are_empty():
    model, ids = build("llama"), batch("llama")["input_ids"]
    T = ids.shape[1]
    mask = torch.ones(T, T, dtype=torch.bool).tril().expand(SAMPLES, 1, T, T).clone()
    mask[:, :, 4] = False  # query 4 sees nothing, but others see key 4
    with torch.no_grad(), watch(model) as w:
        model(input_ids=ids, attention_mask=mask)
    table = w.report()
    np.testing.assert_allclose(table["empty"], 1 / T)
    np.testing.assert_allclose(table["total"], 1 - 1 / T, atol=AGREES)
    np.testing.assert_array_equal(table["queries"], SAMPLES * T)
    assert np.isfinite(table[list(FULL)]).all(axis=None)
    # 18 rows of weight 1 lie on 19 columns
    weights = w.profile().merge(_seen(mask)).eval("weight * seen").groupby([w.profile()["layer"], w.profile()["head"]])
    np.testing.assert_allclose(weights.sum(), T - 1, rtol=1e-5)


def _seen(mask: torch.Tensor):
    import pandas

    return pandas.DataFrame({"position": range(mask.shape[-1]), "seen": mask[0, 0].sum(dim=0).numpy()})


def test_standard_error_over_batches():
    model = build("gpt2")
    batches = [batch("gpt2", kind, seed) for seed, kind in enumerate(["left", "right", "no", "left"])]
    layers = [dense_layers("gpt2", model, inputs)[1] for inputs in batches]
    with torch.no_grad(), watch(model) as w:
        for inputs in batches:
            model(**inputs)
    joined = {
        module: dense.Layer(
            module, *(np.concatenate([getattr(found[module], f) for found in layers]) for f in dense.STACKED)
        )
        for module in layers[0]
    }
    assert_report_agrees(w.report(), joined, AGREES)
