"""Many runs: those whose results the store does not hold are made, and all of them become one table."""

import os
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Outcome
from softmaxlab.core.spec import Spec
from softmaxlab.core.store import Store
from softmaxlab.errors import SpecError, StoreError
from softmaxlab.training.attempts import FOLDER, record_failure
from softmaxlab.training.executors import Executor, executor_named
from softmaxlab.training.table import NOT_RUN, frame, has_result, row

if TYPE_CHECKING:
    import pandas

Rows = dict[str, dict[str, Any]]  # key → cells
FINE = (Outcome.DONE, NOT_RUN)


def sweep(
    specs: Iterable[Spec],
    executor: str | Executor = "local",
    jobs: int | None = None,
    store: str | Path = "runs",
    device: str = "cpu",
    *,
    limit: int | None = None,
) -> "pandas.DataFrame":
    """Make all runs that are not in the store, and return the table of all that were asked for, in that order.

    `executor` is "local", "ray", "slurm" or an object of `softmaxlab.training.executors`; `jobs` says how many runs at
    once. A run that fails is recorded and tried again by the next sweep. `limit` makes only so many of the missing.
    Warns if runs of the table failed or diverged.
    """
    asked = keyed(specs)
    chosen = executor if not isinstance(executor, str) else executor_named(executor, jobs=jobs)
    if chosen is executor and jobs is not None:
        raise SpecError(f"jobs belongs to the executor when that is an object, got jobs={jobs!r}")
    work = Sweep(asked, store, limit)
    work.make(chosen, device)
    if told := work.told_bad():
        warnings.warn(told, stacklevel=2)
    return work.table()


class Sweep:
    """The runs asked for and what the store says of each; `make` has the missing ones made, and may be interrupted."""

    def __init__(self, asked: list[tuple[str, Spec]], store: str | Path, limit: int | None = None):
        self.asked, self.store = asked, _writable(store)
        self.rows = known(asked, self.store)
        self.wanted = missing(asked, self.rows, limit)
        self.before = sum(map(has_result, self.rows.values()))
        self.tried: set[str] = set()

    def make(self, executor: Executor, device: str) -> None:
        """Have the wanted runs made; rows are up to date at any time, also if this is stopped."""
        if not self.wanted:
            return
        texts, root = {key: spec.json_text() for key, spec in self.wanted.items()}, str(self.store.root.resolve())
        try:
            with Progress(len(texts), "runs") as progress:

                def finished(key: str) -> None:
                    self._look_at(key)
                    self.tried.add(key)
                    progress.advance(failed=self.rows[key]["status"] != Outcome.DONE)

                executor.run(texts, root, device, finished)
        finally:
            for key in self._without_result():
                self._look_at(key)
        self.tried.update(texts)
        for key in self._without_result():
            if self.rows[key]["status"] == NOT_RUN:
                record_failure(key, texts[key], root, "the executor ended without a result of it")
                self._look_at(key)

    def _look_at(self, key: str) -> None:
        self.rows[key] = row(self.wanted[key], key, self.store)

    def _without_result(self) -> list[str]:
        return [key for key in self.wanted if not has_result(self.rows[key])]

    def table(self) -> "pandas.DataFrame":
        """All that were asked for, in that order."""
        return frame([self.rows[key] for key, _ in self.asked])

    def tally(self) -> dict[str, int]:
        """How many results were there already, were made now, and how many runs failed now."""
        made = len(self.wanted) - len(self._without_result())
        failed = sum(self.rows[key]["status"] == Outcome.FAILED for key in self.tried)
        return {"there_already": self.before, "made_now": made, "failed_now": failed}

    def told_bad(self) -> str:
        """How many runs are not as they should be, and where it says why; nothing if all are."""
        counts = Counter(cells["status"] for cells in self.rows.values())
        bad = ", ".join(f"{count} {status}" for status, count in counts.items() if status not in FINE)
        where = "the column 'sentence' says why"
        where += f", {self.store.root / FOLDER} has tracebacks" if counts[Outcome.FAILED] else ""
        return f"of {len(self.rows)} runs {bad}: {where}" if bad else ""


def keyed(specs: Iterable[Spec]) -> list[tuple[str, Spec]]:
    """The specs with their keys; anything else is refused."""
    asked = list(specs) if isinstance(specs, Iterable) and not isinstance(specs, Spec) else [None]
    for spec in asked:
        if not isinstance(spec, Spec):
            raise SpecError(f"a sweep takes a list of specs, got {type(specs if spec is None else spec).__name__}")
    return [(spec.key, spec) for spec in asked if spec is not None]


def known(asked: list[tuple[str, Spec]], store: Store) -> Rows:
    """What the store says of each."""
    return {key: row(spec, key, store) for key, spec in dict(asked).items()}


def missing(asked: list[tuple[str, Spec]], rows: Rows, limit: int | None = None) -> dict[str, Spec]:
    """The runs without a result, or the first so many of them."""
    if limit is not None and limit < 0:
        raise SpecError(f"limit must be at least 0, got {limit}")
    without = {key: spec for key, spec in asked if not has_result(rows[key])}
    return dict(list(without.items())[:limit])


def _writable(folder: str | Path) -> Store:
    """The store, refused now if nothing could be kept in it."""
    store = Store(folder)
    try:
        store.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the store {store.root}: {error}") from error
    if not os.access(store.root, os.W_OK | os.X_OK):
        raise StoreError(f"the store {store.root} cannot be written to")
    return store
