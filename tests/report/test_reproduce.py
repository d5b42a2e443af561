"""A reproduction of a small catalogue in which a figure and a claim raise: the rest is done, and all of it is shown."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from softmaxlab.core.progress import Progress
from softmaxlab.papers.claim import Verdict
from softmaxlab.report import kept, other_pages, reproduce, tasks
from softmaxlab.report.team import share
from tests.report import catalogue
from tests.report.links import troubles

PROJECT = Path(__file__).parents[2]


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
        'src="line.svg"', "We report", "What we see", "softmaxlab run attention/line --preset quick", "sl.run(&quot;",
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

    def note(work, jobs, progress):
        asked.extend(work)
        return {}

    monkeypatch.setattr(reproduce, "share", note)
    again = made(folder)
    assert asked == ["probe", "figure attention/raising", "claim attention/unjudged"]
    assert again.drawn["attention/line"] == done.drawn["attention/line"]
    assert "process died" in again.drawn["attention/raising"].error


def test_other_code_computes_again(done, folder, monkeypatch):
    path = tasks.claim_record(catalogue.CLAIMS["attention/holds"], str(folder / "runs"))
    assert kept.kept(kept.Judged, path) is not None
    monkeypatch.setattr(kept, "code_digest", lambda: "other")
    assert kept.kept(kept.Judged, path) is None
    path.write_text("{")
    assert kept.kept(kept.Judged, path) is None


def test_a_verdict_that_is_not_the_stored_one_fails(done):
    wrong = {id: dataclasses.replace(c, expected=Verdict.CONDITION) for id, c in catalogue.CLAIMS.items()}
    assert "attention/holds" in dataclasses.replace(done, claims=wrong).failures


def test_a_probe_that_raises_is_a_failure_and_one_that_is_missing_is_not(done):
    assert "probe" not in done.failures
    broken = dataclasses.replace(done.probed, error="Traceback")
    assert "probe" in dataclasses.replace(done, probed=broken).failures


def test_a_process_that_dies_costs_its_own_work_only():
    work = {"dies": catalogue.die, "lives": catalogue.seven}
    with Progress(2, "test") as progress:
        assert share(work, 1, progress) == {"lives": 7}
        assert (progress.done, progress.failed) == (2, 1)


def test_benchmarks_are_shown_as_stored_or_said_to_be_missing(tmp_path):
    assert "Not measured on this machine" in other_pages.benchmarks_body(tmp_path)
    rows = [{"benchmark": "flow", "problem": "<p>", "ratio": 12.345}]
    (tmp_path / other_pages.BENCH).write_text(json.dumps(rows))
    shown = other_pages.benchmarks_body(tmp_path)
    assert 'data-sort="12.345">12.3<' in shown
    assert "&lt;p&gt;" in shown
    (tmp_path / other_pages.BENCH).write_text('[{"no": 1}]')
    assert "is not what" in other_pages.benchmarks_body(tmp_path)


INTERRUPTED = """
from tests.report import catalogue
from softmaxlab.report import reproduce

if __name__ == "__main__":
    reproduce.FIGURES = {"attention/sleeping": catalogue.Sleeping}
    reproduce.CLAIMS = {}
    reproduce.reproduce("quick", "runs", "report", 1)
"""


@pytest.mark.slow
def test_ctrl_c_leaves_a_clean_state(tmp_path):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    running = subprocess.Popen([sys.executable, "interrupted.py"], stderr=subprocess.PIPE, text=True, env=environment)
    while not (tmp_path / "begun").exists():
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["begun", "interrupted.py"]
