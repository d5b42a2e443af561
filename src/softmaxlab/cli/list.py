"""softmaxlab list: what can be run, checked and named."""

from typing import Annotated, Any

import typer

from softmaxlab.cli.options import Json, Plugin, print_json
from softmaxlab.errors import unknown

EXAMPLES = (
    "Examples:  softmaxlab list  ·  softmaxlab list claims  ·  softmaxlab list sweeps"
    "  ·  softmaxlab list maps --plugin mymodule --json"
)


def command(
    what: Annotated[str, typer.Argument(help="figures, claims, maps or sweeps")] = "figures",
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """What can be run: figures with their cost, claims, attention maps with their facts, presets of sweeps."""
    listings = {"figures": _figures, "claims": _claims, "maps": _maps, "sweeps": _sweeps}
    if what not in listings:
        raise unknown("listing", what, listings)
    rows = listings[what]()
    print_json(rows) if json else _print_table(what, rows)


def _figures() -> list[dict[str, Any]]:
    from softmaxlab.papers.index import FIGURES

    return [
        {
            "id": f.id,
            "paper": f.source,
            "title": f.title.replace("$", ""),
            "cost": {name: f.cost[name] for name in f.presets},
        }
        for f in FIGURES.values()
    ]


def _claims() -> list[dict[str, Any]]:
    from softmaxlab.papers.index import CLAIMS

    return [{"id": c.id, "paper": c.source, "place": c.place, "statement": c.statement} for c in CLAIMS.values()]


def _maps() -> list[dict[str, Any]]:
    from softmaxlab.attention import MAPS, names
    from softmaxlab.attention.map import FACTS

    return [
        {"name": name} | {fact: getattr(MAPS[name], fact) for fact in FACTS} | {"learns": list(MAPS[name].parameters)}
        for name in names()
    ]


def _sweeps() -> list[dict[str, Any]]:
    from softmaxlab.training.presets import PRESETS, about, preset

    names = [(task, name) for task, presets in PRESETS.items() for name in presets]
    return [{"sweep": t, "preset": name, "runs": len(preset(t, name)), "about": about(t, name)} for t, name in names]


def _print_table(title: str, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), no_wrap=column in ("id", "name", "sweep", "preset"))
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    Console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "·"
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
