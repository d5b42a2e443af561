"""A sample of the queries against all of them: means within their standard errors, errors of the right size."""

import numpy as np
import pandas
import pytest
import torch
import transformers as tf

from softmaxlab.errors import SpecError
from softmaxlab.probing import watch
from softmaxlab.probing.definitions import SAMPLING
from softmaxlab.probing.streaming.sampled_rows import SampledRows

T, QUERIES = 2048, 128
DRAWS = 60
ROW_MEANS = ("sparsity", "sink", "entropy", "entropy_normalised", "effective_keys", "sink_output")
WITHIN = 3.0  # standard errors
FEW_BEYOND = 0.02  # of the pairs (head, statistic); 0.003 for a normal variable, and tails are heavier


def model(length: int, width: int = 32, layers: int = 2, heads: int = 4):
    torch.manual_seed(0)
    config = tf.LlamaConfig(
        vocab_size=97, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers,
        num_attention_heads=heads, max_position_embeddings=length,
    )  # fmt: skip
    net = tf.LlamaForCausalLM(config).eval()
    for name, parameter in net.named_parameters():
        if "q_proj" in name:
            parameter.data *= 12.0  # heads that differ from uniform attention
    return net


def reports(net, ids, **options) -> pandas.DataFrame:
    with torch.no_grad(), watch(net, **options) as w:
        net(input_ids=ids, use_cache=False, logits_to_keep=1)
    return w.report()


def test_means_are_within_three_standard_errors_of_all_queries():
    net, ids = model(T), torch.randint(3, 97, (1, T), generator=torch.Generator().manual_seed(1))
    full, sampled = reports(net, ids), reports(net, ids, queries=QUERIES)
    apart = np.stack([(sampled[c] - full[c]).abs() / sampled[f"{c}{SAMPLING}"] for c in ROW_MEANS])
    assert (apart > WITHIN).mean() <= FEW_BEYOND, apart
    assert (apart > 0).all()  # it is a sample
    for column in ROW_MEANS:  # and its error is small enough to be of use
        assert (sampled[f"{column}{SAMPLING}"] < 0.3 * full[column].abs() + 1e-3).all(), column
    np.testing.assert_array_equal(sampled["queries"], full["queries"])
    np.testing.assert_allclose(sampled["total"], 1, atol=1e-6)
    np.testing.assert_allclose(sampled["sink_value"], full["sink_value"], rtol=1e-6)
    assert f"sink{SAMPLING}" not in full
    assert sampled["keys_above"].isna().all()  # rare, so a sample does not know it


@pytest.mark.parametrize("rows", [1000, 1001])
def test_the_standard_error_is_that_of_many_draws(rows):
    """Of a sum whose parts vary from place to place, over draws; the estimate may be too large, never far too small."""
    draw = torch.Generator().manual_seed(0)
    x = 1 / torch.arange(1, rows + 1).double() + 0.1 * torch.randn(3, 2, rows, generator=draw, dtype=torch.float64)
    means, errors = [], []
    for _ in range(DRAWS):
        sample = SampledRows.draw(rows, 64, draw, torch.device("cpu"))
        counts = torch.ones(3, 2, len(sample.index), dtype=torch.bool)
        assert sample.weight.sum() == rows
        assert (sample.index.diff() > 0).all()
        means.append(sample.sum("x", x[:, :, sample.index], counts).sum(dim=0))
        errors.append(sample.variance["x"].sqrt())
    spread, stated = torch.stack(means).std(dim=0), torch.stack(errors).square().mean(dim=0).sqrt()
    assert (stated / spread > 0.7).all()
    assert (stated / spread < 2.0).all()
    exact = x.sum(dim=(0, 2))
    assert ((torch.stack(means).mean(dim=0) - exact).abs() < WITHIN * spread / DRAWS**0.5).all()


def test_padding_and_short_calls():
    net = model(256)
    ids = torch.randint(3, 97, (2, 200), generator=torch.Generator().manual_seed(2))
    mask = torch.ones(2, 200, dtype=torch.long)
    mask[1, :80] = 0
    with torch.no_grad(), watch(net) as full, watch(net, queries=64) as sampled, watch(net, queries=512) as short:
        net(input_ids=ids, attention_mask=mask)
    np.testing.assert_allclose(sampled.report()["queries"], 320, atol=200 / 48 * 2)  # the estimate of 200 + 120
    apart = (sampled.report()["entropy"] - full.report()["entropy"]).abs() / sampled.report()[f"entropy{SAMPLING}"]
    assert (apart < WITHIN + 1).all()
    pandas.testing.assert_frame_equal(short.report(), full.report())


@pytest.mark.parametrize("queries", [0, 15, 2.5, "64"])
def test_bad_input(queries):
    with pytest.raises(SpecError, match="queries must be a whole number from 16, or None for all, got"):
        watch(model(64), queries=queries)
