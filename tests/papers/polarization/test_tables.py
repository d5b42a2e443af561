"""The tables of runs that come with softmaxlab: every run once, and what they show."""

import json

import numpy as np
import pandas
import pytest

import softmaxlab as sl
from softmaxlab.measure.sinks import SINK
from softmaxlab.papers.polarization.runs import TABLES
from softmaxlab.training.presets import preset
from softmaxlab.training.table_file import TableFile, spec_of

SAME = 0.01  # another processor adds in another order, which ten epochs amplify
# how far sink scores may be from those of the full run: the second layer's, which all figures show, and the first's,
# which go on drifting at less than the rule's 0.02 in 400 steps
SETTLED_WITHIN = {0: 0.05, 1: 0.03}
SOLVED = 0.99


def table(name: str) -> pandas.DataFrame:
    return pandas.read_csv(TABLES / f"{name}.csv")


def of_preset(task: str, name: str) -> pandas.DataFrame:
    """The rows of a table that are runs of a preset."""
    runs = table(task)
    return runs[runs["key"].isin([spec.key for spec in preset(task, name)])]


def scores(cell: str) -> np.ndarray:
    return np.array(json.loads(cell), dtype=float)


@pytest.mark.parametrize("task", ["induction", "classification"])
def test_every_row_is_a_run_that_ended_and_stands_once(task):
    found = TableFile(TABLES / f"{task}.csv").ended()
    assert len(found) == len(table(task)) > 0
    assert all(spec_of(cells).key == key for key, cells in found.items())


def test_a_short_run_gives_the_same_numbers_again():
    """One row of a table, made again here: classification, vocabulary 41, one layer, one head, sigmoid, lr 1e-3."""
    (spec,) = (s for s in preset("classification", "quick") if s.map == "sigmoid")
    row = of_preset("classification", "figure6").set_index("key").loc[spec.key]
    again = sl.simulate(spec)
    assert again["sparsity"].item() == pytest.approx(scores(row["sparsity"]).item(), abs=SAME)
    assert again["flip_rate"].item() == pytest.approx(scores(row["flip_rate"]).item(), abs=SAME)


def test_a_settled_run_ends_where_the_full_one_does():
    """Every map of the paper with the default settings, run in full and with stop="settled"."""
    full = of_preset("induction", "full").set_index("map")
    settled = of_preset("induction", "figure4")
    usual = (settled["heads"] == 4) & (settled["lr"] == 1e-3) & (settled["seed"] == 0)
    settled = settled[usual].set_index("map")
    assert len(settled) == 11
    assert settled["stopped_at"].notna().sum() >= 2, "the rule must save something"
    for map in settled.index:
        off = np.abs(scores(full.loc[map, "sink_score"]) - scores(settled.loc[map, "sink_score"])).max(axis=1)
        assert off[0] <= SETTLED_WITHIN[0]
        assert off[1] <= SETTLED_WITHIN[1]


def test_the_plain_settings_solve_the_induction_task():
    accuracy = of_preset("induction", "full").set_index("map")["induction_accuracy"]
    for map in ("softmax", "sigmoid", "sigmoid_norm", "elu_elu_norm", "linear"):
        assert accuracy[map] >= SOLVED


def test_sink_heads_are_those_of_the_reference():
    """In kind, second layer: all heads of normalised positive maps, none of linear (the authors' code, single runs)."""
    cells = of_preset("induction", "full").set_index("map")["sink_score"]
    sinks = {map: (scores(cells[map])[1] > SINK).mean() for map in cells.index}
    for map in ("softmax", "sigmoid_norm", "elu_norm", "elu_elu_norm", "softmax1"):
        assert sinks[map] == 1.0
    assert sinks["linear"] == 0.0
    assert sinks["elu"] == 0.0


def test_flip_rates_are_those_of_the_reference():
    """Mean over seeds 0 to 4, vocabulary 41, lr 1e-3: one head of softmax flips, sigmoid does not."""
    runs = of_preset("classification", "figure6")
    runs = runs[(runs["task.vocab"] == 41) & (runs["lr"] == 1e-3)]
    rates = {map: [scores(cell).item() for cell in part["flip_rate"]] for map, part in runs.groupby("map")}
    assert len(rates["softmax"]) == len(rates["sigmoid"]) == 5
    assert np.mean(rates["softmax"]) >= 0.85
    assert np.mean(rates["sigmoid"]) <= 0.05
