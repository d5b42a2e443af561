"""The cells of a table of runs, checked: what a figure reads is there and as it should be, or an error says where.

Settings say which run a row is, and none may be missing. Results may be empty: a run that diverged has none, and one
with `measure=()` has no arrays; a column that no run fills may be absent. So may `precision`, which then is float32.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.errors import SpecError

if TYPE_CHECKING:
    import pandas

NUMBERS = ("heads", "layers", "width", "weight_decay", "lr", "batch", "epochs", "seed",
           "task.train", "task.vocab", "task.tokens")  # fmt: skip
NUMBERS_OF = {"induction": (*NUMBERS, "task.aux"), "classification": (*NUMBERS, "task.labels")}
SWITCHES = ("mlp", "layernorm", "gate")
SWITCHES_OF = {"induction": (*SWITCHES, "task.shifted"), "classification": SWITCHES}
WORDS = ("key", "status", "map", "optimizer")
CHOICES = ("positions", "stop")  # empty stands for None
PRECISION = "float32"  # of tables without the column, and of empty cells
MEASURES = ("accuracy", "induction_accuracy")
AXES = {
    "sink_score": ("layers", "heads"),
    "sink_score_pooled": ("layers", "heads"),
    "previous_token": ("layers", "heads"),
    "flip_rate": ("layers", "heads"),
    "similarity": ("layers", "heads", "heads"),
}


def columns(task: str) -> tuple[str, ...]:
    """All columns that figures and claims read."""
    return (*WORDS, *CHOICES, "precision", *NUMBERS_OF[task], *SWITCHES_OF[task], *MEASURES, *AXES)


def checked(table: "pandas.DataFrame", task: str, source: str) -> "pandas.DataFrame":
    """The columns that are read, of rows of one task: numbers, True and False, words, and arrays or None."""
    needed = [name for name in columns(task) if name not in (*MEASURES, *AXES, "precision")]
    if missing := [name for name in needed if name not in table]:
        raise SpecError(f"{source} has no column {missing[0]!r}, which every table of a sweep has")
    table = table.reindex(columns=list(columns(task))).astype(object)
    for name in WORDS:
        _refuse(table, name, table[name].isna(), source, "a word")
    for name in NUMBERS_OF[task]:
        table[name] = _numbers(table, name, source)
        _refuse(table, name, ~np.isfinite(table[name]), source, "a number")
    for name in SWITCHES_OF[task]:
        switch = [{"True": True, "False": False}.get(str(cell).capitalize()) for cell in table[name]]
        _refuse(table, name, [each is None for each in switch], source, "True or False")
        table[name] = np.array(switch, dtype=bool)
    for name in CHOICES:
        table[name] = table[name].where(table[name].notna(), None)
    table["precision"] = table["precision"].where(table["precision"].notna(), PRECISION)
    for name in MEASURES:
        table[name] = _numbers(table, name, source)
    for name in AXES:
        table[name] = _arrays(table, name, source)
    return table


def _refuse(table: "pandas.DataFrame", name: str, wrong: Any, source: str, expected: str) -> None:
    """Name the first row with a wrong cell."""
    if np.any(wrong):
        cells = table.iloc[int(np.argmax(wrong))]
        raise SpecError(f"{source}: {name} of run {cells['key']} must be {expected}, got {str(cells[name])[:60]!r}")


def _numbers(table: "pandas.DataFrame", name: str, source: str) -> np.ndarray:
    """Floats, NaN where a cell is empty."""
    import pandas

    numbers = np.asarray(pandas.to_numeric(table[name], errors="coerce"), dtype=float)
    _refuse(table, name, np.isnan(numbers) & table[name].notna(), source, "a number")
    return numbers


def _arrays(table: "pandas.DataFrame", name: str, source: str) -> "pandas.Series":
    """The arrays in cells, null as NaN; None where a cell is empty."""
    import pandas

    shapes = zip(*(table[axis].astype(int) for axis in AXES[name]))
    filled = table[name].notna()
    arrays = [_array(cell, shape) if full else None for cell, shape, full in zip(table[name], shapes, filled)]
    wrong = [full and array is None for full, array in zip(filled, arrays)]
    _refuse(table, name, wrong, source, f"JSON numbers [{', '.join(AXES[name])}]")
    return pandas.Series(arrays, index=table.index, dtype=object)


def _array(cell: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the array in a cell; None if it is not an array of this shape."""
    try:
        array = np.array(json.loads(str(cell)), dtype=float)
    except (ValueError, TypeError):
        return None
    return array if array.shape == shape else None
