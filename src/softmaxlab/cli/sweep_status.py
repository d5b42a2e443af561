"""softmaxlab sweep --status: what of a sweep is there, and what is still lacking."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from softmaxlab.cli.options import print_json

if TYPE_CHECKING:
    from softmaxlab.core.spec import Spec


def print_status(name: str, specs: Iterable["Spec"], out: str, table: str | None, serve: bool, json: bool) -> None:
    """Look into the store, the table if there is one, and the tables that come along."""
    from softmaxlab.core.store import Store
    from softmaxlab.papers.polarization.runs import TABLES
    from softmaxlab.training.status import in_store, status
    from softmaxlab.training.sweep import keyed
    from softmaxlab.training.table_file import TableFile

    sources = {"store": in_store(Store(out))}
    if table is not None:
        sources["table"] = TableFile(table).ended()
    along = [TableFile(TABLES / f"{task}.csv").ended() for task in ("induction", "classification")]
    sources["come along"] = along[0] | along[1]
    found = {"sweep": name} | status(keyed(specs), sources, serve)
    print_json(found) if json else _print(found, {"store": out, "table": table, "come along": "tables of softmaxlab"})


def _print(found: dict[str, Any], places: dict[str, str | None]) -> None:
    from rich.console import Console
    from rich.table import Table

    if found["groups"]:
        shown = Table(title=found["sweep"], title_justify="left")
        names = list(found["groups"][0]["settings"])
        for column in (*names, "runs", "lacking", "core-hours"):
            shown.add_column(column)
        for group in found["groups"]:
            cells = ["·" if (value := group["settings"][name]) is None else str(value) for name in names]
            shown.add_row(*cells, str(group["runs"]), str(group["lacking"]), _hours(group["core_hours"]))
        Console().print(shown)
    for place, number in found["there"].items():
        which = "" if place == next(iter(found["there"])) else ", not counted above"
        typer.echo(f"  {number} in {places[place]}{which}")
    hours, rows = found["core_hours"], found["estimated_from_rows"]
    if not found["lacking"]:
        told = "nothing is lacking"
    elif hours is None:
        told = f"{found['lacking']} lacking, core-hours not known yet: there are no rows like them"
    else:
        told = f"{found['lacking']} lacking, about {_hours(hours)} core-hours"
        told += f", from the seconds of {rows} rows of like cost"
    typer.echo(f"{found['sweep']}: {found['runs']} runs, {told}")


def _hours(hours: float | None) -> str:
    return "?" if hours is None else f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}"
