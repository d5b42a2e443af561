"""Tables as files: .csv, or .parquet with the extra `tables`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from softmaxlab.core.files import atomic
from softmaxlab.errors import SpecError

if TYPE_CHECKING:
    import pandas

FORMATS = ("csv", "parquet")


def write_table(table: "pandas.DataFrame", path: str | Path) -> Path:
    """Write a table as .csv, or as .parquet with the extra `tables`; all or nothing."""
    path = check_table(path)
    with atomic(path) as draft:
        if path.suffix == ".csv":
            table.to_csv(draft, index=False)
        else:
            _write_parquet(table, draft)
    return path


def check_table(path: str | Path) -> Path:
    """Refuse a table that could not be written, before the work of filling it."""
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise SpecError(f"a table is a .csv or .parquet file, got {str(path)!r}")
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
