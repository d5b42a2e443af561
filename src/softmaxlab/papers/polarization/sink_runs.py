"""Induction runs counted as the paper counts them (E.1): what the sink and accuracy figures and claims read.

A run counts if it solved the task, induction accuracy above ACCURATE. A head of the second layer is a sink if its score
is above SINK. A run with a head that has no score, because it attends nowhere (relu, softpick) or was not measured, has
no share of sinks. A setting is a map and a number of heads; its runs differ in lr and seed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from softmaxlab.measure.sinks import sink_share
from softmaxlab.papers.polarization.run_table_schema import PRECISION
from softmaxlab.papers.polarization.runs import chosen, mean, where
from softmaxlab.training.presets import MAPS, RATES, SEEDS

if TYPE_CHECKING:
    import pandas

ACCURATE = 0.95
HEADS = (1, 2, 4, 8)
OF_PAPER = len(RATES) * len(SEEDS)  # runs of a setting
EPOCHS = 10  # of the paper's runs
AUX = (0.2, 0.0)
SETTING = ["map", "heads", "lr", "seed", "positions", "task.shifted", "task.aux"]
USUAL = {"layers": 2, "width": 128, "mlp": True, "layernorm": True, "gate": False, "batch": 256, "optimizer": "adamw",
         "weight_decay": 0.01, "task__vocab": 51, "task__tokens": 10, "task__train": 100_000}  # fmt: skip
NORMALISED = ("softmax", "sigmoid_norm", "elu_norm", "elu_elu_norm")
OTHERS = ("sigmoid", "elu", "elu_elu", "mlp", "mlp_norm", "linear", "linear_norm")
Score = Literal["per_position", "pooled"]
COLUMN = {"per_position": "sink_score", "pooled": "sink_score_pooled"}


def of_usual_model(table: "pandas.DataFrame") -> "pandas.DataFrame":
    """All runs with the paper's model and data."""
    return chosen(table, **USUAL)


def usual_runs(table: "pandas.DataFrame") -> "pandas.DataFrame":
    """Return runs with the paper's model and data, one for each setting.

    Of several it is one in float32, of these the longest, measured if one is.
    """
    usual = of_usual_model(table)
    usual = usual.assign(full=usual["stop"].isna(), measured=usual["sink_score"].notna())
    usual = usual.assign(single=usual["precision"] == PRECISION)
    usual = usual.sort_values(["single", "epochs", "full", "measured", "key"], ascending=False)
    usual = usual.drop_duplicates(SETTING).sort_values("key", ignore_index=True)
    return usual.assign(paper=of_paper(usual) & usual["task.aux"].isin(AUX))


def of_paper(rows: "pandas.DataFrame") -> np.ndarray:
    """Whether a run is one of the paper's, by what all its sweeps have in common."""
    rate = np.isclose(rows["lr"].to_numpy()[:, None], RATES).any(axis=1)
    return rate & np.isin(rows["seed"], SEEDS) & np.isin(rows["epochs"], EPOCHS) & np.isin(rows["map"], MAPS)


def map_order(table: "pandas.DataFrame", beyond: bool = False) -> list[str]:
    """Return the paper's maps and, with `beyond`, whatever else was run."""
    return [*MAPS, *(sorted(set(table["map"]) - {*MAPS, "uniform"}) if beyond else ())]


@dataclass(frozen=True)
class Counted:
    """Counts for each setting [map, heads]: numbers of runs and, NaN if there are none, means of those behind them.

    runs ⊇ paper: that are the paper's; runs ⊇ ended: not diverged ⊇ accurate: with an accuracy ⊇ passed: that count
    ⊇ scored: whose heads of the second layer all have scores. `accuracy` is of the accurate, `share` of the scored, and
    `share_pooled` of those with pooled scores; `bfloat16` are the runs in that precision.
    """

    runs: np.ndarray
    paper: np.ndarray
    ended: np.ndarray
    accurate: np.ndarray
    passed: np.ndarray
    scored: np.ndarray
    share: np.ndarray
    share_pooled: np.ndarray
    accuracy: np.ndarray
    bfloat16: np.ndarray


def count(rows: "pandas.DataFrame", maps: list[str], score: Score) -> Counted:
    settings = [[_counts(chosen(rows, map=map, heads=heads), score) for heads in HEADS] for map in maps]
    return Counted(**{name: np.array([[each[name] for each in line] for line in settings]) for name in settings[0][0]})


def _counts(runs: "pandas.DataFrame", score: Score) -> dict[str, float]:
    """The numbers of one setting."""
    ended = where(runs, runs["status"] == "done")
    accuracy, passed = ended["induction_accuracy"].dropna(), solved(runs)
    shares = shares_of(passed, score).dropna()
    return {
        "runs": len(runs),
        "paper": int(np.count_nonzero(runs["paper"])),
        "ended": len(ended),
        "accurate": len(accuracy),
        "passed": len(passed),
        "scored": len(shares),
        "share": mean(shares),
        "share_pooled": mean(shares_of(passed, "pooled")),
        "bfloat16": int(np.count_nonzero(runs["precision"] == "bfloat16")),
        "accuracy": mean(accuracy),
    }


def solved(rows: "pandas.DataFrame") -> "pandas.DataFrame":
    """The runs that count."""
    return where(rows, (rows["status"] == "done") & (rows["induction_accuracy"] > ACCURATE))


def shares_of(rows: "pandas.DataFrame", score: Score = "per_position") -> "pandas.Series":
    """The share of sinks of each run among the heads of the second layer; NaN if one of them has no score."""
    import pandas

    shares = [np.nan if scores is None else sink_share(scores[1]) for scores in rows[COLUMN[score]]]
    return pandas.Series(shares, index=rows.index, dtype=float)


def scores_of(rows: "pandas.DataFrame", maps: list[str], score: Score) -> tuple[np.ndarray, np.ndarray]:
    """The second layer's scores of all heads of the runs that count, NaN left out, and the numbers of their maps."""
    measured = where(solved(rows), solved(rows)[COLUMN[score]].notna())
    measured = where(measured, measured["map"].isin(maps))
    scores = [each[1][~np.isnan(each[1])] for each in measured[COLUMN[score]]]
    owner = [np.full(len(each), maps.index(map)) for each, map in zip(scores, measured["map"])]
    return np.concatenate([*scores, np.empty(0)]), np.concatenate([*owner, np.empty(0, int)])
