"""A probe on the terminal: a table by layer that fits 80 columns, shares, changes, and what to do about it."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from softmaxlab.probing.definitions import PAPER_EPS
from softmaxlab.report.probe_record import QUANTILES, Record, Subject, layers_table, short, summary

SHOWN = 5  # subjects that fit beside each other
Cell = Callable[[dict[str, Any]], str]


def show(record: Record, layers: tuple[int, ...] | None, files: Sequence[Path]) -> None:
    """Everything found, the three closing lines last."""
    first = record.subjects[0]
    _print_layers(first, record.eps, layers)
    typer.echo("\n".join(_shares(record)))
    if len(record.subjects) > 1:
        _print_subjects(record)
        _print_side_by_side(record, layers)
    for part, show_part in (("check", _check), ("mitigation", _mitigation), ("pruning", _pruning)):
        if part in record.parts:
            typer.echo("")
            show_part(record.parts)
    for note in record.notes:
        typer.echo(f"note: {note}")
    if files:
        names = ", ".join(file.name for file in files)
        typer.echo(f"\nwritten to {files[0].parent}: {names}")
    typer.echo("")
    if record.interrupted:
        typer.echo(f"Interrupted after {first.found.tokens} tokens: the numbers are of those.")
    typer.echo("\n".join(record.closing()))


def _print_layers(subject: Subject, eps: float, layers: tuple[int, ...] | None) -> None:
    found: Any = layers_table(subject.found, eps)
    columns: dict[str, Cell] = {
        "layer": lambda row: str(row["layer"]),
        "sink": lambda row: f"{row['sink']:.3f}",
        f">{eps:g}": lambda row: f"{row['above']}/{row['heads']}",
        f">{PAPER_EPS:g}": lambda row: f"{row['above_paper']}/{row['heads']}",
        "sparsity": lambda row: _number(row.get("sparsity"), ".3f"),
        "entropy": lambda row: _number(row["entropy"], ".2f"),
        "keys": lambda row: _number(row.get("effective_keys"), ".1f"),
        "total": lambda row: _number(row["total"], ".3f"),
        "value": lambda row: _number(row["sink_value"], ".2f"),
        "output": lambda row: _number(row["sink_output"], ".2f"),
        "max |h|": lambda row: _size(row["top"]),
    }
    if (found["total"] - 1).abs().max() < 1e-3:
        del columns["total"]
    if "sparsity" not in found:
        del columns["sparsity"], columns["keys"]
    table = _table(f"{short(subject.label)}: means over the heads of each layer")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in found.to_dict("records"):
        if layers is None or row["layer"] in layers:
            table.add_row(*(cell(row) for cell in columns.values()))
    Console().print(table)


def _shares(record: Record) -> list[str]:
    """How many heads are sinks, with ε and T, what uniform attention would give, and the distribution."""
    heads: Any = record.subjects[0].found.heads
    text = record.text
    count, T = len(heads), text["T"]
    counts = [(eps, int((heads["sink"] > eps).sum())) for eps in dict.fromkeys((record.eps, PAPER_EPS))]
    told = "; ".join(f"> {eps:g}: {n} of {count} ({n / count:.1%})" for eps, n in counts)
    kinds = {"causal": "H_T/T" if len(set(text["lengths"])) == 1 else "ΣH_T/ΣT", "both sides": "one over mean length"}
    uniform = ", ".join(f"{score:.4f} ({kinds[kind]})" for kind, score in text["uniform_sink"].items())
    first = "; the first query, trivially 1, counts" if "causal" in text["uniform_sink"] else ""
    quantiles = " · ".join(f"{heads['sink'].quantile(q):.3f}" for q in QUANTILES)
    marks = "/".join(f"{100 * q:g}" for q in QUANTILES)
    return [
        f"heads with sink score {told}; ε = {record.eps:g}, T = {T}",
        f"uniform attention would score {uniform}{first}",
        f"sink scores at {marks} %: {quantiles}",
        f"(sequence, layer, head) with α_0 > {record.eps:g}: {heads['sink_sequences'].mean():.1%} (Gu et al.)",
    ]


def _print_subjects(record: Record) -> None:
    """One row each, and what each change costs."""
    table = _table("side by side: means over all heads")
    table.add_column("", overflow="fold", max_width=24)
    for name in ("sink", f">{record.eps:g}", f">{PAPER_EPS:g}", "sparsity", "entropy", "total", "max |h|", "loss"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = [summary(subject, record.eps) for subject in record.subjects]
    for row in rows:
        shares = (f"{row['share_above_eps']:.0%}", f"{row['share_above_0.9']:.0%}")
        means = [_number(row.get(name), ".3f") for name in ("sparsity", "entropy", "total")]
        loss = _number(row["loss"] and row["loss"]["mean"], ".3f")
        table.add_row(short(row["subject"]), f"{row['sink']:.3f}", *shares, *means, _size(row["top"]), loss)
    Console().print(table)
    for subject, row in zip(record.subjects[1:], rows[1:]):
        said = row["loss_change"]["said"] if row["loss_change"] else "Δloss not known"
        typer.echo(f"{short(subject.label)}: {said}")


def _print_side_by_side(record: Record, layers: tuple[int, ...] | None) -> None:
    """The sink score of every subject by layer, as many as fit."""
    shown = record.subjects[:SHOWN]
    tables: list[Any] = [subject.found.heads for subject in shown]
    means = [table.groupby("layer")["sink"].mean().to_dict() for table in tables]
    table = _table("sink score by layer" + ("" if shown == record.subjects else f", first {len(shown)}"))
    table.add_column("layer", justify="right")
    for subject in shown:
        table.add_column(short(subject.label), justify="right", overflow="fold")
    for layer in sorted(set().union(*means)):
        if layers is None or layer in layers:
            table.add_row(str(layer), *(_number(mean.get(layer), ".3f") for mean in means))
    Console().print(table)


def _check(parts: dict[str, Any]) -> None:
    found = parts["check"]
    typer.echo(f"against eager attention on {found['tokens']} tokens, largest difference over heads / largest value:")
    for row in found["statistics"]:
        if row["ok"] is None and math.isnan(row["relative"]):
            typer.echo(f"  {row['statistic']:<20} eager attention does not show it")
        else:
            verdict = "counts, not judged" if row["ok"] is None else "" if row["ok"] else "TOO LARGE"
            typer.echo(f"  {row['statistic']:<20} {row['relative']:.1e}  {verdict}".rstrip())
    typer.echo(f"  {'agrees' if found['ok'] else 'DOES NOT AGREE'} within {found['allowed']:g}")


def _mitigation(parts: dict[str, Any]) -> None:
    found = parts["mitigation"]
    tokens = f" of {', '.join(map(repr, found['tokens']))}" if found["tokens"] else ""
    typer.echo(f"folding the sink away, {found['method']}{tokens}, against the model in float:")
    for row in found["rows"]:
        typer.echo(f"  {row['what']}: {row['said']}")
    if not math.isnan(found["gap_closed"]):
        typer.echo(f"  share of the int8 gap that is closed: {found['gap_closed']:.0%}")


def _pruning(parts: dict[str, Any]) -> None:
    alike = parts["similarity"]
    pairs = ", ".join(f"{p['layer']}.{p['head']}~{p['other']} {p['outputs']:.2f}" for p in alike["nearest"])
    means = ", ".join(f"{name} {mean:.3f}" for name, mean in alike["mean"].items())
    typer.echo(f"similarity (cosine) of heads of a layer: {means}; outputs most alike: {pairs}")
    typer.echo("heads removed one by one, the cheapest next (layer.head), the rest of the layer scaled up:")
    for row in parts["pruning"][1:]:
        name = f"{row['layer']}.{row['head']}"
        typer.echo(f"  {row['step']:>3}  {name:<6}  Δloss {row['delta']:+.4f} ± {row['delta_se']:.4f} nats per token")


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def _size(value: float) -> str:
    return _number(value, ",.4g" if value < 1e4 else ",.0f")


def _number(value: float | None, form: str) -> str:
    return "·" if value is None or math.isnan(value) else format(value, form)
