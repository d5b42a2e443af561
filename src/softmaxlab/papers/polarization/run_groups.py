"""The groups of runs that claims about training compare: from the committed tables, and never empty."""

from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.errors import SpecError
from softmaxlab.papers.polarization import sink_runs
from softmaxlab.papers.polarization.classification_figures import flip_runs
from softmaxlab.papers.polarization.runs import COMMITTED, TaskName, chosen, mean, read_runs, where

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame

NORMALISED = ("softmax", "sigmoid_norm", "elu_norm", "elu_elu_norm")
OTHERS = ("sigmoid", "elu", "elu_elu", "mlp", "mlp_norm", "linear", "linear_norm")
Change = dict[str, dict[Any, Any]]  # column → value → what is put in its place


def table(task: TaskName, change: Change) -> "Table":
    """The committed runs, with labels exchanged for a control."""
    runs = read_runs(COMMITTED, task)
    for column, new in change.items():
        runs[column] = [new.get(value, value) for value in runs[column]]
    return runs


def solved(change: Change) -> "Table":
    """Induction runs that count and have sink scores, with the share of sinks in their second layer."""
    runs = sink_runs.solved(sink_runs.usual_runs(table("induction", change)))
    return runs.assign(sinks=sink_runs.shares_of(runs)).dropna(subset=["sinks"])


def flips(change: Change, **values: Any) -> "Table":
    """Classification runs that have flip rates."""
    return chosen(flip_runs(table("classification", change)), **values).dropna(subset=["flips"])


def whole(runs: "Table", column: str) -> "Table":
    """Runs whose array in a column is there, without NaN."""
    return where(runs, [array is not None and not np.isnan(array).any() for array in runs[column]])


def some(claim: str, what: str, runs: "Table") -> "Table":
    """The runs, of which there must be some."""
    if not len(runs):
        raise SpecError(f"claim polarization/{claim} needs {what}, the tables have none")
    return runs


def both(one: Any, other: Any) -> dict[Any, Any]:
    return {one: other, other: one}


def means(runs: "Table", column: str, maps: tuple[str, ...]) -> dict[str, float]:
    """Map → mean, of the maps that have runs."""
    parts = {map: chosen(runs, map=map)[column] for map in maps}
    return {map: mean(part) for map, part in parts.items() if len(part)}


def of_maps(runs: "Table", maps: tuple[str, ...]) -> "Table":
    return where(runs, runs["map"].isin(maps))


def same_settings(claim: str, runs: "Table", **changed: Any) -> tuple["Table", "Table"]:
    """Runs with a change, and those without it that are otherwise alike, of the default settings."""
    usual = {"task__aux": 0.2, "task__shifted": True, "positions": "additive", "heads": 4, "lr": 1e-3}
    with_it, without = chosen(runs, **{**usual, **changed}), chosen(runs, **usual)
    pairs = set(zip(with_it["map"], with_it["seed"])) & set(zip(without["map"], without["seed"]))
    paired = [[pair in pairs for pair in zip(part["map"], part["seed"])] for part in (with_it, without)]
    what = ", ".join(f"{name.replace('__', '.')} = {value}" for name, value in changed.items())
    some(claim, f"pairs of solved runs with and without {what}", where(with_it, paired[0]))
    return where(with_it, paired[0]), where(without, paired[1])
