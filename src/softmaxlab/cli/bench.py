"""softmaxlab bench: the benchmarks' ratio table, from a clone of the repository."""

import contextlib
import importlib.util
import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import softmaxlab
from softmaxlab.cli.options import Json, print_json
from softmaxlab.core.documents import jsonable, parse_json, user_folder
from softmaxlab.core.user_code import naming_user_code, place_of_function
from softmaxlab.errors import SpecError, UserCodeError, unknown

EXAMPLES = "Examples:  softmaxlab bench  ·  softmaxlab bench polarization --json  ·  softmaxlab bench --folder mine"
FOLDER = Path(softmaxlab.__file__).parents[2] / "benchmarks"  # of a clone, beside src


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME ...]", help="Names of benchmarks; all if none is given.")
    ] = None,
    folder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Run the .py files of this folder instead.")
    ] = None,
    json: Json = False,
) -> None:
    """Run the benchmarks of the clone that softmaxlab comes from: ours against the plain way, and their ratio."""
    benchmarks = _benchmarks(FOLDER if folder is None else user_folder("--folder", folder), folder is None)
    for name in names or ():
        if name not in benchmarks:
            raise unknown("benchmark", name, benchmarks)
    tables = {}
    for name in names or benchmarks:
        if sys.stderr.isatty():
            typer.echo(f"running {benchmarks[name]}, about a minute …", err=True)
        tables[name] = _rows(name, benchmarks[name])
    if json:
        print_json([{"benchmark": name} | row for name, table in tables.items() for row in table])
        return
    for name, table in tables.items():
        _print_table(name, table)


def _benchmarks(folder: Path, is_ours: bool) -> dict[str, Path]:
    """Name → file. Ours are no part of the installed package; no other folder is looked into unless it is named."""
    try:
        files = {file.stem: file for file in sorted(folder.glob("*.py"))}
    except OSError as error:
        raise SpecError(f"--folder cannot be read: {error}") from None
    if not files and is_ours:
        raise SpecError(
            "the benchmarks come with a clone of the repository, and softmaxlab is not installed from one "
            "(pip install -e); or name a folder of your own with --folder"
        )
    if not files:
        raise SpecError(f"--folder must be a folder with .py files, got {str(folder)!r}")
    return files


def _rows(name: str, file: Path) -> list[dict[str, Any]]:
    """Return what the file's function rows() gives, checked."""
    spec = importlib.util.spec_from_file_location(f"benchmarks.{name}", file)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    with naming_user_code(file), contextlib.redirect_stdout(sys.stderr):
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        rows = module.rows() if hasattr(module, "rows") else None
    if not hasattr(module, "rows"):
        raise SpecError(f"{file} has no function rows(), which must give a list of dicts")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserCodeError(f"{place_of_function(module.rows)} must return a list of dicts, got {type(rows).__name__}")
    if len({tuple(row) for row in rows}) > 1:
        raise UserCodeError(f"{place_of_function(module.rows)} must return rows with the same names in all of them")
    try:
        parse_json(json_module.dumps(jsonable(rows)), "rows")
    except (TypeError, ValueError, RecursionError) as error:
        raise UserCodeError(f"{place_of_function(module.rows)} must return JSON values: {error}") from None
    return rows


def _print_table(title: str, rows: list[dict[str, Any]]) -> None:
    """Aligned columns at their full width: a ratio cut short would mislead."""
    typer.echo(title)
    columns = list(rows[0]) if rows else []
    lines = [[name.replace("_", " ") for name in columns], *([_cell(row[name]) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    words = [isinstance(rows[0][name], str) for name in columns]
    for line in lines:
        cells = (cell.ljust(w) if text else cell.rjust(w) for cell, w, text in zip(line, widths, words))
        typer.echo("  " + "  ".join(cells).rstrip())


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
