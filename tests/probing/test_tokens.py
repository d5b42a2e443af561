"""Which tokens of which sequences are sinks or massive: each sequence alone, and hidden states read by hooks."""

import numpy as np
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.measure.thresholds import MASSIVE, MASSIVE_RATIO
from softmaxlab.probing import watch
from softmaxlab.probing.streaming.tokens import token_mask
from tests.probing.families import LENGTH, SAMPLES, batch, build

EPS = 0.15
HUGE = 1e6  # a token's embedding times this


def massive_model():
    """A tiny Llama in which the token 5 is massive from the first layer on."""
    model = build("llama")
    model.model.embed_tokens.weight.data[5] *= HUGE
    return model


@pytest.mark.parametrize("kind", ["no", "left", "right"])
def test_sinks_are_those_of_each_sequence_alone(kind):
    model, seeds = build("llama"), (1, 2)
    with torch.no_grad(), watch(model, eps=EPS, tokens=True) as w:
        for seed in seeds:
            model(**batch("llama", kind, seed))
    expected = {}
    for at, seed in enumerate(seeds):
        inputs = batch("llama", kind, seed)
        for b in range(SAMPLES):
            with torch.no_grad(), watch(model, eps=EPS) as alone:
                model(**{name: value[b : b + 1] for name, value in inputs.items()})
            for (layer, position, token), rows in alone.sinks().groupby(["layer", "position", "token"]):
                expected[layer, at * SAMPLES + b, position, token] = rows["head"].nunique()
    table = w.tokens()
    keys = zip(table["layer"], table["sequence"], table["position"], table["token"])
    assert dict(zip(keys, table["sink_heads"])) == expected
    assert len(expected) > SAMPLES
    assert (table["sink_weight"] > EPS).all()
    assert table["activation"].isna().all()


@pytest.mark.parametrize("kind", ["no", "left"])
def test_massive_tokens_are_those_of_the_hidden_states(kind):
    model, inputs = massive_model(), batch("llama", kind)
    inputs["input_ids"][1, 9] = inputs["input_ids"][2, 12] = 5
    states: list[torch.Tensor] = []
    hooks = [layer.register_forward_hook(lambda m, a, out: states.append(out)) for layer in model.model.layers]
    with torch.no_grad(), watch(model, tokens=True) as w:
        model(**inputs)
    for hook in hooks:
        hook.remove()
    real = inputs["attention_mask"].bool()
    expected = {}
    for layer, h in enumerate(states[-len(model.model.layers) :]):
        bound = max(MASSIVE, MASSIVE_RATIO * float(h[real].abs().median()))
        for b, t in ((h.abs().amax(dim=-1) > bound) & real).nonzero().tolist():
            position = t - int(real[b].int().argmax())
            expected[layer, b, position, int(inputs["input_ids"][b, t])] = float(h[b, t].abs().max())
    table = w.tokens().dropna(subset="activation")
    keys = zip(table["layer"], table["sequence"], table["position"], table["token"])
    assert dict(zip(keys, table["activation"])) == pytest.approx(expected)
    assert {key[3] for key in expected} == {5}
    mask = token_mask(w.tokens(), SAMPLES, LENGTH, "massive", layer=1)
    assert {(key[1], key[2]) for key in expected if key[0] == 1} == set(map(tuple, np.argwhere(mask).tolist()))


def test_a_model_without_either_has_an_empty_table():
    with torch.no_grad(), watch(build("llama"), eps=0.999, tokens=True) as w:
        w.model(input_ids=batch("llama")["input_ids"][:, 3:])
    table = w.tokens()
    assert not token_mask(table[table["position"] > 0], SAMPLES, LENGTH).any()


def test_tokens_are_kept_only_if_asked_for():
    with pytest.raises(SpecError, match="tokens=True needs statistics='full'"):
        watch(build("llama"), tokens=True, statistics="fast")
    with torch.no_grad(), watch(build("llama")) as w:
        w.model(**batch("llama"))
    with pytest.raises(SpecError, match=r"watch\(model, tokens=True\)"):
        w.tokens()
    with pytest.raises(SpecError, match="kind"):
        token_mask(w.sinks().assign(sink_heads=1, activation=np.nan), 1, 1, "masive")
