"""The training runs behind a figure: the tables that come with softmaxlab, or a sweep of one's own.

`runs` is "committed", or a store's folder, or a table (.csv) that `softmaxlab sweep` wrote. What a figure shows depends
on what it finds there, so the digest of the table is part of the figure's spec and of its content key.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from pydantic import model_validator

from softmaxlab.errors import SpecError
from softmaxlab.papers.figure import FigureSpec

if TYPE_CHECKING:
    import pandas

COMMITTED = "committed"
TABLES = Path(__file__).parent / "tables"
TaskName = Literal["induction", "classification"]
ENDED = ("done", "diverged")
OWN_POSITIONS = {"induction": "additive", "classification": "none"}
KINDS = {"induction": "training.Induction", "classification": "training.Classification"}


class FigureOfRuns(FigureSpec):
    """A figure drawn from whatever runs there are."""

    runs: str = COMMITTED
    task: TaskName
    digest: str = ""

    @model_validator(mode="before")
    @classmethod
    def _fill_digest(cls, fields: Any) -> Any:
        """Which runs there are now, unless the spec says which it was made for."""
        if not isinstance(fields, dict) or fields.get("digest"):
            return fields
        runs, task = (fields.get(name, cls.model_fields[name].default) for name in ("runs", "task"))
        if task not in get_args(TaskName) or not isinstance(runs, str):
            return fields  # refused by the fields themselves
        return fields | {"digest": digest(read_runs(runs, task))}

    def table(self) -> "pandas.DataFrame":
        """The runs, which must be those that the spec was made for."""
        found = read_runs(self.runs, self.task)
        if digest(found) != self.digest:
            raise SpecError(f"runs {self.runs!r} have changed since this spec was made: leave its digest out")
        return found


def read_runs(runs: str, task: TaskName) -> "pandas.DataFrame":
    """The runs of a task that ended, well or diverged, by key; cells that hold arrays are NumPy arrays."""
    import pandas

    path = Path(runs)
    if runs == COMMITTED:
        table = pandas.concat([pandas.read_csv(file) for file in sorted(TABLES.glob(f"{task}-*.csv"))])
    elif path.suffix == ".csv" and path.is_file():
        table = pandas.read_csv(path)
    elif path.is_dir():
        table = _of_store(path)
    else:
        raise SpecError(f"runs must be {COMMITTED!r}, a store's folder or a .csv table of a sweep, got {runs!r}")
    if "task.kind" not in table:
        raise SpecError(f"runs {runs!r} holds no training runs")
    table = where(table, (table["task.kind"] == KINDS[task]) & table["status"].isin(ENDED))
    table = table.drop_duplicates("key").sort_values("key", ignore_index=True)
    for name in ("sink_score", "sink_score_pooled", "similarity", "previous_token", "flip_rate"):
        if name in table:
            table[name] = [_array(cell) for cell in table[name]]
    table["positions"] = table["positions"].astype(object).fillna(OWN_POSITIONS[task])
    return table


def _array(cell: Any) -> np.ndarray | None:
    """What a cell holds; None if it is empty, as in a run that diverged."""
    return np.array(json.loads(cell), dtype=float) if isinstance(cell, str) else None


def _of_store(folder: Path) -> "pandas.DataFrame":
    """All training runs of a store, whatever else is in it."""
    from softmaxlab.core.store import Store
    from softmaxlab.training import Run
    from softmaxlab.training.table import frame, row

    store = Store(folder)
    return frame([row(r.spec, r.spec.key, store) for r in store if isinstance(r.spec, Run)])


def digest(table: "pandas.DataFrame") -> str:
    """Of the runs' keys: the same key means the same numbers."""
    return hashlib.sha256("".join(table["key"]).encode()).hexdigest()[:16]


def chosen(table: "pandas.DataFrame", **values: Any) -> "pandas.DataFrame":
    """The rows with these values; a dot in a column's name is written as two underscores."""
    for name, value in values.items():
        column = table[name.replace("__", ".")]
        table = where(table, np.isclose(column, value) if isinstance(value, float) else column == value)
    return table


def where(table: "pandas.DataFrame", mask: Any) -> "pandas.DataFrame":
    """The rows at which a mask is true."""
    return table.loc[mask]  # type: ignore[return-value]
