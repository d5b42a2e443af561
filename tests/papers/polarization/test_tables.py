"""The tables of runs that come with softmaxlab: made by the presets they are named after, and what they show."""

import json

import numpy as np
import pandas
import pytest

import softmaxlab as sl
from softmaxlab.papers.polarization.runs import TABLES
from softmaxlab.training.presets import preset

FILES = sorted(TABLES.glob("*.csv"))
SAME = 0.01  # another processor adds in another order, which ten epochs amplify


def table(name: str) -> pandas.DataFrame:
    return pandas.read_csv(TABLES / f"{name}.csv")


def scores(cell: str) -> np.ndarray:
    return np.array(json.loads(cell), dtype=float)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_row_is_a_run_of_its_preset(file):
    task, name = file.stem.split("-")
    runs = pandas.read_csv(file)
    assert set(runs["key"]) <= {spec.key for spec in preset(task, name)}
    assert runs["key"].is_unique
    assert set(runs["status"]) <= {"done", "diverged"}


def test_a_short_run_gives_the_same_numbers_again():
    """One row of a table, made again here: classification, vocabulary 41, one layer, one head, sigmoid, lr 1e-3."""
    (spec,) = (s for s in preset("classification", "quick") if s.map == "sigmoid")
    row = table("classification-figure6").set_index("key").loc[spec.key]
    again = sl.simulate(spec)
    assert again["sparsity"].item() == pytest.approx(scores(row["sparsity"]).item(), abs=SAME)
    assert again["flip_rate"].item() == pytest.approx(scores(row["flip_rate"]).item(), abs=SAME)
