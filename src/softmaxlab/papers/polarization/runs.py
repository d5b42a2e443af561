"""The training runs behind a figure: the tables that come with softmaxlab, or a sweep of one's own.

`runs` is "committed", or a store's folder, or a table (.csv) that `softmaxlab sweep` wrote. What a figure shows depends
on what it finds there, so the digest of all cells it reads is part of the figure's spec and of its content key.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from softmaxlab.core.provenance import differences, of_stored, sentence
from softmaxlab.core.store import Store
from softmaxlab.errors import SpecError
from softmaxlab.papers.polarization.run_table_schema import checked
from softmaxlab.papers.table_figure import COMMITTED, TableFigure

if TYPE_CHECKING:
    import pandas

log = logging.getLogger(__name__)
TABLES = Path(__file__).parent / "data"
TaskName = Literal["induction", "classification"]
ENDED = ("done", "diverged")
OWN_POSITIONS = {"induction": "additive", "classification": "none"}
KINDS = {"induction": "training.Induction", "classification": "training.Classification"}


class FigureOfRuns(TableFigure):
    """A figure drawn from whatever runs there are."""

    task: TaskName

    @classmethod
    def digest_now(cls, fields: Mapping[str, Any]) -> str:
        runs, task = fields["runs"], fields["task"]
        if task not in get_args(TaskName) or not isinstance(runs, str):
            return ""  # refused by the fields themselves
        return digest(read_runs(runs, task))

    def table(self) -> "pandas.DataFrame":
        """Return the runs, which must be those that the spec was made for; say if they were not computed alike."""
        table = read_runs(self.runs, self.task)
        self.check_digest(digest(table))
        if Path(self.runs).is_dir() and (different := differences(of_stored(Store(self.runs), table["key"]))):
            log.info("%s: %s", self.id, sentence(different))
        return table


def read_runs(runs: str, task: TaskName) -> "pandas.DataFrame":
    """The runs of a task that ended, well or diverged, by key: what figures read of them, checked (cells.py)."""
    import pandas

    tables = [(source, table) for source, table in _tables(runs, task) if "task.kind" in table]
    if not tables:
        raise SpecError(f"runs {runs!r} holds no training runs")
    ours = [(source, where(table, table["task.kind"] == KINDS[task])) for source, table in tables]
    parts = [checked(table, task, source) for source, table in ours if len(table)]
    if not parts:
        raise SpecError(f"runs {runs!r} holds no {task} runs")
    table = pandas.concat(parts)
    table = where(table, table["status"].isin(ENDED)).drop_duplicates("key").sort_values("key", ignore_index=True)
    return table.assign(positions=[each or OWN_POSITIONS[task] for each in table["positions"]])


def _tables(runs: str, task: TaskName) -> list[tuple[str, "pandas.DataFrame"]]:
    """Each table, with the name to give it in an error."""
    path = Path(runs)
    if runs == COMMITTED:
        return [(file.name, _of_file(file)) for file in sorted(TABLES.glob(f"{task}.csv"))]
    if path.suffix == ".csv" and path.is_file():
        return [(runs, _of_file(path))]
    if path.is_dir():
        return [(runs, _of_store(path))]
    raise SpecError(f"runs must be {COMMITTED!r}, a store's folder or a .csv table of a sweep, got {runs!r}")


def _of_file(path: Path) -> "pandas.DataFrame":
    import pandas

    try:
        return pandas.read_csv(path)
    except ValueError as error:  # empty, cut off, or not text
        raise SpecError(f"{path} cannot be read as a table: {' '.join(str(error).split())}") from None


def _of_store(folder: Path) -> "pandas.DataFrame":
    """All training runs of a store, whatever else is in it."""
    from softmaxlab.training import Run
    from softmaxlab.training.table import frame, row

    store = Store(folder)
    return frame([row(r.spec, r.spec.key, store, r) for r in store if isinstance(r.spec, Run)])


def digest(table: "pandas.DataFrame") -> str:
    """The digest of every cell that is read: a table edited by hand keeps its runs' keys."""
    cells = {
        name: [cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in table[name].tolist()]
        for name in table
    }
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]


def chosen(table: "pandas.DataFrame", **values: Any) -> "pandas.DataFrame":
    """The rows with these values; a dot in a column's name is written as two underscores."""
    for name, value in values.items():
        column = table[name.replace("__", ".")]
        table = where(table, np.isclose(column, value) if isinstance(value, float) else column == value)
    return table


def where(table: "pandas.DataFrame", mask: Any) -> "pandas.DataFrame":
    """The rows at which a mask is true."""
    return table.loc[mask]  # type: ignore[return-value]


def unlike(table: "pandas.DataFrame", usual: dict[str, Any]) -> str:
    """Return which of a figure's settings no run of the table has: the reason why there may be nothing to draw."""
    missing = [(name, value) for name, value in usual.items() if not len(chosen(table, **{name: value}))]
    settings = ", ".join(f"{name.replace('__', '.')} = {value}" for name, value in missing)
    return f"none of the {len(table)} runs has {settings}" if missing else "no run in the table is one of this figure"


def mean(column: Any) -> float:
    """The mean of what is there, NaN left out; NaN of none."""
    return float(column.mean())
