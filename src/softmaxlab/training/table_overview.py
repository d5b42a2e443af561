"""A table of runs as JSON values, and the columns of it that a reader wants first."""

import contextlib
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.training.table import NOT_RUN
from softmaxlab.training.table_file import WORDS

if TYPE_CHECKING:
    import pandas

OF_HEADS = ("sink_score", "flip_rate")  # what one sweeps for, an array in the table


def json_rows(runs: "pandas.DataFrame") -> list[dict[str, Any]]:
    """Return the rows as JSON values: arrays as lists, NaN and ∞ as null."""
    rows = runs.to_dict("records")
    return [{name: cell if name in WORDS else json_value(cell) for name, cell in row.items()} for row in rows]


def json_value(cell: Any) -> Any:
    """Return a cell as a JSON value; arrays are texts in the table, and JSON has no NaN and no ∞."""
    if isinstance(cell, list):
        return [json_value(item) for item in cell]
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    if isinstance(cell, str) and cell.startswith("["):
        with contextlib.suppress(ValueError):  # a word that only looks like a list
            return json_value(json.loads(cell))
    return cell


def overview(runs: "pandas.DataFrame") -> "pandas.DataFrame":
    """Return the runs that were tried: settings that differ, how they ended, numbers, and the largest of heads."""
    columns, tried = list(runs.columns), runs.loc[runs["status"] != NOT_RUN]
    end = columns.index("status")
    fields = [column for column in columns[2:end] if len(set(runs[column])) > 1]
    numbers = [column for column in columns[end + 2 :] if runs[column].dtype.kind in "if"]
    shown = tried[[*fields, "status", *numbers]].astype(object)
    for column in OF_HEADS:
        if column in columns:
            shown[f"largest {column}"] = [_largest(cell) for cell in tried[column]]
    return shown


def _largest(cell: Any) -> float:
    """Return the largest number of an array's text, NaN left out."""
    values = json_value(cell)
    numbers = np.array(values, dtype=float) if isinstance(values, list) else np.empty(0)
    return float(np.nanmax(numbers)) if np.isfinite(numbers).any() else math.nan
