"""The process pool: what dies costs its own work only, what raises is raised, and nothing lives on."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from softmaxlab.core.pool import Died, TimedOut, run_all
from tests.core import pool_work

PROJECT = Path(__file__).parents[2]
LIMIT = 5.0  # seconds: a worker starts in a quarter of a second
GONE = 5.0  # seconds within which nothing of a killed program is left
WAIT = 60  # seconds, of a busy machine


def test_a_process_that_dies_costs_its_own_work_only():
    work = {"killed": pool_work.die, "first": pool_work.process, "left": pool_work.leave, "second": pool_work.process}
    outcomes = run_all(work, 1, attempts=2)
    assert set(outcomes) == set(work)
    assert outcomes["killed"] == Died(2, "signal 9 (out of memory?)")
    assert outcomes["left"] == Died(2, "exit code 9")
    assert outcomes["first"] != os.getpid() != outcomes["second"]


def test_one_process_does_piece_after_piece():
    outcomes = run_all({name: pool_work.process for name in "abc"}, 1)
    assert len(set(outcomes.values())) == 1


def test_what_died_is_tried_again_and_reported_once(tmp_path):
    ended = []
    work = {"dies": partial(pool_work.die_once, str(tmp_path / "mark")), "lives": pool_work.process}
    outcomes = run_all(work, 2, lambda name, outcome: ended.append((name, outcome)))
    assert sorted(ended) == sorted(outcomes.items())
    assert all(isinstance(process, int) for process in outcomes.values())


@pytest.mark.parametrize("threads", [1, 2])
def test_workers_have_the_threads_they_are_given(threads):
    assert run_all({"a": pool_work.threads}, 1, threads=threads) == {"a": str(threads)}


def test_what_work_raises_is_raised_with_its_traceback():
    with pytest.raises(ValueError, match="no such value") as raised:
        run_all({"raises": pool_work.refuse}, 1)
    assert "pool_work.py" in raised.value.__notes__[0]
    with pytest.raises(RuntimeError, match="3: of two arguments"):
        run_all({"raises": pool_work.refuse_oddly}, 1)


def test_an_error_ends_the_other_workers(tmp_path):
    mark = tmp_path / "begun"
    with pytest.raises(ValueError, match="no such value"):
        run_all({"sleeps": partial(pool_work.sleep, str(mark)), "raises": pool_work.refuse}, 2)
    assert not (mark.exists() and _alive(int(mark.read_text())))


def test_a_program_that_cannot_start_workers_says_how_they_ended(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    outcomes = run_all({name: pool_work.process for name in "abc"}, 2)
    assert set(outcomes.values()) == {Died(3, "exit code 1")}


def test_what_work_prints_is_not_in_the_output(capfd):
    assert run_all({"a": pool_work.speak}, 1) == {"a": 7}
    assert capfd.readouterr().out == ""


def test_work_beyond_its_time_limit_is_ended_with_what_it_started(tmp_path):
    mark = tmp_path / "mark"
    work = {"long": partial(pool_work.spawn_and_sleep, str(mark)), "short": pool_work.process}
    outcomes = run_all(work, 2, timeout=LIMIT)
    assert outcomes["long"] == TimedOut(LIMIT)
    assert isinstance(outcomes["short"], int)
    if mark.exists():  # else the machine was too busy to begin within the limit
        assert not any(map(_alive, map(int, mark.read_text().split())))


SHARING = """
import sys
from functools import partial
from softmaxlab.core.pool import run_all
from tests.core import pool_work

run_all({mark: partial(pool_work.spawn_and_sleep, mark) for mark in sys.argv[1:]}, 2)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_program(tmp_path, end):
    """The program has no `if __name__ == "__main__"`, which workers must not need."""
    (tmp_path / "sharing.py").write_text(SHARING)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT), *sys.path])}
    program = [sys.executable, "sharing.py", "one", "two"]
    with subprocess.Popen(program, cwd=tmp_path, env=environment, stderr=subprocess.PIPE) as running:
        marks = [tmp_path / "one", tmp_path / "two"]
        while not all(mark.exists() and mark.read_text() for mark in marks):
            assert running.poll() is None, running.communicate()[1]
            time.sleep(0.05)
        running.send_signal(end)
        running.communicate(timeout=WAIT)  # a worker that lives on holds its standard error open
    processes = [int(process) for mark in marks for process in mark.read_text().split()]
    deadline = time.monotonic() + GONE
    while any(map(_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_alive, processes))


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
