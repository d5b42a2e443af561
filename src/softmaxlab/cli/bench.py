"""softmaxlab bench: the benchmarks' ratio table, from a clone of the repository."""

import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from softmaxlab.cli.options import Json, print_json
from softmaxlab.errors import SpecError, unknown

EXAMPLES = "Examples:  softmaxlab bench  ·  softmaxlab bench polarization --json"
FOLDER = "benchmarks"


def command(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME ...]", help="Benchmarks; all if none.")] = None,
    json: Json = False,
) -> None:
    """Run the benchmarks in ./benchmarks: ours against the plain way, and their ratio."""
    found = _benchmarks()
    for name in names or ():
        if name not in found:
            raise unknown("benchmark", name, found)
    tables = {}
    for name in names or found:
        if sys.stderr.isatty():
            typer.echo(f"running {found[name]}, about a minute …", err=True)
        tables[name] = _rows(name, found[name])
    if json:
        print_json([{"benchmark": name} | row for name, table in tables.items() for row in table])
        return
    for name, table in tables.items():
        _print_table(name, table)


def _benchmarks() -> dict[str, Path]:
    """Name → file. They are no part of the installed package, so they are looked for in a clone."""
    files = {file.stem: file for file in sorted(Path(FOLDER).glob("*.py"))}
    if not files:
        raise SpecError(f"no ./{FOLDER}/*.py here; the benchmarks come with a clone of the repository, run this in it")
    return files


def _rows(name: str, file: Path) -> list[dict[str, Any]]:
    """What the file's rows() gives."""
    spec = importlib.util.spec_from_file_location(f"{FOLDER}.{name}", file)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    if not hasattr(module, "rows"):
        raise SpecError(f"{file} has no function rows(), which must give a list of dicts")
    return module.rows()


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
