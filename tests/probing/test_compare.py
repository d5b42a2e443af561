"""Side by side: means, differences and shares against plain arithmetic."""

import copy

import numpy as np
import pandas
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing.compare import compare, compare_tables
from softmaxlab.probing.next_token_loss import change, loss
from softmaxlab.probing.watch import watch
from tests.probing.families import LAYERS, batch, build

EXACT = 1e-12


def table(sink: list[list[float]], se: float) -> pandas.DataFrame:
    rows = [
        {"layer": layer, "head": head, "sink": value, "sink_se": se, "entropy": 2 * value, "entropy_se": se}
        for layer, values in enumerate(sink)
        for head, value in enumerate(values)
    ]
    return pandas.DataFrame(rows)


def test_means_differences_and_shares_by_hand():
    a, b = table([[0.2, 0.4], [0.95, 0.35]], 0.03), table([[0.1, 0.1], [0.5, 0.1]], 0.04)
    found = compare_tables(a, b)
    sink = found.layers[found.layers["statistic"] == "sink"].set_index("layer")
    np.testing.assert_allclose(sink["a"], [0.3, 0.65], rtol=EXACT)
    np.testing.assert_allclose(sink["difference"], [-0.2, -0.35], rtol=EXACT)
    np.testing.assert_allclose(sink["se"], [0.05, 0.05], rtol=EXACT)
    summary = found.summary.set_index("statistic")
    assert summary.loc["sink", "difference"] == pytest.approx(0.2 - 0.475, rel=EXACT)
    assert summary.loc["share of heads with sink > 0.3", ["a", "b"]].tolist() == [0.75, 0.25]
    assert summary.loc["share of heads with sink > 0.9", ["a", "b"]].tolist() == [0.25, 0.0]
    assert found.change is None


def test_a_deeper_model_is_compared_where_both_have_layers():
    found = compare_tables(table([[0.2, 0.4]], 0.1), table([[0.2], [0.6]], 0.1)).layers
    assert found.loc[found["layer"] == 1, "a"].isna().all()
    assert found.loc[found["layer"] == 0, "difference"].notna().all()


def test_two_models_on_the_same_tokens():
    model, inputs = build("llama"), batch("llama", "right")
    same = compare(model, model, [inputs])
    assert (same.summary["difference"] == 0).all()
    assert same.change is not None
    assert (same.change.mean, same.change.se) == (0.0, 0.0)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.model.layers[0].self_attn.q_proj.weight.zero_()
    found = compare(model, other, [inputs])
    assert found.change == change(loss(model, [inputs]), loss(other, [inputs]))
    with torch.no_grad(), watch(other) as seen:
        other(**inputs)
    entropy = found.layers[found.layers["statistic"] == "entropy"].set_index("layer")["b"]
    expected = seen.report().groupby("layer")["entropy"].mean()
    np.testing.assert_allclose(entropy, expected, rtol=EXACT)


def test_other_tokens_give_no_change_of_loss():
    model = build("llama")
    assert compare(model, model, [batch("llama")], [batch("llama", seed=5)]).change is None


def test_models_without_a_loss_are_compared_by_their_heads():
    found = compare(build("bert"), build("bert", seed=1), [batch("bert")])
    assert found.change is None
    assert found.layers["layer"].nunique() == LAYERS


def test_tables_must_share_a_statistic():
    with pytest.raises(SpecError, match="share a statistic"):
        compare_tables(table([[0.2]], 0.1), pandas.DataFrame({"layer": [0], "head": [0]}))
