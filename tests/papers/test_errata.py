"""The errata as data, and the links of claims and figures to them."""

import re
from pathlib import Path

import pytest

from softmaxlab.cli.check import command
from softmaxlab.papers.claim import OURS, Verdict
from softmaxlab.papers.errata import errata, errata_file
from softmaxlab.papers.index import CLAIMS, FIGURES

TESTS = Path(__file__).parents[1]


def test_every_point_is_read_with_its_place_grade_and_text():
    points = errata()
    assert len(points) == len(re.findall(r"^### ", errata_file().read_text(encoding="utf-8"), re.MULTILINE))
    for id, point in points.items():
        assert id == point.id
        assert point.place
        assert point.grade
        assert "Test" in point.text
    assert {id.split("/")[0] for id in points} == {"polarization", "specialization"}


def test_every_point_names_tests_that_exist():
    written = "\n".join(file.read_text() for file in TESTS.rglob("test_*errata*.py"))
    for point in errata().values():
        names = re.findall(r"`(test_\w+)`", point.text)
        assert names, point.id
        assert all(f"def {name}(" in written for name in names), point.id


@pytest.mark.parametrize("id", CLAIMS)
def test_links_of_a_claim_lead_somewhere_and_verdicts_against_a_paper_have_reasons(id):
    claim = CLAIMS[id]
    assert set(claim.erratum) <= errata().keys()
    assert set(claim.figures) <= FIGURES.keys()
    assert bool(claim.condition) == (claim.expected is Verdict.CONDITION and claim.source != OURS)
    against = claim.expected in (Verdict.CONDITION, Verdict.FAILS) and claim.source != OURS
    assert bool(claim.why) == against


def test_links_of_figures_lead_somewhere():
    named = {id for figure in FIGURES.values() for id in FIGURES[figure.id].errata}
    assert {"polarization/23", "polarization/24"} <= named <= errata().keys()


def test_check_prints_the_condition_the_reason_and_the_erratum(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    command(["polarization/thm3.2b-repulsion"])
    printed = " ".join(capsys.readouterr().out.split())
    claim = CLAIMS["polarization/thm3.2b-repulsion"]
    for name, text in (("condition", claim.condition), ("why", claim.why), ("erratum", "polarization/4, Theorem 3.2b")):
        assert f"{name} {text}" in re.sub(r"[│┃ ]+", " ", printed)
