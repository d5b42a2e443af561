"""What a quick figure shows is what it shows at the paper preset, in numbers that are stored (paper_level.py)."""

import json

import pytest

from softmaxlab.errors import SpecError
from softmaxlab.papers import paper_level
from softmaxlab.papers.index import FIGURES
from softmaxlab.papers.paper_level import compare, disagreements, is_compared

FEW_SECONDS = 4.0  # of the processor, in which the quick preset is computed anew here
COMPARED = [id for id in FIGURES if is_compared(FIGURES[id])]
CHEAP = "polarization/confound"


@pytest.mark.parametrize("id", COMPARED)
def test_stored_numbers_of_quick_and_paper_agree(id):
    figure = FIGURES[id]
    stored = paper_level.read(figure)
    assert set(stored) == {"quick", "paper"}, f"run softmaxlab check --figures --refined --write {id}"
    assert stored["paper"].numbers
    assert not disagreements(stored["quick"].numbers, stored["paper"].numbers, figure.quick_within)


@pytest.mark.parametrize("id", COMPARED)
def test_a_quick_figure_that_takes_few_seconds_shows_the_stored_numbers(id):
    stored = paper_level.read(FIGURES[id])
    if "quick" in stored and stored["quick"].seconds > FEW_SECONDS:
        pytest.skip("takes longer: softmaxlab check --figures")
    assert not compare(FIGURES[id]).problems


def test_numbers_that_differ_are_named():
    paper = {"weight": 0.9, "winner": 0.0}
    assert disagreements({"weight": 0.91, "winner": 0.0}, paper, {"weight": 0.02}) == []
    assert len(disagreements({"weight": 0.93, "winner": 0.0}, paper, {"weight": 0.02})) == 1
    assert "winner: 1 at quick, 0 at paper" in disagreements({"weight": 0.9, "winner": 1.0}, paper, {})[0]
    assert len(disagreements({"weight": float("nan")}, paper, {"weight": 0.02})) == 2
    with pytest.raises(SpecError, match="quick_within names 'wait'"):
        disagreements(paper, paper, {"wait": 0.1})


def test_a_wrong_or_stale_paper_level_is_a_problem(tmp_path, monkeypatch):
    figure = FIGURES[CHEAP]
    text = json.loads(paper_level.path_of(figure).read_text(encoding="utf-8"))
    monkeypatch.setattr(paper_level, "path_of", lambda figure: tmp_path / "stored.json")
    assert compare(figure).problems == ["no numbers of the paper preset are stored, or they are stale"]
    name = next(iter(text["presets"]["paper"]["numbers"]))
    text["presets"]["paper"]["numbers"][name] += 1.0
    (tmp_path / "stored.json").write_text(json.dumps(text), encoding="utf-8")
    assert [problem.partition(":")[0] for problem in compare(figure).problems] == [name]
    text["presets"]["paper"]["digest"] = "0" * 16
    (tmp_path / "stored.json").write_text(json.dumps(text), encoding="utf-8")
    assert "stale" in compare(figure).problems[0]
