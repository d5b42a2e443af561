"""softmaxlab list: what can be run, checked and named."""

from typing import Annotated, Any

import typer

from softmaxlab.cli.options import Json, Plugin, print_json
from softmaxlab.errors import unknown

EXAMPLES = (
    "Examples:  softmaxlab list  ·  softmaxlab list claims  ·  softmaxlab list sweeps --wide"
    "  ·  softmaxlab list maps --plugin mymodule --json"
)


WIDTH = 80  # columns of a terminal that a line fits into


def command(
    what: Annotated[str, typer.Argument(help="figures, claims, maps or sweeps")] = "figures",
    wide: Annotated[bool, typer.Option("--wide", help="Print every column and the whole text.")] = False,
    json: Json = False,
    plugin: Plugin = None,
) -> None:
    """List what can be run: figures with their cost, claims, attention maps with their facts, presets of sweeps."""
    listings = {"figures": _figures, "claims": _claims, "maps": _maps, "sweeps": _sweeps}
    if what not in listings:
        raise unknown("listing", what, listings)
    rows = listings[what]()
    if json:
        print_json(rows)
    else:
        _print_lines(rows if wide else [_short(row) for row in rows], None if wide else WIDTH)


def _figures() -> list[dict[str, Any]]:
    from softmaxlab.papers.facts import figure_facts

    return [
        {
            "id": f.id,
            "paper": f.source,
            "title": f.title.replace("$", ""),
            "cost": {name: f.cost[name] for name in f.presets},
        }
        for f in figure_facts().values()
    ]


def _claims() -> list[dict[str, Any]]:
    from softmaxlab.papers.facts import claim_facts

    claims = claim_facts().values()
    return [{"id": c.id, "paper": c.source, "place": c.place, "statement": c.statement} for c in claims]


def _maps() -> list[dict[str, Any]]:
    from softmaxlab.core import plugins
    from softmaxlab.papers.facts import map_facts

    rows = [{"name": m.name, **m.holds, "learns": list(m.parameters)} for m in map_facts().values()]
    if plugins.remembered():
        from softmaxlab.attention import MAPS, names

        for own in (MAPS[name] for name in names() if name not in map_facts()):
            rows.append({"name": own.name, **own.facts, "learns": list(own.parameters)})
    return rows


def _sweeps() -> list[dict[str, Any]]:
    from softmaxlab.training.presets import PRESETS, about, preset

    names = [(task, name) for task, presets in PRESETS.items() for name in presets]
    return [{"sweep": t, "preset": name, "runs": len(preset(t, name)), "about": about(t, name)} for t, name in names]


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """The columns that fit one line: not the paper, which the id names; of the costs the quick one."""
    short = {name: value for name, value in row.items() if name not in ("paper", "place", "cost")}
    return short | ({"quick": row["cost"]["quick"]} if "cost" in row else {})


def _print_lines(rows: list[dict[str, Any]], width: int | None) -> None:
    """Aligned columns; where `width` is given the longest column is cut so that a line fits it."""
    lines = [[name.replace("_", " ") for name in rows[0]], *([_cell(value) for value in row.values()] for row in rows)]
    sizes = [max(map(len, column)) for column in zip(*lines)]
    if width is not None:
        longest = sizes.index(max(sizes))
        sizes[longest] = min(sizes[longest], width - 2 * (len(sizes) - 1) - sum(sizes) + sizes[longest])
    for line in lines:
        typer.echo("  ".join(_cut(cell, size).ljust(size) for cell, size in zip(line, sizes)).rstrip())


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1].rstrip()}…"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "·"
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
