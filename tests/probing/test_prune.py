"""Gains, estimates and the greedy order against brute force."""

import numpy as np
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing.interventions.prune import Gains, estimates, prune, pruned
from softmaxlab.probing.next_token_loss import change, loss
from softmaxlab.probing.streaming.attach import attached
from tests.probing.families import HEADS, LAYERS, VOCAB, WIDTH, batch, build

ROUND_OFF = 1e-5  # float32 logits
STEP = 1e-3  # central differences: error STEP² ~ 1e-6, float32 noise 1e-7·loss/STEP ~ 1e-3
SLOPE = 5e-3  # five times that noise, relative to the largest slope
D = WIDTH // HEADS


def sequences(count: int, seed: int = 0, length: int = 12) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(3, VOCAB, (length,), generator=draw) for _ in range(count)]


def logits(model, inputs) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs).logits


@pytest.mark.parametrize(("rule", "gain"), [("count", HEADS / (HEADS - 2)), ("none", 1.0)])
def test_pruning_is_scaling_the_columns_of_the_output_projection(rule, gain):
    model, inputs = build("llama"), batch("llama", "left")
    whole = logits(model, inputs)
    with pruned(model, [(0, 1), (0, 3)], rule):
        found = logits(model, inputs)
    assert torch.equal(logits(model, inputs), whole)
    assert not torch.allclose(found, whole, atol=ROUND_OFF)
    W = model.model.layers[0].self_attn.o_proj.weight
    with torch.no_grad():
        W *= gain
        W[:, D : 2 * D] = 0.0
        W[:, 3 * D :] = 0.0
    torch.testing.assert_close(found, logits(model, inputs), atol=ROUND_OFF, rtol=ROUND_OFF)


@pytest.mark.parametrize("name", ["llama", "gpt_oss"])
def test_plain_removal_is_the_default_and_exactly_zeroed_columns(name):
    model, inputs = build(name), batch(name)
    heads = [(0, 1), (1, 0), (1, 2)]
    with pruned(model, heads):
        removed = logits(model, inputs)
    with pruned(model, heads, "count"):
        assert not torch.allclose(removed, logits(model, inputs), atol=ROUND_OFF), "scaling the rest is another model"
    with torch.no_grad():
        for layer, head in heads:
            projection = model.model.layers[layer].self_attn.o_proj.weight
            projection[:, head * D : (head + 1) * D] = 0.0
    with attached(model):  # the same attention function, with nothing removed
        assert torch.equal(removed, logits(model, inputs))


def test_a_layer_without_heads_adds_nothing():
    model, inputs = build("llama"), batch("llama")
    with pruned(model, [(1, h) for h in range(HEADS)]):
        found = logits(model, inputs)
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight.zero_()
    torch.testing.assert_close(found, logits(model, inputs), atol=ROUND_OFF, rtol=ROUND_OFF)


def test_total_keeps_the_total_weight():
    model = build("gpt_oss")
    totals = [torch.tensor([0.5, 1.0, 0.25, 0.25]), torch.ones(HEADS)]
    with attached(model) as states:
        gains = Gains(states, "total", totals)
        gains.removed.append((0, 1))
        torch.testing.assert_close(gains.layer(0), torch.tensor([2.0, 0.0, 2.0, 2.0]))
        torch.testing.assert_close(gains.layer(1), torch.ones(HEADS))


def test_total_differs_from_count_only_where_weights_do_not_sum_to_one():
    for name, same in (("llama", True), ("gpt_oss", False)):
        model, texts = build(name), sequences(4)
        found = {rule: prune(model, texts, 1, rule, candidates=LAYERS * HEADS) for rule in ("count", "total")}
        assert np.allclose(found["count"]["loss"], found["total"]["loss"], atol=ROUND_OFF) == same


def test_estimates_have_the_slope_of_the_loss():
    model, texts = build("llama"), sequences(1, length=20)
    batches = [{"input_ids": texts[0][None]}]
    with attached(model) as states:
        gains = Gains(states, "count")
        found = estimates(model, batches, gains)
        slopes = {}
        for layer, head in gains.kept():
            here = [gains.layer(i) for i in range(LAYERS)]
            δ = gains.layer(layer, (layer, head)) - here[layer]
            sides = []
            for step in (STEP, -STEP):
                moved = [gain + step * δ if i == layer else gain for i, gain in enumerate(here)]
                with gains.applied(gains=moved):
                    sides.append(loss(model, batches).S.sum())
            slopes[layer, head] = (sides[0] - sides[1]) / (2 * STEP)
    tokens = 19
    x = np.array(list(slopes.values()))
    expected = (x + x**2 / 2) / tokens
    np.testing.assert_allclose(list(found.values()), expected, atol=SLOPE * np.abs(expected).max())


def test_with_every_head_a_candidate_the_order_is_the_greedy_one():
    model, choosing, judging = build("llama"), sequences(3), sequences(3, seed=1)
    table = prune(model, choosing, heads=3, candidates=LAYERS * HEADS, judging=judging)
    assert table["step"].tolist() == [0, 1, 2, 3]
    assert table.loc[0, ["layer", "head"]].isna().all()
    removed: list[tuple[int, int]] = []
    every = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    whole = loss(model, judging)
    for row in table.itertuples():
        if row.step:
            costs = {}
            for head in set(every) - set(removed):
                with pruned(model, [*removed, head]):
                    costs[head] = loss(model, choosing).mean
            assert (row.layer, row.head) == min(costs, key=costs.__getitem__)
            removed.append((row.layer, row.head))
        with pruned(model, removed):
            now = loss(model, judging)
        assert row.loss == pytest.approx(now.mean, rel=ROUND_OFF)
        assert row.delta == pytest.approx(change(whole, now).mean, abs=ROUND_OFF)
        assert row.delta_se == pytest.approx(change(whole, now).se, abs=ROUND_OFF)
    assert model.config._attn_implementation == "sdpa"


def test_a_dead_head_goes_first_and_costs_nothing():
    model = build("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight[:, 2 * D : 3 * D] = 0.0
    # on a random model the slope may promise more than nothing for a live head, so all are tried
    texts = sequences(4)
    with attached(model) as states:
        gains = Gains(states, "none")
        assert estimates(model, [{"input_ids": text[None]} for text in texts], gains)[1, 2] == 0.0
    with pruned(model, [(1, 2)], "none"):
        after = loss(model, texts)
    assert change(loss(model, texts), after).mean == 0.0


def test_no_gradient_is_left_behind():
    model = build("llama")
    prune(model, sequences(2), heads=1, candidates=1)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 0}, "heads must"),
        ({"heads": LAYERS * HEADS + 1}, "heads must"),
        ({"heads": 1, "rule": "counts"}, "did you mean 'count'"),
        ({"heads": 1, "candidates": 0}, "candidates must"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(SpecError, match=message):
        prune(build("llama"), sequences(2), **options)
    with pytest.raises(SpecError, match="at least two"):
        prune(build("llama"), sequences(1), heads=1)
    with pytest.raises(SpecError, match="different"), pruned(build("llama"), [(0, HEADS)]):
        pass
