"""A reproduction of a small catalogue in which a figure and a claim raise: the rest is done, and all of it is shown."""

import dataclasses
import json
from pathlib import Path

import pytest

from softmaxlab.core.pool import Died
from softmaxlab.errors import SoftmaxlabError, StoreError
from softmaxlab.papers import errata
from softmaxlab.papers.claim import Verdict
from softmaxlab.report import other_pages, pages, records, reproduce, tasks
from softmaxlab.report.figure_page import figure_page
from softmaxlab.report.index_page import index_page
from tests.report import catalogue
from tests.report.links import troubles


def made(folder: Path, **changes) -> reproduce.Reproduction:
    """A reproduction of the small catalogue, with others in place of its figures or claims."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduce, "FIGURES", changes.get("figures", catalogue.FIGURES))
        patch.setattr(reproduce, "CLAIMS", changes.get("claims", catalogue.CLAIMS))
        return reproduce.reproduce("quick", str(folder / "runs"), str(folder / "report"), 1, catalogue.PROBE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture(scope="module")
def done(folder):
    return made(folder)


def page(folder: Path, name: str) -> str:
    return (folder / "report" / name).read_text(encoding="utf-8")


def test_what_raises_is_recorded_and_the_rest_is_done(done, folder):
    assert not done.ok
    assert done.failures == ["attention/raising", "attention/unjudged"]
    assert done.counts() == "2 figures, 3 claims (1 holds, 1 fails as stated, 1 not judged; 2 as expected)"
    assert "ZeroDivisionError: the &lt;figure&gt; cannot be computed" in page(folder, "attention/raising.html")
    assert "ValueError: cannot be judged" in page(folder, "claims/attention/unjudged.html")
    index = page(folder, "index.html")
    assert "Not as promised" in index
    assert 'href="attention/line.html"' in index


def test_a_claim_that_fails_as_stated_is_shown_and_no_failure_of_ours(done, folder):
    assert "attention/fails" not in done.failures
    assert "fails as stated" in page(folder, "claims/attention/fails.html")
    assert "Not as promised" not in page(folder, "claims/attention/fails.html")


def test_the_page_of_a_figure_tells_all(done, folder):
    text = page(folder, "attention/line.html")
    for words in (
        'src="line.svg"', "We report", "What we see", "softmaxlab run attention/line --preset quick", "sl.run(&#34;",
        'href="line.nc" download', "A line of three points", "points = 3 (paper: 5)", "Zoom:",
    ):  # fmt: skip
        assert words in text, words
    assert (folder / "report/attention/line.nc").read_bytes()[1:4] == b"HDF"
    assert json.loads((folder / "report/attention/line.json").read_text())["status"] == "done: finished"


def test_texts_are_escaped(done, folder):
    for path in (folder / "report").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "<script>rises" not in text
        assert "<b>line</b>" not in text
        assert "<more>" not in text


def test_all_links_lead_somewhere_in_the_report(done, folder):
    assert troubles(folder / "report") == []


def test_a_link_that_leads_nowhere_or_out_is_noticed(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html"></a><img src="https://x.org/y.png" alt="y"><a href="#no"></a>')
    assert len(troubles(tmp_path)) == 3


def test_the_probe_that_cannot_be_made_says_why(done, folder):
    assert "the demo model is not installed" in page(folder, "probe/index.html")


def test_only_what_failed_is_tried_again(done, folder, monkeypatch):
    asked = []

    def died(work, jobs, finished, attempts):
        asked.extend(work)
        return {name: Died(attempts, "signal 9") for name in work}

    monkeypatch.setattr(reproduce, "run_all", died)
    again = made(folder)
    assert asked == ["probe", "figure attention/raising", "claim attention/unjudged"]
    assert again.drawn["attention/line"] == done.drawn["attention/line"]
    assert "process died" in again.drawn["attention/raising"].error


def test_other_code_computes_again(done, folder, monkeypatch):
    path = tasks.claim_record(catalogue.CLAIMS["attention/holds"], str(folder / "runs"))
    assert records.read(records.ClaimRecord, path) is not None
    monkeypatch.setattr(records, "code_digest", lambda: "other")
    assert records.read(records.ClaimRecord, path) is None
    path.write_text("{")
    assert records.read(records.ClaimRecord, path) is None


def test_a_verdict_that_is_not_the_stored_one_fails(done):
    wrong = {id: dataclasses.replace(c, expected=Verdict.CONDITION) for id, c in catalogue.CLAIMS.items()}
    assert "attention/holds" in dataclasses.replace(done, claims=wrong).failures


def test_a_probe_that_raises_is_a_failure_and_one_that_is_missing_is_not(done):
    assert "probe" not in done.failures
    broken = dataclasses.replace(done.probed, error="Traceback")
    assert "probe" in dataclasses.replace(done, probed=broken).failures


@pytest.mark.parametrize("report", ["file", "file/below"])
def test_a_file_in_the_place_of_the_report_is_refused_before_any_work(tmp_path, report):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="is a file, expected a folder"):
        reproduce.reproduce("quick", str(tmp_path / "runs"), str(tmp_path / report))
    with pytest.raises(StoreError, match="is a file, expected a folder"):
        reproduce.reproduce("quick", str(tmp_path / report), str(tmp_path / "report"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_claim_that_was_not_judged_is_a_kind_of_its_own(done, folder):
    index = page(folder, "index.html")
    assert 'data-show="fails" aria-pressed="false">fails as stated (1)' in index
    assert 'data-show="unjudged" aria-pressed="false">not judged (1)' in index
    assert index.count('<tr data-kind="unjudged">') == 1
    judged = dataclasses.replace(done, claims={"attention/holds": catalogue.CLAIMS["attention/holds"]})
    assert "not judged" not in index_page(judged, 0)


def test_the_errata_are_counted_and_an_installation_without_them_is_broken(done, monkeypatch, tmp_path):
    alone = dataclasses.replace(done, claims={})
    assert "no claim and no correction" in figure_page(alone, "attention/line", {}, {})
    assert '<b>3</b><span><a href="errata.html">' in index_page(done, 3)
    monkeypatch.setattr(errata, "PLACES", (tmp_path / "errata.md",))
    with pytest.raises(SoftmaxlabError, match="missing from this installation"):
        pages.write(done, tmp_path, tmp_path)


def test_benchmarks_are_shown_as_stored_or_said_to_be_missing(tmp_path):
    assert "Not measured on this machine" in other_pages.benchmarks_page(tmp_path)
    rows = [{"benchmark": "flow", "problem": "<p>", "ratio": 12.345}]
    (tmp_path / other_pages.BENCH).write_text(json.dumps(rows))
    shown = other_pages.benchmarks_page(tmp_path)
    assert 'data-sort="12.345">12.3<' in shown
    assert "&lt;p&gt;" in shown
    (tmp_path / other_pages.BENCH).write_text('[{"no": 1}]')
    assert "is not what" in other_pages.benchmarks_page(tmp_path)
