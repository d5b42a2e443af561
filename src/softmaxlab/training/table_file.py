"""A table of runs in a file that grows: a key stands once, rows that are there stay as they are.

Cells of a .csv file are kept as their text, so that merging changes none.
"""

import csv
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from softmaxlab.core.files import atomic
from softmaxlab.core.result import Outcome
from softmaxlab.core.spec import Record, Spec, from_plain
from softmaxlab.core.tables import check_table, neutral, write_table
from softmaxlab.errors import SpecError
from softmaxlab.training.table import frame, has_result

ENDED = (str(Outcome.DONE), str(Outcome.DIVERGED))
WORDS = ("key", "kind", "status", "sentence")  # columns that are text whatever it looks like
SHARE = 0.05  # of the time may go into writing while runs are made


class TableFile:
    """The rows of a file by key. `add` takes rows of finished runs, `write` puts them with whatever is there."""

    def __init__(self, path: str | Path):
        self.path = check_table(path)
        self._seen = _stamp(self.path)
        self.rows = read_rows(self.path)

    def ended(self) -> dict[str, dict[str, Any]]:
        """Key → cells of the runs that ended, as numbers and words."""
        return {key: typed(cells) for key, cells in self.rows.items() if cells.get("status") in ENDED}

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Rows of finished runs; one that ended already stays."""
        for cells in rows:
            if has_result(cells) and self.rows.get(cells["key"], {}).get("status") not in ENDED:
                self.rows[cells["key"]] = cells

    def write(self) -> None:
        if _stamp(self.path) != self._seen:  # someone else wrote: theirs is kept too
            ours, self.rows = self.rows, read_rows(self.path)
            self.rows |= {
                key: cells for key, cells in ours.items() if self.rows.get(key, {}).get("status") not in ENDED
            }
        if self.path.suffix == ".csv":
            _write_csv(self.rows.values(), self.path)
        else:
            write_table(frame(list(self.rows.values())), self.path)
        self._seen = _stamp(self.path)


class Throttle:
    """Says when to write again, so that writing takes no more than SHARE of the time."""

    def __init__(self):
        self._next = 0.0

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def wrote(self, seconds: float) -> None:
        self._next = time.monotonic() + seconds * (1 / SHARE - 1)


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Key → cells, of a key that stands twice the row that ended; nothing if there is no file."""
    if not path.exists():
        return {}
    rows: dict[str, dict[str, Any]] = {}
    for cells in _csv_rows(path) if path.suffix == ".csv" else _parquet_rows(path):
        if rows.get(cells["key"], {}).get("status") not in ENDED:
            rows[cells["key"]] = cells
    return rows


def typed(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a row of text as numbers, words, True, False and None."""
    return {name: cell if name in WORDS else _value(cell) for name, cell in cells.items()}


def spec_of(cells: Mapping[str, Any]) -> Spec:
    """The spec that a row describes, from typed cells; a field without a column has its default."""
    return from_plain({"kind": cells["kind"]} | _fields(Record.kinds[cells["kind"]], cells, ""))


def _fields(kind: type[Record], cells: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in kind.model_fields:
        if (own := cells.get(f"{prefix}{name}.kind")) is not None:
            fields[name] = {"kind": own} | _fields(Record.kinds[own], cells, f"{prefix}{name}.")
        elif (cell := cells.get(f"{prefix}{name}")) is not None:
            fields[name] = json.loads(cell) if isinstance(cell, str) and cell.startswith("[") else cell
    return fields


def _value(cell: Any) -> Any:
    if not isinstance(cell, str):
        return None if cell != cell else cell
    if cell in ("", "True", "False"):
        return {"True": True, "False": False}.get(cell)
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    csv.field_size_limit(2**31 - 1)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
    except (ValueError, csv.Error) as error:
        raise SpecError(f"{path} cannot be read as a table: {error}") from None
    if "key" not in (reader.fieldnames or ()) or "status" not in (reader.fieldnames or ()):
        raise SpecError(f"{path} is no table of a sweep: it has no columns 'key' and 'status'")
    if any(None in row or None in row.values() for row in rows):
        raise SpecError(f"{path} cannot be read as a table: a row has more or fewer cells than the first")
    return rows


def _parquet_rows(path: Path) -> list[dict[str, Any]]:
    import duckdb

    try:
        with duckdb.connect(config={"autoload_known_extensions": False}) as connection:
            rows = connection.read_parquet(str(path)).df().to_dict("records")
    except duckdb.Error as error:
        raise SpecError(f"{path} cannot be read as a table: {' '.join(str(error).split())}") from None
    if rows and not {"key", "status"} <= rows[0].keys():
        raise SpecError(f"{path} is no table of a sweep: it has no columns 'key' and 'status'")
    return [{str(name): _value(cell) for name, cell in row.items() if name not in WORDS}
            | {name: row.get(name) for name in WORDS} for row in rows]  # fmt: skip


def _write_csv(rows: Iterable[dict[str, Any]], path: Path) -> None:
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["key", "status"]
    with atomic(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_text(row.get(name)) for name in columns] for row in rows)


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(neutral(cell))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_mtime_ns, about.st_size
