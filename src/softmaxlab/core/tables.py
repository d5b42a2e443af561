"""Tables as files: .csv, or .parquet with the extra `tables`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab.core.files import atomic
from softmaxlab.errors import SpecError

if TYPE_CHECKING:
    import pandas

FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that spreadsheets run
FORMATS = ("csv", "parquet")


def write_table(table: "pandas.DataFrame", path: str | Path) -> Path:
    """Write a table as .csv, or as .parquet with the extra `tables`; all or nothing."""
    path = check_table(path)
    with atomic(path) as draft:
        if path.suffix == ".csv":
            draft.write_text(csv_text(table), encoding="utf-8", newline="")
        else:
            _write_parquet(table, draft)
    return path


def csv_text(table: "pandas.DataFrame") -> str:
    """The table as CSV that a spreadsheet reads as data: no cell of text is a formula."""
    safe = table.copy()
    for name in safe.columns[[dtype.kind not in "biufcmM" for dtype in safe.dtypes]]:
        safe[name] = safe[name].map(neutral)
    safe = safe.rename(columns=neutral)
    text = safe.to_csv(index=False, lineterminator="\n")
    # before Python 3.13 a carriage return is quoted only if it is part of a line's end: bare, it would begin a row
    return safe.to_csv(index=False, lineterminator="\r\n") if "\r" in text else text


def neutral(cell: Any) -> Any:
    """A text that a spreadsheet would take for a formula, behind an apostrophe; numbers are left as they are."""
    if not isinstance(cell, str) or not cell.startswith(FORMULAS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def check_table(path: str | Path) -> Path:
    """Refuse a table that could not be written, before the work of filling it."""
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise SpecError(f"a table is a .csv or .parquet file, got {str(path)!r}")
    if path.is_dir():
        raise SpecError(f"a table is a file, {str(path)!r} is a folder")
    if path.suffix == ".parquet" and not _has_duckdb():
        raise SpecError("parquet needs the extra 'tables': pip install 'softmaxlab[tables]'")
    return path


def _has_duckdb() -> bool:
    import importlib.util

    return "duckdb" in sys.modules or importlib.util.find_spec("duckdb") is not None


def _write_parquet(table: "pandas.DataFrame", path: Path) -> None:
    import duckdb

    # nothing is to be fetched from the network
    with duckdb.connect(
        config={"autoload_known_extensions": False, "autoinstall_known_extensions": False}
    ) as connection:
        connection.register("runs", table)
        connection.sql("SELECT * FROM runs").write_parquet(str(path))
