"""Induction runs counted as the paper counts them (E.1): what the sink and accuracy figures and claims read.

A run counts if it solved the task, induction accuracy above ACCURATE. A head of the second layer is a sink if its score
is above SINK. A setting is a map and a number of heads; its runs differ in learning rate and seed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from softmaxlab.measure.sinks import SINK
from softmaxlab.papers.polarization.runs import chosen, where
from softmaxlab.training.presets import MAPS

if TYPE_CHECKING:
    import pandas

ACCURATE = 0.95
HEADS = (1, 2, 4, 8)
OF_PAPER = 15  # runs of a setting: 3 learning rates × 5 seeds
SETTING = ["map", "heads", "lr", "seed", "positions", "task.shifted", "task.aux"]
USUAL = {"layers": 2, "width": 128, "mlp": True, "layernorm": True, "gate": False, "batch": 256, "optimizer": "adamw",
         "weight_decay": 0.01, "task__vocab": 51, "task__tokens": 10, "task__train": 100_000}  # fmt: skip
Score = Literal["per_position", "pooled"]
COLUMN = {"per_position": "sink_score", "pooled": "sink_score_pooled"}


def usual_runs(table: "pandas.DataFrame") -> "pandas.DataFrame":
    """Runs with the paper's model and data, one for each setting: of several the longest."""
    usual = chosen(table, **USUAL)
    usual = usual.assign(full=usual["stop"].isna()).sort_values(["epochs", "full", "key"], ascending=False)
    return usual.drop_duplicates(SETTING).sort_values("key", ignore_index=True)


def map_order(table: "pandas.DataFrame") -> list[str]:
    """The paper's maps, then whatever else was run."""
    return [*MAPS, *sorted(set(table["map"]) - {*MAPS, "uniform"})]


@dataclass(frozen=True)
class Counted:
    """Of each setting [map, heads]: runs made, runs that count, mean share of sinks, mean accuracy; NaN if none."""

    runs: np.ndarray
    passed: np.ndarray
    share: np.ndarray
    accuracy: np.ndarray


def count(rows: "pandas.DataFrame", maps: list[str], score: Score) -> Counted:
    shape = len(maps), len(HEADS)
    found = Counted(np.zeros(shape, int), np.zeros(shape, int), np.full(shape, np.nan), np.full(shape, np.nan))
    for i, map in enumerate(maps):
        for j, heads in enumerate(HEADS):
            runs = chosen(rows, map=map, heads=heads)
            solved = where(runs, runs["induction_accuracy"] > ACCURATE)
            found.runs[i, j], found.passed[i, j] = len(runs), len(solved)
            if len(runs):
                found.accuracy[i, j] = runs["induction_accuracy"].mean()
            if len(solved):
                found.share[i, j] = np.mean([(scores[1] > SINK).mean() for scores in solved[COLUMN[score]]])
    return found


def scores_of(rows: "pandas.DataFrame", maps: list[str], score: Score) -> tuple[np.ndarray, np.ndarray]:
    """The second layer's scores of all heads of the runs that count, and the numbers of their maps."""
    solved = where(rows, (rows["induction_accuracy"] > ACCURATE) & rows["map"].isin(maps))
    scores = [each[1] for each in solved[COLUMN[score]]]
    owner = [np.full(len(each), maps.index(map)) for each, map in zip(scores, solved["map"])]
    return np.concatenate([*scores, np.empty(0)]), np.concatenate([*owner, np.empty(0, int)])
