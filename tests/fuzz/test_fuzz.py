"""A bounded run of the fuzzers; `python -m tests.fuzz` is the long one. The judges themselves are judged first."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import attempts, running
from tests.fuzz.__main__ import PROJECT
from tests.fuzz.attempts import KINDS, judged

NUMBER = {"cli": 20, "spec": 25, "store": 15, "checkpoint": 8, "url": 15}


@pytest.mark.parametrize("kind", NUMBER)
def test_no_attempt_finds_a_fault(kind, monkeypatch):
    faults = [running.attempt(kind, f"ci/{kind}/{i}") for i in range(NUMBER[kind])]
    assert [fault for fault in faults if fault] == []


def test_the_long_run_is_a_command():
    command = [sys.executable, "-m", "tests.fuzz", "--attempts", "3", "--kind", "url", "--jobs", "1"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 attempts (3 url): 0 tracebacks, 0 hangs over 60 s, ")


def test_an_attempt_is_the_same_again(tmp_path):
    first, second = (KINDS["spec"](random.Random("again"), tmp_path)[0] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("code", "err", "fault"),
    [
        (2, "error: lr must be positive\n", None),
        (2, "error: something is wrong\n", "names none of ['lr']"),
        (2, "error: lr\nerror: lr\n", "2 lines"),
        (1, "Traceback (most recent call last):\n", "a traceback"),
        (1, "error: unexpected KeyError: 'lr'; this is a defect\n", "unexpected"),
        (3, "", "exit code 3"),
    ],
)
def test_the_judge_of_commands(code, err, fault, tmp_path):
    found = judged(code, err, ["lr"], set(), tmp_path)
    assert (found is None) if fault is None else (fault in str(found))


def test_files_of_a_refused_command_are_seen(tmp_path):
    (tmp_path / "runs").mkdir()
    assert "wrote ['runs']" in str(judged(2, "error: lr\n", ["lr"], set(), tmp_path))
    assert judged(2, "error: lr\n", ["lr"], {tmp_path / "runs"}, tmp_path) is None


def test_a_fault_of_an_attempt_is_told(monkeypatch):
    def broken(draw: random.Random, folder: Path) -> attempts.Outcome:
        raise KeyError("gone")

    monkeypatch.setitem(attempts.KINDS, "spec", broken)
    kind, seed, fault = running.attempt("spec", "seed") or ("", "", "")
    assert (kind, seed) == ("traceback", "seed")
    assert "KeyError" in fault
