"""The output of softmaxlab sweep: its table and how runs ended, its status, its plan for a cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from softmaxlab.cli.options import print_json

if TYPE_CHECKING:
    import pandas

    from softmaxlab.training.sweep import Sweep
    from softmaxlab.training.sweep_plan import SweepPlan

SHOWN_RUNS, SHOWN_REASONS = 40, 10


def print_sweep(name: str, work: "Sweep", files: list[Path], json: bool) -> None:
    """Write and print the table, and say how the runs ended."""
    from softmaxlab.core.provenance import differences, of_stored, sentence
    from softmaxlab.training.table_overview import json_rows

    work.write()
    runs, tally, out = work.table(), work.tally(), str(work.store.root)
    counts = {str(status): int(count) for status, count in runs["status"].value_counts().items()}
    different = differences(of_stored(work.store, runs["key"]))
    if json:
        about = {"sweep": name, "table": str(files[-1]), "data": out, "counts": counts}
        print_json(about | tally | {"computed_differently": different, "runs": json_rows(runs)})
        return
    _print_table(name, runs)
    _print_reasons(runs)
    ended = ", ".join(f"{count} {status}" for status, count in counts.items())
    now = "{there_already} there already, {made_now} made now, {failed_now} failed now".format(**tally)
    if different:
        typer.echo(f"note: {sentence(different)}")
    typer.echo(f"{name}: {ended} ({now})")
    typer.echo("".join(f"  table  {file}\n" for file in files) + f"  data   {out}")


def _print_table(name: str, runs: "pandas.DataFrame") -> None:
    """Print the first of the runs that were tried."""
    from rich.console import Console
    from rich.table import Table

    from softmaxlab.training.table_overview import overview

    tried = overview(runs)
    shown = Table(title=name, title_justify="left")
    for column in map(str, tried.columns):
        shown.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == "map")
    for run in tried.head(SHOWN_RUNS).itertuples(index=False, name=None):
        shown.add_row(*map(_cell, run))
    Console().print(shown)
    if len(tried) > SHOWN_RUNS:
        typer.echo(f"… and {len(tried) - SHOWN_RUNS} more in the table")


def _print_reasons(runs: "pandas.DataFrame") -> None:
    from softmaxlab.training.sweep import FINE

    bad = [run for run in runs.to_dict("records") if run["status"] not in FINE]
    for run in bad[:SHOWN_REASONS]:
        typer.echo(f"{run['status']} {run['key']}: {run['sentence']}")
    if len(bad) > SHOWN_REASONS:
        typer.echo(f"… and {len(bad) - SHOWN_REASONS} more, in the table")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "·" if value != value else f"{value:.4g}"
    return "·" if value is None else str(value)


def print_plan(plan: dict[str, Any], json: bool) -> None:
    """Print what a cluster would be given."""
    if json:
        print_json(plan)
        return
    typer.echo(plan["script"])
    most = f"at most {plan['core_hours']:g} core-hours"
    typer.echo(f"{plan['runs']} runs in {plan['elements']} elements: {most}; nothing was submitted")


def print_status(plan: "SweepPlan", out: str, table: str | None, json: bool) -> None:
    """Print which runs are in the store, in the table if there is one, and in the tables that come along."""
    from softmaxlab.core.store import Store
    from softmaxlab.papers.polarization.runs import TABLES
    from softmaxlab.training.status import in_store, status
    from softmaxlab.training.table_file import TableFile

    sources = {"store": in_store(Store(out))}
    if table is not None:
        sources["table"] = TableFile(table).ended()
    along = [TableFile(TABLES / f"{task}.csv").ended() for task in ("induction", "classification")]
    sources["come along"] = along[0] | along[1]
    document = {"sweep": plan.name} | status(plan.asked, sources, plan.draws_figure)
    places = {"store": out, "table": table, "come along": "tables of softmaxlab"}
    print_json(document) if json else _print_status(document, places)


def _print_status(document: dict[str, Any], places: dict[str, str | None]) -> None:
    from rich.console import Console
    from rich.table import Table

    if document["groups"]:
        shown = Table(title=document["sweep"], title_justify="left")
        names = list(document["groups"][0]["settings"])
        for column in (*names, "runs", "lacking", "core-hours"):
            shown.add_column(column)
        for group in document["groups"]:
            cells = ["·" if (value := group["settings"][name]) is None else str(value) for name in names]
            shown.add_row(*cells, str(group["runs"]), str(group["lacking"]), _hours(group["core_hours"]))
        Console().print(shown)
    for place, number in document["there"].items():
        which = "" if place == next(iter(document["there"])) else ", not counted above"
        typer.echo(f"  {number} in {places[place]}{which}")
    hours, rows = document["core_hours"], document["estimated_from_rows"]
    if not document["lacking"]:
        sentence = "nothing is lacking"
    elif hours is None:
        sentence = f"{document['lacking']} lacking, core-hours not known yet: there are no rows like them"
    else:
        sentence = f"{document['lacking']} lacking, about {_hours(hours)} core-hours"
        sentence += f", from the seconds of {rows} rows of like cost"
    typer.echo(f"{document['sweep']}: {document['runs']} runs, {sentence}")


def _hours(hours: float | None) -> str:
    return "?" if hours is None else f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}"
