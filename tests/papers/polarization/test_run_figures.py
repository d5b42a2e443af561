"""Figures drawn from tables of runs: counted by hand on a table made here, and on a store."""

import json

import numpy as np
import pandas
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.papers.polarization import fig01, fig04, fig05, fig06, fig08
from softmaxlab.papers.polarization.runs import read_runs
from softmaxlab.training import Classification, Induction, Run
from softmaxlab.training.presets import MAPS
from softmaxlab.training.sweep import sweep
from softmaxlab.training.table import frame, row, write_table

NAN = float("nan")


def table_of(tmp_path, cells):
    """A table of unmade runs with what the cells say of their results."""
    store = sl.Store(tmp_path / "none")
    rows = [row(spec, spec.key, store) | {"status": "done"} | given for spec, given in cells]
    return str(write_table(frame(rows), tmp_path / "runs.csv"))


def induction(accuracy, second_layer, **fields):
    scores = json.dumps([[0.1] * len(second_layer), second_layer])
    run = Run(task=Induction(), heads=len(second_layer), **fields)
    return run, {"induction_accuracy": accuracy, "sink_score": scores, "sink_score_pooled": scores}


@pytest.fixture
def sinks(tmp_path):
    cells = [
        induction(1.0, [0.95, 0.5], seed=0),
        induction(0.96, [0.95, 0.99], seed=1),
        induction(0.5, [0.99, 0.99], seed=2),  # does not count
        induction(1.0, [0.0, 0.0], seed=1, stop="settled"),  # the full run of this seed goes before it
        induction(1.0, [0.0, 0.0], seed=0, epochs=1),  # so does the longer one
        induction(0.2, [0.99], map="linear"),
        induction(1.0, [0.99], map="softmax1"),
        induction(1.0, [0.91, 0.2], seed=0, width=64),  # not the paper's model
    ]
    return table_of(tmp_path, cells)


def test_sinks_are_counted_as_the_paper_counts_them(sinks):
    result = sl.simulate(fig04.Fig04(runs=sinks))
    maps, heads = list(result["map"]), list(result["heads"])
    assert maps == [*MAPS, "softmax1"]
    at = maps.index("softmax"), heads.index(2)
    assert result["runs"][0][at] == 3
    assert result["passed"][0][at] == 2
    assert result["share"][0][at] == (0.5 + 1.0) / 2
    failed, missing = (maps.index("linear"), 0), (maps.index("elu"), 0)
    assert result["runs"][0][failed] == 1
    assert result["passed"][0][failed] == 0
    assert np.isnan(result["share"][0][failed])
    assert result["runs"][0][missing] == 0
    assert sorted(result["score"][result["score_map"] == 0]) == [0.5, 0.95, 0.95, 0.99]
    assert fig04.drawn(result).startswith("4 of the paper's 660 runs and 1 of other maps, 3 with accuracy > 0.95")
    assert "red cross" in picture_text(fig04.Fig04.draw(result))


def picture_text(picture):
    return picture._suptitle.get_text()


@pytest.mark.parametrize("figure", [fig04.Fig14, fig04.Fig15, fig04.Fig16, fig04.Fig17])
def test_panels_of_positions_and_queries(sinks, figure):
    result = sl.simulate(figure(runs=sinks))
    assert list(result["panel"])[1] == "additive positions, t′ ≠ t"
    counted = result["runs"].sum(axis=(1, 2))
    assert counted.tolist() == ([0] * 6 if figure.model_fields["aux"].default == 0.0 else [0, 5, 0, 0, 0, 0])
    assert len(figure.draw(result).axes) == 6


def test_accuracies_are_of_all_runs(sinks):
    result = sl.simulate(fig04.Fig17(runs=sinks))
    assert result["accuracy"][1, 0, 1] == pytest.approx((1.0 + 0.96 + 0.5) / 3)


def flips(rates, **fields):
    return Run(task=Classification(), **fields), {"flip_rate": json.dumps(rates), "accuracy": 1.0}


def test_flip_rates_are_the_largest_over_heads_and_layers(tmp_path):
    one = {"layers": 1, "heads": 1}
    runs = table_of(tmp_path, [
        flips([[1.0]], **one), flips([[0.5]], seed=1, **one), flips([[0.0]], map="sigmoid", **one),
        flips([[0.1, 0.3], [0.2, 0.0]], layers=2, heads=2, mlp=False, layernorm=False),
        flips([[0.9]], epochs=1, **one),  # too short to count
    ])  # fmt: skip
    result = sl.simulate(fig06.Fig06(runs=runs))
    assert result["mean"][0, :2].tolist() == [0.75, 0.0]
    assert result["runs"][0].sum() == 3
    assert "3 of the paper's 495 runs" in picture_text(fig06.Fig06.draw(result))
    more = sl.simulate(fig06.Fig21(runs=runs))
    assert more["mean"][list(more["panel"]).index("H = 2, L = 2"), 0] == 0.3
    assert np.nansum(more["mean"]) == 0.3
    assert sl.simulate(fig06.Fig19(runs=runs))["runs"].sum() == 0


def test_runs_of_a_store_are_drawn_and_the_spec_knows_which(tmp_path):
    tiny = Run(task=Classification(train=64, evaluate=32), layers=1, heads=1, width=8, epochs=1)
    sweep([tiny], jobs=1, store=tmp_path / "runs")
    one = fig06.Fig06(runs=str(tmp_path / "runs"))
    assert len(read_runs(str(tmp_path / "runs"), "classification")) == 1
    sweep([tiny.replace(seed=1)], jobs=1, store=tmp_path / "runs")
    two = fig06.Fig06(runs=str(tmp_path / "runs"))
    assert one.key != two.key
    assert sl.simulate(two).status.ok
    with pytest.raises(SpecError, match="have changed since this spec was made"):
        sl.simulate(one)


def test_runs_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(SpecError, match="runs must be 'committed', a store's folder or a"):
        fig04.Fig04(runs=str(tmp_path / "nowhere"))
    pandas.DataFrame({"a": [1]}).to_csv(tmp_path / "other.csv")
    with pytest.raises(SpecError, match="holds no training runs"):
        fig04.Fig04(runs=str(tmp_path / "other.csv"))


def test_the_drawn_induction_sequence_is_one():
    result = sl.simulate(fig08.Fig08(seed=3))
    tokens, first = result["tokens"], int(result["first"])
    assert tokens[0] == 0
    assert tokens[-2] == tokens[first] + 50  # the repeated token's own symbol
    assert tokens[-1] == tokens[first + 1]
    assert len(fig08.Fig08.draw(result).axes) == 1


def test_the_drawn_swap_flips_the_labels():
    result = sl.simulate(fig08.Fig09(epochs=2))
    before, after = result["prediction"]
    assert before[0] != before[1]
    assert after.tolist() == before[::-1].tolist()
    changed = result["tokens"][0] != result["tokens"][1]
    assert changed.sum(axis=1).tolist() == [1, 1]
    fig08.Fig09.draw(result)


def test_softmax_attention_of_cls_becomes_one_hot_and_sigmoid_attention_does_not():
    result = sl.simulate(fig05.Fig05(epochs=2))
    share = result["weights"] / result["weights"].sum(axis=-1, keepdims=True)
    softmax, sigmoid = share[:, -1].max(axis=-1)
    assert softmax.min() > 0.95
    assert sigmoid.max() < 0.3
    fig05.Fig05.draw(result)


def test_token_names():
    assert fig01.token_names(np.array([0, 7, 50, 51, 100]), 51) == ["BOS", "7", "50", "1′", "50′"]
