"""Specs that work, fail, die or starve on purpose. Each attempt leaves a mark, so that tests can count them."""

import os
import resource
import signal
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np

from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.core.spec import Spec

SPARE = 200 * 2**20  # bytes that a starving trial may still take


class Trial(Spec):
    """`marks` is the folder of the marks; a mark is `<number>-<process>-<its parent>-<tail>`."""

    marks: str
    number: int = 0
    does: Literal[
        "work", "raise", "diverge", "die", "die_once", "starve", "exit", "print", "preempt_once", "orphan"
    ] = "work"  # fmt: skip
    seconds: float = 0.0

    def _run(self, device: str) -> Result:
        first = not list(Path(self.marks).glob(f"{self.number}-*"))
        (Path(self.marks) / f"{self.number}-{os.getpid()}-{os.getppid()}-{uuid.uuid4().hex}").touch()
        status = Status()
        if self.does == "raise":
            raise RuntimeError("two\nlines")
        if self.does == "exit":
            raise SystemExit(3)
        if self.does == "die" or (self.does == "die_once" and first):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "starve":
            _starve()
        if self.does == "print":
            print("not a word to the supervisor", flush=True)
        if self.does == "preempt_once" and first:
            os.kill(os.getppid(), signal.SIGUSR2)  # as SLURM tells an array element that its time is up
            time.sleep(60.0)
        if self.does == "orphan":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60.0)
        if self.does == "diverge":
            status = Status(Outcome.DIVERGED, "it grew")
        time.sleep(self.seconds)
        return Result({"number": self.number, "half": self.number / 2}, {}, status, {"steps": 1})


def attempts(marks: str | Path) -> Counter:
    """Number → how often it was tried."""
    return Counter(int(mark.name.split("-")[0]) for mark in Path(marks).iterdir())


def workers(marks: str | Path) -> set[int]:
    """The processes that tried."""
    return {int(mark.name.split("-")[1]) for mark in Path(marks).iterdir()}


def parents(marks: str | Path) -> set[int]:
    """Their parents."""
    return {int(mark.name.split("-")[2]) for mark in Path(marks).iterdir()}


def _starve() -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE, limits[1]))
    try:
        np.ones(SPARE)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
