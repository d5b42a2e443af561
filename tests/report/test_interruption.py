"""A reproduction that is interrupted or killed leaves no drafts and no processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from softmaxlab.core.files import DRAFT
from softmaxlab.report import reproduce
from tests.report import catalogue

PROJECT = Path(__file__).parents[2]
WAIT = 60  # seconds, of a busy machine


def test_drafts_of_killed_workers_are_removed_everywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "CLAIMS", catalogue.CLAIMS)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folders = reproduce._written(["attention/line"], str(tmp_path / "runs"), tmp_path / "report", catalogue.PROBE)
    names = {"runs", "report/attention", "runs/claims/attention", "runs/probe", "runs/probe/tiny"}
    assert {str(folder.relative_to(tmp_path)) for folder in folders} == names
    drafts = [folder / f"{DRAFT}{ended.pid}-x@{socket.gethostname()}" for folder in folders]
    for draft in drafts:
        draft.mkdir(parents=True)
    reproduce._shared({}, 1, folders)
    assert not any(draft.exists() for draft in drafts)


INTERRUPTED = """
from tests.report import catalogue
from softmaxlab.report import reproduce

if __name__ == "__main__":
    reproduce.FIGURES = {"attention/sleeping": catalogue.Sleeping}
    reproduce.CLAIMS = {}
    reproduce.reproduce("quick", "runs", "report", 1)
"""


def begun(folder: Path) -> tuple[subprocess.Popen, int]:
    """A reproduction in the midst of its only figure, and the process that computes it."""
    (folder / "interrupted.py").write_text(INTERRUPTED)
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    program = [sys.executable, "interrupted.py"]
    running = subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder)
    mark = folder / "begun"
    while not mark.exists() or not mark.read_text():
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.1)
    return running, int(mark.read_text())


@pytest.mark.slow
def test_ctrl_c_leaves_a_clean_state(tmp_path):
    running, _ = begun(tmp_path)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=WAIT)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["begun", "interrupted.py"]


@pytest.mark.slow
def test_workers_end_with_the_one_that_shares_the_work(tmp_path):
    running, worker = begun(tmp_path)
    running.terminate()
    try:
        running.communicate(timeout=WAIT)  # a worker that lives on holds its standard error open
    except subprocess.TimeoutExpired:
        os.kill(worker, signal.SIGKILL)
        raise
