"""Runs as a table: one row each, every hyperparameter, how it ended, and every number that it gave.

Columns: key, kind, the spec's fields (nested ones with dots, `task.vocab`), status, sentence, seconds, then notes and
arrays of the result by name, but no note that is a dictionary, as certificates are. A name that is taken gets `notes.`
or `result.` in front. A small array is JSON text with six digits in one cell, NaN as null and ∞ as 1e999, which reads
as infinite; arrays over 4096 numbers are left out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core.result import Outcome, Result
from softmaxlab.core.spec import Record, Spec
from softmaxlab.core.store import Store
from softmaxlab.training.attempts import failure

if TYPE_CHECKING:
    import pandas

LARGEST = 4096  # numbers in a cell
DIGITS = 6
NOT_RUN = "not run"


def row(spec: Spec, key: str, store: Store, result: Result | None = None) -> dict[str, Any]:
    """The row of a run: its result (that of the store if not given), or why it failed, or that it was not run."""
    cells = {"key": key} | fields(spec)
    if result is None:
        result = store.get(spec)
    if result is not None:
        ended = (result.status.outcome, result.status.sentence, result.provenance["seconds"])
        notes = {name: note for name, note in result.notes.items() if not isinstance(note, Mapping)}
        values = _named("notes", notes, cells) | _named("result", result.arrays, cells)
    elif record := failure(store.root, key):
        ended, values = (Outcome.FAILED, record["reason"], None), {}
    else:
        ended, values = (NOT_RUN, "there is no result of it in the store", None), {}
    return cells | dict(zip(("status", "sentence", "seconds"), map(_cell, ended))) | values


def fields(spec: Spec) -> dict[str, Any]:
    """The cells of a spec's kind and fields."""
    return {"kind": spec.kind} | dict(_fields(spec))


def has_result(cells: Mapping[str, Any]) -> bool:
    """Whether a row is that of a result, good or bad."""
    return cells["seconds"] is not None


def frame(rows: Sequence[dict[str, Any]]) -> "pandas.DataFrame":
    """The table of some rows; columns in the order in which rows bring them."""
    import pandas

    return pandas.DataFrame(rows, columns=list(dict.fromkeys(name for row in rows for name in row)))


def _fields(record: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Field → cell; of a nested record its kind and its fields."""
    for name in type(record).model_fields:
        value = getattr(record, name)
        if isinstance(value, Record):
            yield f"{prefix}{name}.kind", value.kind
            yield from _fields(value, f"{prefix}{name}.")
        elif _fits(value):
            yield f"{prefix}{name}", _cell(value)


def _named(origin: str, values: Mapping[str, Any], taken: dict[str, Any]) -> dict[str, Any]:
    """Name → cell of notes or arrays."""
    reserved = {*taken, "status", "sentence", "seconds"}
    fitting = {name: _cell(value) for name, value in values.items() if _fits(value)}
    return {f"{origin}.{name}" if name in reserved else name: cell for name, cell in fitting.items()}


def _fits(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or value.size <= LARGEST


def _cell(value: Any) -> Any:
    """Numbers, words and None as they are; everything else as JSON text."""
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else _array_text(value)
    if isinstance(value, Outcome):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return json.dumps(value, default=lambda item: item.plain() if isinstance(item, Record) else str(item))


def _array_text(array: np.ndarray) -> str:
    if array.dtype.kind != "f":
        return json.dumps(array.tolist())
    rounded = [float(f"{number:.{DIGITS}g}") for number in array.ravel().tolist()]
    text = json.dumps(np.reshape(rounded, array.shape).tolist())
    return text.replace("NaN", "null").replace("Infinity", "1e999")
