"""Run every figure and claim, then write the report."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.store import Store
from softmaxlab.errors import unknown
from softmaxlab.papers.catalogue import CLAIMS, FIGURES
from softmaxlab.papers.claim import Check, Finding, check
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.style import save
from softmaxlab.report import pages

PRESETS = ("quick", "paper")


@dataclass(frozen=True)
class Reproduction:
    """All that was computed for one report."""

    preset: str
    figures: dict[str, Result]
    checks: list[Check]
    seconds: float
    index: Path

    @property
    def ok(self) -> bool:
        """Whether everything we promise came out: figures computed, verdicts as stored, controls told apart."""
        return all(r.status.ok for r in self.figures.values()) and all(c.ok for c in self.checks)

    def summary(self) -> str:
        return f"{self.counts()}; {self.seconds:.0f} s; report: {self.index}"

    def counts(self) -> str:
        """How many figures, and how many claims of each verdict."""
        verdicts = Counter(str(c.finding.verdict) for c in self.checks)
        told = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
        expected = sum(c.ok for c in self.checks)
        return f"{len(self.figures)} figures, {len(self.checks)} claims ({told}; {expected} as expected)"


def reproduce(preset: str, out: str, report: str, jobs: int | None = None) -> Reproduction:
    """Compute every figure at `preset` into the store `out`, check every claim, write `report`/index.html.

    The work is shared by `jobs` processes, as many as processors if not given.
    """
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    began = time.monotonic()
    store, folder = Store(out), Path(report)
    tasks = [partial(_compute, figure.preset(preset), out, folder / id) for id, figure in FIGURES.items()]
    tasks += [partial(_judge, id) for id in CLAIMS]
    done = _shared(tasks, jobs or os.cpu_count() or 1)
    figures = {id: store.load(figure.preset(preset).key) for id, figure in FIGURES.items()}
    checks = [Check(claim, *findings) for claim, findings in zip(CLAIMS.values(), done[len(FIGURES) :])]
    outcome = Reproduction(preset, figures, checks, time.monotonic() - began, folder / "index.html")
    pages.write(outcome, folder)
    return outcome


def _compute(spec: FigureSpec, out: str, path: Path) -> None:
    """A figure's result, into the store, and its picture."""
    save(spec.draw(simulate(spec, store=out)), path, "svg")


def _judge(id: str) -> tuple[Finding, Finding]:
    """A claim's findings on its subject and on its control."""
    done = check(CLAIMS[id])
    return done.finding, done.control


def _shared(tasks: Sequence[Callable[[], Any]], jobs: int) -> list[Any]:
    """The results of all tasks, in order, computed in processes of one thread each."""
    with Progress(len(tasks), "reproducing") as progress, _one_thread_each():
        # spawned, since a fork of a process with threads may hang
        pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=multiprocessing.get_context("spawn"))
        try:
            futures = [pool.submit(task) for task in tasks]
            for _ in as_completed(futures):
                progress.advance()
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started inside have numerical libraries of one thread, so that they do not disturb each other."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
