"""Many runs: those whose results the store does not hold are made, and all of them become one table."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab.core.progress import Progress
from softmaxlab.core.result import Outcome
from softmaxlab.core.spec import Spec
from softmaxlab.core.store import Store
from softmaxlab.errors import SpecError, StoreError
from softmaxlab.training.attempts import record_failure
from softmaxlab.training.executors import Executor, executor_named
from softmaxlab.training.table import NOT_RUN, frame, has_result, row

if TYPE_CHECKING:
    import pandas

Rows = dict[str, dict[str, Any]]  # key → cells


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
    """
    asked = keyed(specs)
    chosen = executor if not isinstance(executor, str) else executor_named(executor, jobs=jobs)
    if chosen is executor and jobs is not None:
        raise SpecError(f"jobs belongs to the executor when that is an object, got jobs={jobs!r}")
    root = _writable(store)
    rows = known(asked, root)
    wanted = missing(asked, rows, limit)
    if wanted:
        _make(wanted, chosen, root, device, rows)
    return frame([rows[key] for key, _ in asked])


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


def _make(wanted: dict[str, Spec], executor: Executor, store: Store, device: str, rows: Rows) -> None:
    """Have the runs made, and their rows brought up to date as they finish."""
    texts, root = {key: spec.json_text() for key, spec in wanted.items()}, str(store.root.resolve())
    with Progress(len(wanted), "runs") as progress:

        def finished(key: str) -> None:
            rows[key] = row(wanted[key], key, store)
            progress.advance(failed=rows[key]["status"] != Outcome.DONE)

        executor.run(texts, root, device, finished)
    for key, spec in wanted.items():
        if not has_result(rows[key]):
            rows[key] = row(spec, key, store)
        if rows[key]["status"] == NOT_RUN:
            record_failure(key, texts[key], root, "the executor ended without a result of it")
            rows[key] = row(spec, key, store)


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
