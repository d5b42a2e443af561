"""The numbers of runs that README gives are those that the function counts; the function counts a setting once."""

from pathlib import Path

import pandas
import pytest

from softmaxlab.papers.polarization import coverage as module
from softmaxlab.papers.polarization.coverage import coverage
from softmaxlab.papers.polarization.runs import TABLES

README = Path(__file__).parents[3] / "README.md"


@pytest.fixture(scope="module")
def committed():
    return coverage()


def test_the_figures_need_10725_runs(committed):
    assert committed.of_runs == {"induction": 7920, "classification": 2805}
    assert 0 < committed.panels <= committed.of_panels == 46


def test_readme_says_what_is_there(committed):
    text = " ".join(README.read_text(encoding="utf-8").split())
    made, of = sum(committed.runs.values()), sum(committed.of_runs.values())
    assert f"need {of:,} training runs; {made:,} of them come along" in text
    assert f"{committed.runs['induction']:,} of {committed.of_runs['induction']:,} induction" in text
    assert f"{committed.panels} of {committed.of_panels} panels" in text


def test_a_run_that_is_there_twice_counts_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_figures", lambda: [])
    table = pandas.read_csv(TABLES / "induction.csv", dtype=str)
    once = table[table["stop"].isna() & (table["map"] != "softmax1")].head(3)
    again = once.assign(key=once["key"] + "x", stop="settled")
    other = once.head(1).assign(key="other", seed="17")  # a seed that the paper does not have
    monkeypatch.setattr(module, "PRESETS", {"induction": ("figures14-17",)})
    pandas.concat([once, again, other]).to_csv(tmp_path / "induction.csv", index=False)
    assert coverage(str(tmp_path / "induction.csv")).runs == {"induction": 3}
