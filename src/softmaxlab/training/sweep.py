"""Many runs: those whose results the store does not hold are made, and all of them become one table."""

import time
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab.core.files import check_writable
from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Outcome
from softmaxlab.core.spec import Spec
from softmaxlab.core.store import Store
from softmaxlab.core.tables import write_table
from softmaxlab.errors import SpecError
from softmaxlab.training.attempts import FOLDER, record_failure
from softmaxlab.training.estimate import Seconds, cost_of, in_order
from softmaxlab.training.executors import Executor, executor_named
from softmaxlab.training.status import alike, by_likeness, in_store
from softmaxlab.training.table import NOT_RUN, frame, has_result, row
from softmaxlab.training.table_file import TableFile, Throttle, spec_of

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
    if message := work.warning():
        warnings.warn(message, stacklevel=2)
    return work.table()


class Sweep:
    """The runs asked for and what the store says of each; `make` has the missing ones made, and may be interrupted.

    A run is there too if `table` has it; with `serve`, also if a run that is alike (status.py) is in either. Its row
    is then that of the other run. `ranks` (key → number) say which runs are more useful: lower ones are made first.
    """

    def __init__(
        self,
        asked: list[tuple[str, Spec]],
        store: str | Path,
        limit: int | None = None,
        *,
        own: Path | None = None,
        table: Path | None = None,
        ranks: dict[str, int] | None = None,
        serve: bool = False,
    ):
        self.asked, self.store, self.own = asked, Store(store), own
        self.store.check_writable()
        for file in (own, table):
            if file is not None:
                check_writable(file, f"the table {file}", is_file=True)
        self.file = TableFile(table) if table is not None else None
        self.rows = known(asked, self.store)
        self.rows |= self._elsewhere(serve)
        self.wanted = in_order(missing(asked, self.rows, limit), ranks or {})
        self.before = sum(map(has_result, self.rows.values()))
        self.tried: set[str] = set()
        self._throttle = Throttle()

    def _elsewhere(self, serve: bool) -> Rows:
        """Rows of the table, or of runs that are alike, for what the store lacks."""
        ended = self.file.ended() if self.file else {}
        lacking = {key: spec for key, spec in self.asked if not has_result(self.rows[key])}
        rows = {key: ended[key] for key in lacking if key in ended}
        if serve and lacking:
            stored = in_store(self.store)
            likes, either = by_likeness(ended | stored), ended | stored
            for key, spec in lacking.items():
                if key not in rows and (other := likes.get(alike(spec))):
                    rows[key] = row(spec_of(stored[other]), other, self.store) if other in stored else either[other]
        return {key: cells for key, cells in rows.items() if has_result(cells)}

    def make(self, executor: Executor, device: str) -> None:
        """Have the wanted runs made; rows are up to date at any time, also if this is stopped."""
        if not self.wanted:
            return
        texts, root = {key: spec.json_text() for key, spec in self.wanted.items()}, str(self.store.root.resolve())
        costs = {key: cost_of(spec) for key, spec in self.wanted.items()}
        total = None if None in costs.values() else sum(cost or 0.0 for cost in costs.values())
        try:
            with Progress(len(texts), "runs", total, self._guess(executor)) as progress:

                def finished(key: str) -> None:
                    self._look_at(key)
                    self.tried.add(key)
                    failed = self.rows[key]["status"] != Outcome.DONE
                    progress.advance(failed=failed, cost=None if total is None else costs[key])
                    if self._throttle.due():
                        self.write()

                executor.run(texts, root, device, finished)
        finally:
            for key in self._without_result():
                self._look_at(key)
        self.tried.update(texts)
        for key in self._without_result():
            if self.rows[key]["status"] == NOT_RUN:
                record_failure(key, texts[key], root, "the executor ended without a result of it")
                self._look_at(key)

    def write(self) -> None:
        """Write the tables: `own` of all that were asked for, and into `table` the runs that ended."""
        began = time.monotonic()
        if self.own is not None:
            write_table(self.table(), self.own)
        if self.file is not None:
            self.file.add(self.rows.values())
            self.file.write()
        self._throttle.wrote(time.monotonic() - began)

    def _guess(self, executor: Executor) -> float | None:
        """Seconds of all wanted runs, from rows of runs like them; None if it is not known how many run at once."""
        at_once = getattr(executor, "at_once", None)
        if at_once is None:
            return None
        others = self.file.ended().values() if self.file else ()
        seconds, _ = Seconds.of([*self.rows.values(), *others]).total(self.wanted.values())
        return None if seconds is None else seconds / at_once()

    def _look_at(self, key: str) -> None:
        self.rows[key] = row(self.wanted[key], key, self.store)

    def _without_result(self) -> list[str]:
        return [key for key in self.wanted if not has_result(self.rows[key])]

    def table(self) -> "pandas.DataFrame":
        """All that were asked for, in that order."""
        return frame([self.rows[key] for key, _ in self.asked])

    def tally(self) -> dict[str, int]:
        """Count the results that were there already, those made now, and the runs that failed now."""
        made = len(self.wanted) - len(self._without_result())
        failed = sum(self.rows[key]["status"] == Outcome.FAILED for key in self.tried)
        return {"there_already": self.before, "made_now": made, "failed_now": failed}

    def warning(self) -> str:
        """Tell how many runs are not as they should be, and where it says why; empty if all are."""
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
    """The rows of the runs that the store has or has not."""
    return {key: row(spec, key, store) for key, spec in dict(asked).items()}


def missing(asked: list[tuple[str, Spec]], rows: Rows, limit: int | None = None) -> dict[str, Spec]:
    """The runs without a result, or the first so many of them."""
    if limit is not None and limit < 0:
        raise SpecError(f"limit must be at least 0, got {limit}")
    without = {key: spec for key, spec in asked if not has_result(rows[key])}
    return dict(list(without.items())[:limit])
