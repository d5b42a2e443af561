"""Figures drawn from tables of runs: counted by hand on a table made here, and on a store."""

import dataclasses
import json
import logging

import numpy as np
import pandas
import pytest

import softmaxlab as sl
from softmaxlab.core.tables import write_table
from softmaxlab.errors import SpecError
from softmaxlab.papers.polarization import classification_figures, induction_figures
from softmaxlab.papers.polarization.figures import (
    fig01,
    fig04,
    fig05,
    fig06,
    fig08,
    fig09,
    fig14,
    fig15,
    fig16,
    fig17,
    fig18,
    fig19,
    fig21,
)
from softmaxlab.papers.polarization.runs import read_runs
from softmaxlab.training import Classification, Induction, Run
from softmaxlab.training.presets import MAPS
from softmaxlab.training.table import frame, row

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
    assert list(sl.simulate(fig04.Fig04(runs=sinks))["map"]) == [*MAPS]
    result = sl.simulate(fig04.Fig04(runs=sinks, beyond=True))
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
    assert induction_figures.drawn(result).startswith("4 of the paper's 660 runs and 1 other, 3 with accuracy > 0.95;")
    picture = fig04.Fig04.draw(result)
    assert "red cross: none solved the task" in picture_text(picture)
    assert numbers_over_bars(picture) == ["0/1", "1", "2/3"]


def picture_text(picture):
    return picture._suptitle.get_text()


def numbers_over_bars(picture):
    return sorted(text.get_text() for text in picture.axes[0].texts)


def marks(picture):
    return [line.get_marker() for line in picture.axes[0].lines]


DIVERGED = {"status": "diverged", "induction_accuracy": NAN, "sink_score": NAN, "sink_score_pooled": NAN}


@pytest.mark.parametrize("score", ["per_position", "pooled"])
def test_a_head_without_a_score_is_not_called_no_sink(tmp_path, score):
    runs = table_of(tmp_path, [
        induction(1.0, [0.95, None], map="softpick", seed=0),  # as relu and softpick may end: no share
        induction(1.0, [0.95, 0.99], map="softpick", seed=1),
        induction(1.0, [None], map="relu"),
    ])  # fmt: skip
    result = sl.simulate(fig04.Fig04(runs=runs, score=score, beyond=True))
    maps = list(result["map"])
    some, none = (0, maps.index("softpick"), 1), (0, maps.index("relu"), 0)
    assert (result["passed"][some], result["scored"][some], result["share"][some]) == (2, 1, 1.0)
    assert (result["passed"][none], result["scored"][none]) == (1, 0)
    assert np.isnan(result["share"][none])
    assert sorted(result["score"]) == [0.95, 0.95, 0.99]
    picture = fig04.Fig04.draw(result)
    assert marks(picture).count("$?$") == 1
    assert "x" not in marks(picture)
    assert numbers_over_bars(picture) == ["0/1", "1/2"]
    assert "grey ?: solved, but without sink scores" in picture_text(picture)
    assert "2 of these without sink scores, left out" in picture_text(picture)


def test_runs_that_were_not_measured_are_left_out_and_counted(tmp_path):
    bare = Run(task=Induction(), heads=2, measure=())
    runs = table_of(tmp_path, [(bare, {"induction_accuracy": 1.0}), (bare.replace(seed=1), {"status": "diverged"})])
    assert "sink_score" not in pandas.read_csv(runs)
    sinks = sl.simulate(fig04.Fig04(runs=runs))
    assert (sinks["passed"].sum(), sinks["scored"].sum(), len(sinks["score"])) == (1, 0, 0)
    assert "1 with accuracy > 0.95, 1 of these without sink scores, left out" in induction_figures.drawn(sinks)
    assert sl.simulate(fig17.Fig17(runs=runs))["accuracy"][1, 0, 1] == 1.0


def test_a_measured_run_goes_before_an_unmeasured_one(tmp_path):
    one, cells = induction(1.0, [0.95, 0.99])
    other = one.replace(measure=())
    runs = table_of(tmp_path, [(one, cells), (other, {"induction_accuracy": 1.0})])
    result = sl.simulate(fig04.Fig04(runs=runs))
    assert (result["runs"].sum(), result["scored"].sum()) == (1, 1)


def test_diverged_runs_have_no_accuracy(tmp_path):
    runs = table_of(tmp_path, [
        induction(0.5, [0.1], seed=0),
        (Run(task=Induction(), heads=1, seed=1), DIVERGED),
        (Run(task=Induction(), heads=1, map="mlp"), DIVERGED),
    ])  # fmt: skip
    result = sl.simulate(fig17.Fig17(runs=runs, positions=("additive",), shifted=(True,)))
    assert result["accuracy"][0, 0, 0] == 0.5
    picture = fig17.Fig17.draw(result)
    assert marks(picture).count("x") == 1
    assert numbers_over_bars(picture) == ["0/1", "1/2"]
    assert "2 diverged, left out" in picture_text(picture)
    assert "red cross: all diverged" in picture_text(picture)


def test_all_runs_diverged(tmp_path):
    runs = table_of(tmp_path, [(Run(task=Induction(), heads=1), {"status": "diverged"})])
    assert "induction_accuracy" not in pandas.read_csv(runs)
    for figure in (fig04.Fig04, fig17.Fig17):
        result = sl.simulate(figure(runs=runs))
        assert result["runs"].sum() == 1
        figure.draw(result)


def test_only_the_papers_runs_are_counted_as_the_papers(tmp_path):
    runs = table_of(tmp_path, [
        induction(1.0, [0.1], seed=4, lr=1e-4),
        induction(1.0, [0.1], seed=5),
        induction(1.0, [0.1], lr=3e-3),
        induction(1.0, [0.1], seed=1, epochs=20),
        induction(1.0, [0.1], seed=2, epochs=5),
        induction(1.0, [0.1], map="relu"),
    ])  # fmt: skip
    for beyond, others in ((True, 5), (False, 4)):
        result = sl.simulate(fig04.Fig04(runs=runs, beyond=beyond))
        assert induction_figures.drawn(result).startswith(f"1 of the paper's 660 runs and {others} others, ")


@pytest.mark.parametrize("figure", [fig14.Fig14, fig15.Fig15, fig16.Fig16, fig17.Fig17])
def test_panels_of_positions_and_queries(sinks, figure):
    result = sl.simulate(figure(runs=sinks))
    assert list(result["panel"])[1] == "additive positions, t′ ≠ t"
    counted = result["runs"].sum(axis=(1, 2))
    assert counted.tolist() == ([0] * 6 if figure.model_fields["aux"].default == 0.0 else [0, 4, 0, 0, 0, 0])
    assert len(figure.draw(result).axes) == 6


def test_accuracies_are_of_all_runs(sinks):
    result = sl.simulate(fig17.Fig17(runs=sinks))
    assert result["accuracy"][1, 0, 1] == pytest.approx((1.0 + 0.96 + 0.5) / 3)


def flips(rates, vocab=41, **fields):
    return Run(task=Classification(vocab=vocab), **fields), {"flip_rate": json.dumps(rates), "accuracy": 1.0}


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
    title = picture_text(fig06.Fig06.draw(result))
    assert "3 of the paper's 495 runs; vocabulary 41, no runs at vocabulary 81, 161;" in title
    assert "NOTHING" not in title
    more = sl.simulate(fig21.Fig21(runs=runs))
    assert more["mean"][list(more["panel"]).index("H = 2, L = 2"), 0] == 0.3
    assert np.nansum(more["mean"]) == 0.3
    none = sl.simulate(fig19.Fig19(runs=runs))
    assert none["runs"].sum() == 0
    title = picture_text(fig19.Fig19.draw(none))
    assert "(NOTHING IS DRAWN: no run in the table is one of this figure; 0 of the paper's 660 runs" in title
    assert "no runs at vocabulary 81" in title


def test_flip_rates_of_runs_that_diverged_or_are_not_the_papers(tmp_path):
    one = {"layers": 1, "heads": 1}
    diverged = {"status": "diverged", "flip_rate": NAN}
    runs = table_of(tmp_path, [
        flips([[1.0]], **one), (Run(task=Classification(), seed=1, **one), diverged),
        (Run(task=Classification(), map="mlp", **one), diverged),
        (Run(task=Classification(), map="elu", measure=(), **one), {"accuracy": 1.0}),
        flips([[0.3]], seed=7, **one), flips([[0.2]], lr=0.5, **one), flips([[0.2]], vocab=61, **one),
    ])  # fmt: skip
    result = sl.simulate(fig06.Fig06(runs=runs))
    assert result["mean"][0, 0] == pytest.approx((1.0 + 0.3 + 0.2) / 3)
    assert "4 inputs in all" in picture_text(fig06.Fig06.draw(result))
    picture = fig06.Fig06.draw(result)
    assert numbers_over_bars(picture) == ["0/1", "0/1", "3/4"]
    assert (marks(picture).count("x"), marks(picture).count("$?$")) == (1, 1)
    told = "4 of the paper's 495 runs and 2 others, 2 diverged, left out, 1 without flip rates, left out"
    assert told in picture_text(picture)
    assert "red cross: all diverged" in picture_text(picture)
    wider = sl.simulate(fig18.Fig18(runs=runs, vocabs=(41, 61)))
    assert classification_figures.drawn(wider).startswith("4 of the paper's 660 runs and 3 others")


def test_runs_of_a_store_are_drawn_and_the_spec_knows_which(tmp_path):
    tiny = Run(task=Classification(train=64, evaluate=32), layers=1, heads=1, width=8, epochs=1)
    sl.simulate(tiny, store=tmp_path / "runs")
    one = fig06.Fig06(runs=str(tmp_path / "runs"))
    assert len(read_runs(str(tmp_path / "runs"), "classification")) == 1
    sl.simulate(tiny.replace(seed=1), store=tmp_path / "runs")
    two = fig06.Fig06(runs=str(tmp_path / "runs"))
    assert one.key != two.key
    assert sl.simulate(two).status.ok
    again, _ = sl.run("polarization/fig06", runs=str(tmp_path / "runs"))  # by name, from the preset
    assert again.spec == two
    with pytest.raises(SpecError, match="have changed since this spec was made"):
        sl.simulate(one)


def test_a_figure_says_if_its_runs_were_not_computed_alike(tmp_path, caplog):
    caplog.set_level(logging.INFO, "softmaxlab")
    tiny = Run(task=Classification(train=64, evaluate=32), layers=1, heads=1, width=8, epochs=1)
    for seed, kernels in enumerate(({"linear": "torch"}, {"linear": "torch"}, {"linear": "other"})):
        made = sl.simulate(tiny.replace(seed=seed))
        alike = dict(made.provenance) | {"kernels": kernels}
        sl.Store(tmp_path).put(dataclasses.replace(made, provenance=alike))
        sl.simulate(fig06.Fig06(runs=str(tmp_path)))
        said = "polarization/fig06: not all results were computed alike" in caplog.text
        assert said == (seed == 2)
    assert "(kernels: linear=other, linear=torch)" in caplog.text


def test_runs_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(SpecError, match="runs must be 'committed', a store's folder or a"):
        fig04.Fig04(runs=str(tmp_path / "nowhere"))
    pandas.DataFrame({"a": [1]}).to_csv(tmp_path / "other.csv")
    with pytest.raises(SpecError, match="holds no training runs"):
        fig04.Fig04(runs=str(tmp_path / "other.csv"))
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(SpecError, match=r"empty\.csv cannot be read as a table: No columns"):
        fig04.Fig04(runs=str(tmp_path / "empty.csv"))


def test_runs_of_the_other_task_are_refused(sinks):
    with pytest.raises(SpecError, match="holds no classification runs"):
        fig06.Fig06(runs=sinks)


@pytest.mark.parametrize("column", ["key", "status", "map", "lr", "stop", "positions", "gate", "task.aux"])
def test_a_column_that_is_missing_is_named(sinks, column):
    pandas.read_csv(sinks).drop(columns=column).to_csv(sinks, index=False)
    with pytest.raises(SpecError, match=rf"runs\.csv has no column '{column}'") as error:
        fig04.Fig04(runs=sinks)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("sink_score", "[[0.1, 0.2], [0.3", "JSON numbers"),
        ("sink_score", "[[0.1, 0.2]]", "JSON numbers"),
        ("sink_score", "0.5", "JSON numbers"),
        ("sink_score_pooled", '[["high", 1], [1, 1]]', "JSON numbers"),
        ("induction_accuracy", "high", "a number"),
        ("heads", "two", "a number"),
        ("lr", "", "a number"),
        ("task.shifted", "perhaps", "True or False"),
    ],
)
def test_a_cell_that_makes_no_sense_is_named(sinks, column, cell, expected):
    key = edit(sinks, column, cell)
    with pytest.raises(SpecError, match=rf"runs\.csv: {column} of run {key} must be {expected}") as error:
        fig04.Fig04(runs=sinks)
    assert "\n" not in str(error.value)


def edit(runs, column, cell):
    """Change one cell of the first run's row, and give the run's key."""
    table = pandas.read_csv(runs, dtype=str, keep_default_na=False)
    table.loc[0, column] = cell
    table.to_csv(runs, index=False)
    return table.loc[0, "key"]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("status", "diverged"),
        ("map", "linear"),
        ("induction_accuracy", "0.9"),
        ("accuracy", "0.9"),
        ("sink_score", "[[0.1, 0.1], [0.95, 0.51]]"),
        ("sink_score_pooled", "[[0.1, 0.1], [null, 0.5]]"),
        ("similarity", "[[[1, 0], [0, 1]], [[1, 0], [0, 1]]]"),
        ("previous_token", "[[1, 1], [0, 0]]"),
        ("flip_rate", "[[1, 1], [0, 0]]"),
    ],
)
def test_an_edited_cell_is_another_figure(sinks, column, cell):
    before = fig04.Fig04(runs=sinks)
    assert before.key == fig04.Fig04(runs=sinks).key
    edit(sinks, column, cell)
    assert fig04.Fig04(runs=sinks).key != before.key
    with pytest.raises(SpecError, match="have changed since"):
        sl.simulate(before)


def test_a_cell_that_is_not_read_changes_nothing(sinks):
    before = fig04.Fig04(runs=sinks).key
    edit(sinks, "sentence", "as told")
    assert fig04.Fig04(runs=sinks).key == before


def test_tables_and_results_are_read_no_more_than_needed(tmp_path, monkeypatch):
    tiny = Run(task=Classification(train=64, evaluate=32), layers=1, heads=1, width=8, epochs=1)
    sl.simulate(tiny, store=tmp_path / "runs")
    loaded, load = [], sl.Store.load
    monkeypatch.setattr(sl.Store, "load", lambda store, key: loaded.append(key) or load(store, key))
    spec = fig06.Fig06(runs=str(tmp_path / "runs"))
    assert loaded == [tiny.key]
    sl.simulate(spec)
    assert loaded == [tiny.key] * 2


def test_a_store_and_its_table_give_the_same_digest(tmp_path):
    tiny = Run(task=Classification(train=64, evaluate=32), layers=1, heads=1, width=8, epochs=1)
    specs, store = [tiny, tiny.replace(seed=1)], sl.Store(tmp_path / "runs")
    rows = [row(spec, spec.key, store, sl.simulate(spec, store=store)) for spec in specs]
    path = write_table(frame(rows), tmp_path / "table.csv")
    assert fig06.Fig06(runs=str(path)).digest == fig06.Fig06(runs=str(tmp_path / "runs")).digest


def test_the_drawn_induction_sequence_is_one():
    result = sl.simulate(fig08.Fig08(seed=3))
    tokens, first = result["tokens"], int(result["first"])
    assert tokens[0] == 0
    assert tokens[-2] == tokens[first] + 50  # the repeated token's own symbol
    assert tokens[-1] == tokens[first + 1]
    assert len(fig08.Fig08.draw(result).axes) == 1


def test_the_drawn_swap_flips_the_labels():
    result = sl.simulate(fig09.Fig09(epochs=2))
    before, after = result["prediction"]
    assert before[0] != before[1]
    assert after.tolist() == before[::-1].tolist()
    changed = result["tokens"][0] != result["tokens"][1]
    assert changed.sum(axis=1).tolist() == [1, 1]
    fig09.Fig09.draw(result)


def test_softmax_attention_of_cls_becomes_one_hot_and_sigmoid_attention_does_not():
    result = sl.simulate(fig05.Fig05(epochs=2))
    share = result["weights"] / result["weights"].sum(axis=-1, keepdims=True)
    softmax, sigmoid = share[:, -1].max(axis=-1)
    assert softmax.min() > 0.95
    assert sigmoid.max() < 0.3
    panels = fig05.Fig05.draw(result).axes
    top, rest = (text.get_text() for text in panels[0].texts)
    winner = result["tokens"][0][share[0, -1, 0].argmax()]
    assert top.startswith(f"token {winner}: ")
    assert rest.startswith("10 tokens: 0.0")
    heights = sorted(text.xy[1] for text in panels[1].texts)
    assert len(heights) > 2
    assert min(np.diff(heights)) >= fig05.APART * np.ptp(share[1]), "names would touch"


def test_a_map_without_weight_has_no_share_to_draw():
    weights = np.array([[1.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(fig05._shares(weights), [[0.25, 0.75], [NAN, NAN]])


def test_the_picture_of_a_run_counts_epochs_and_heads_as_its_arrays_do():
    tiny = Run(task=Classification(train=64, evaluate=32), heads=2, width=8, epochs=3, track=("heads",))
    picture = sl.plot(sl.simulate(tiny))
    loss, heads, track = picture.axes
    assert [tick for tick in loss.get_xticks() if 1 <= tick <= 3] == [1, 2, 3]
    assert [text.get_text() for text in heads.get_xticklabels()] == ["0.0", "0.1", "1.0", "1.1"]
    assert [line.get_label() for line in track.lines] == ["head 0", "head 1"]
    assert track.get_title() == "heads of layer 1 in training"


def test_token_names():
    assert fig01.token_names(np.array([0, 7, 50, 51, 100]), 51) == ["BOS", "7", "50", "1′", "50′"]
