"""bias="calibrated": what is said to be matched is matched, in the swapped model, on the calibration batches."""

import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.sites import sites
from softmaxlab.probing.swap.biases import CALIBRATES
from softmaxlab.probing.swap.swapped import swapped
from softmaxlab.probing.watch import watch
from tests.probing.families import batch, build

MATCHED = 1e-5  # of a mean total: solved to 1e-6, measured in float32
FAMILIES = ("llama", "mistral", "gemma2", "bert", "t5")


def batches(family):
    """Padded and not, of different lengths."""
    return [batch(family, "left"), {name: x[:2, :9] for name, x in batch(family, "no", seed=3).items()}]


def tables(model, runs):
    with torch.no_grad(), watch(model) as w:
        for run in runs:
            model(**run)
    return [table for table in (w.report("self"), w.report("cross")) if len(table)]


def totals(model, map, bias, runs):
    with swapped(model, map, bias=bias):
        return [table["total"] for table in tables(model, runs)]


@pytest.mark.parametrize("family", [*FAMILIES, "gpt_oss"])
def test_softmax1_puts_on_nowhere_what_the_first_token_had(family):
    model, runs = build(family), batches(family)
    own = tables(model, runs)
    swap = swapped(model, "softmax1", bias="calibrated", calibration=runs)
    for before, total in zip(own, totals(model, "softmax1", swap.bias, runs)):
        expected = before["total"] * (1 - before["sink"])
        assert (total - expected).abs().max() < MATCHED
    wrong = totals(model, "softmax1", {name: b + 0.1 for name, b in swap.bias.items()}, runs)
    assert (wrong[0] - own[0]["total"] * (1 - own[0]["sink"])).abs().max() > 100 * MATCHED


@pytest.mark.parametrize("map", ["sigmoid", "bayes_softmax"])
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_sum_to_one_in_the_mean(family, map):
    model, runs = build(family), batches(family)
    swap = swapped(model, map, bias="calibrated", calibration=runs)
    for total in totals(model, map, swap.bias, runs):
        assert (total - 1).abs().max() < MATCHED
    assert max((total - 1).abs().max() for total in totals(model, map, 0.0, runs)) > 0.01


def test_sigmoid_norm_sums_to_one_before_it_is_normalised():
    model, runs = build("llama"), batches("llama")
    first, *_ = (site.name for site in sites(model))
    plain, norm = (swapped(model, map, bias="calibrated", calibration=runs).bias for map in ("sigmoid", "sigmoid_norm"))
    # the first layer sees the same scores under both, the second does not
    assert torch.allclose(plain[first], norm[first])
    with swapped(model, "sigmoid_norm", bias=norm) as swap, torch.no_grad(), watch(model) as w:
        for run in runs:
            model(**run)
    assert (w.report()["total"] - 1).abs().max() < MATCHED
    assert swap.map == "sigmoid_norm"


def test_calibration_leaves_the_model_as_it_was_and_feels_no_outer_swap():
    model, runs = build("llama"), batches("llama")
    own, name = model(**runs[0]).logits, model.config._attn_implementation
    model.train()
    model.lm_head.eval()
    bias = swapped(model, "softmax1", bias="calibrated", calibration=runs).bias
    assert model.model.training
    assert not model.lm_head.training
    with swapped(model, "relu"):
        again = swapped(model, "softmax1", bias="calibrated", calibration=runs).bias
    assert all(torch.equal(bias[site], again[site]) for site in bias)
    assert model.config._attn_implementation == name
    assert torch.equal(model.eval()(**runs[0]).logits, own)


def test_calibrated_biases_can_be_learned_further_and_tokens_alone_are_a_batch():
    model = build("llama")
    ids = batch("llama")["input_ids"]
    swap = swapped(model, "sigmoid", bias="calibrated", calibration=[ids], learn=True)
    start = swapped(model, "sigmoid", bias="calibrated", calibration={"input_ids": ids})
    assert all(torch.equal(b, start.bias[name]) for name, b in swap.bias.items())
    assert all(b.requires_grad for b in swap.parameters())


@pytest.mark.parametrize("map", CALIBRATES)
def test_one_token_says_nothing(map):
    with pytest.raises(SpecError, match="at least two token ids"):
        swapped(build("llama"), map, bias="calibrated", calibration=[torch.tensor([[5]])])
