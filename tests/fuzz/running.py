"""Batches of attempts, each in a process of the pool, with a limit on the time of every attempt."""

import contextlib
import os
import random
import shutil
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from softmaxlab.core.pool import run_all

SECONDS = 60  # that an attempt may take
BATCH = 50  # attempts that a process is given at once


@dataclass
class Tally:
    """How many attempts of each kind there were, and what was wrong."""

    attempts: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str, str]] = field(default_factory=list)  # kind of fault, attempt, fault

    def lines(self) -> list[str]:
        of = Counter(kind for kind, _, _ in self.faults)
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.attempts.items())
        return [
            f"{self.attempts.total()} attempts ({kinds}): {of['traceback']} tracebacks, {of['hang']} hangs over "
            f"{SECONDS} s, {of['files']} with partial files, {of['message']} messages without their field, "
            f"{of['other']} other faults"
        ] + [f"  {kind}: {attempt}\n    {fault}" for kind, attempt, fault in self.faults]


class Hang(BaseException):
    """An attempt takes too long."""


def fuzz(attempts: dict[str, int], seed: int, jobs: int) -> Tally:
    """So many attempts of each kind, by a seed; fewer if Ctrl-C ends them."""
    work = {
        f"{kind} {first}": partial(batch, kind, seed, first, min(BATCH, number - first))
        for kind, number in attempts.items()
        for first in range(0, number, BATCH)
    }
    tally = Tally()

    def add(name: str, outcome: object) -> None:
        kind, first = name.split()
        if isinstance(outcome, list):
            tally.attempts[kind] += min(BATCH, attempts[kind] - int(first))
            tally.faults += outcome
        else:
            tally.faults.append(("hang" if "time limit" in str(outcome) else "other", f"batch {name}", str(outcome)))

    with contextlib.suppress(KeyboardInterrupt):  # what was tried until then
        run_all(work, jobs, add, attempts=1, timeout=SECONDS * BATCH / 4)
    return tally


def batch(kind: str, seed: int, first: int, number: int) -> list[tuple[str, str, str]]:
    """The faults of attempts first, first + 1, … of a kind; each has its own generator, so it can be made again."""
    warnings.simplefilter("ignore")
    warm(kind)
    signal.signal(signal.SIGALRM, _hang)
    return [fault for i in range(first, first + number) if (fault := attempt(kind, f"{seed}/{kind}/{i}"))]


def warm(kind: str) -> None:
    """Import, build and compile what the first attempts would wait for: that is no part of their time."""
    from softmaxlab.papers.index import FIGURES
    from tests.fuzz import attempts

    if kind == "cli":
        list(FIGURES.values())
    if kind == "spec":
        attempts.warm_specs()
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Exception):
        attempts.KINDS[kind](random.Random("warm"), Path(folder))


def attempt(kind: str, seed: str) -> tuple[str, str, str] | None:
    """The fault of one attempt, if it has one."""
    from tests.fuzz.attempts import KINDS

    folder, home = Path(tempfile.mkdtemp(prefix="fuzz-")), os.getcwd()
    os.chdir(folder)
    signal.alarm(SECONDS)
    try:
        what, fault = KINDS[kind](random.Random(seed), folder)
        return (_kind_of(fault), f"{seed} {what}", fault) if fault else None
    except Hang:
        return "hang", seed, f"more than {SECONDS} s"
    except Exception:
        return "traceback", seed, traceback.format_exc()
    finally:
        signal.alarm(0)
        os.chdir(home)
        shutil.rmtree(folder, ignore_errors=True)


def _kind_of(fault: str) -> str:
    kinds = {"traceback": "traceback", "unexpected": "traceback", "names no": "message", "name the file": "message",
             "left behind": "files", "wrote": "files"}  # fmt: skip
    return next((kind for words, kind in kinds.items() if words in fault), "other")


def _hang(number: int, frame: object) -> None:
    raise Hang
