"""Print a probe on the terminal: a table by layer in 80 columns, shares, changes, and what to do about it."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from softmaxlab.probing.next_token_loss import plus_minus
from softmaxlab.probing.report import ProbeReport, short_label
from softmaxlab.probing.summary import layers_table, sink_counts, sink_thresholds

SHOWN = 5  # subjects that fit beside each other
WIDEST = 160  # characters
ALIKE = 5  # pairs of heads shown as the most alike
RULES = {
    "none": "the rest left as it is",
    "count": "the rest of the layer scaled up",
    "total": "the rest of the layer scaled up by total weight",
}
Cell = Callable[[dict[str, Any]], str]


def print_probe(report: ProbeReport, layers: tuple[int, ...] | None, files: Sequence[Path]) -> None:
    """Print everything that was measured, the recommendations last."""
    first = report.subjects[0]
    _print_layers(report, layers)
    typer.echo("\n".join(_shares(report)))
    if first.loss is not None:
        typer.echo(str(first.loss))
    if len(report.subjects) > 1:
        _print_subjects(report)
        _print_side_by_side(report, layers)
    for part, show_part in (("check", _check), ("mitigation", _mitigation), ("pruning", _pruning)):
        if part in report.parts:
            typer.echo("")
            show_part(report)
    if "logits" in report.parts:
        logits = report.parts["logits"]
        apart = f"{logits['relative']:.1e} apart, {logits['allowed']:g} allowed"
        typer.echo(f"outputs of the first batch with and without measuring: {apart}")
    for note in report.notes:
        typer.echo(f"note: {note}")
    if files:
        names = ", ".join(file.name for file in files)
        typer.echo(f"\nwritten to {files[0].parent}: {names}")
    typer.echo("")
    if report.interrupted:
        typer.echo(
            f"Interrupted after {first.tables.tokens} tokens: the numbers are of those, and later steps were left out."
        )
    sentences = report.recommendations()
    typer.echo("\n".join(sentences))
    if "dormant_removed" in report.parts:
        removed = report.parts["dormant_removed"]
        typer.echo(f"Removing all {len(removed['heads'])} dormant heads: {removed['said']}.")
    if any("…" in sentence for sentence in sentences):
        typer.echo("… the whole list: column dormant of heads.csv (--out FOLDER), or --json.")


def _print_layers(report: ProbeReport, layers: tuple[int, ...] | None) -> None:
    """Print the means of each layer; names too long for 80 columns go over two lines."""
    means: Any = layers_table(report.subjects[0].tables, report.eps)
    columns: dict[str, Cell] = {
        "layer": lambda row: str(row["layer"]),
        "sink": lambda row: f"{row['sink']:.3f}",
        **{name: _count(name) for name in sink_thresholds(report.eps)},
        "sparsity": lambda row: _number(row.get("sparsity"), ".3f"),
        "entropy": lambda row: _number(row["entropy"], ".2f"),
        "effective_keys": lambda row: _number(row.get("effective_keys"), ".1f"),
        "total": lambda row: _number(row["total"], ".3f"),
        "sink_value": lambda row: _number(row["sink_value"], ".2f"),
        "sink_output": lambda row: _number(row["sink_output"], ".2f"),
        "top": lambda row: _size(row["top"]),
    }
    if (means["total"] - 1).abs().max() < 1e-3:
        del columns["total"]
    if "sparsity" not in means:
        del columns["sparsity"], columns["effective_keys"]
    table = _table(f"heads of {report.about}: means over the heads of each layer")
    for name in columns:
        table.add_column(_header(name), justify="right", no_wrap=True)
    for row in means.to_dict("records"):
        if layers is None or row["layer"] in layers:
            table.add_row(*(cell(row) for cell in columns.values()))
    _print(table)


def _header(name: str) -> str:
    """A name over two lines, the second one as low as those of short names."""
    return name.replace("_", "_\n").replace(">", "\n>") if set("_>") & set(name) else f"\n{name}"


def _count(name: str) -> Cell:
    return lambda row: f"{row[name]}/{row['heads']}"


def _shares(report: ProbeReport) -> list[str]:
    """How many heads are sinks, with ε and T, what uniform attention would give, and the distribution."""
    first, text = report.summaries()[0], report.text
    heads = first["heads"]
    counts = sink_counts(report.subjects[0].tables, report.eps)
    shares = "; ".join(f"> {bound:g}: {count} of {heads} ({count / heads:.1%})" for bound, count in counts.items())
    kinds = {"causal": "H_T/T" if len(set(text["lengths"])) == 1 else "ΣH_T/ΣT", "both sides": "one over mean length"}
    uniform = ", ".join(f"{score:.4f} ({kinds[kind]})" for kind, score in text["uniform_sink"].items())
    trivial = "; the first query, trivially 1, counts" if "causal" in text["uniform_sink"] else ""
    quantiles = " · ".join(f"{value:.3f}" for value in first["sink_quantiles"].values())
    marks = "/".join(f"{100 * float(q):g}" for q in first["sink_quantiles"])
    return [
        f"heads with sink score {shares}; ε = {report.eps:g}, T = {text['T']}",
        f"uniform attention would score {uniform}{trivial}",
        f"sink scores at {marks} %: {quantiles}",
        f"(sequence, layer, head) with α_0 > {report.eps:g}: {first['sink_sequences']:.1%} (Gu et al.)",
    ]


def _print_subjects(report: ProbeReport) -> None:
    """Print one row per subject, and what each change costs."""
    table = _table("side by side: means over all heads; Δloss ± standard error in nats per token")
    table.add_column("\nsubject", overflow="fold", max_width=24)
    at_eps = next(iter(sink_thresholds(report.eps)))
    for name in ("sink", at_eps, "sparsity", "total", "loss", "Δloss"):
        table.add_column(_header(name), justify="right", no_wrap=True)
    rows = report.summaries()
    for row in rows:
        loss, change = row["loss"], row["loss_change"]
        cost = f"{change['mean']:+.3f}{plus_minus(change['se'], 3)}" if change else ""
        cells = (f"{row['sink']:.3f}", f"{row['share_above_eps']:.0%}", _number(row.get("sparsity"), ".3f"))
        losses = (_number(loss and loss["mean"], ".3f"), cost)
        table.add_row(short_label(row["subject"]), *cells, _total(row["total"]), *losses)
    _print(table)
    for subject, row in zip(report.subjects[1:], rows[1:]):
        cost = row["loss_change"]["said"] if row["loss_change"] else "Δloss not known"
        typer.echo(f"{short_label(subject.label)}: {cost}")
    if report.text.get("calibration"):
        typer.echo(f"fitted on {report.text['calibration']}")


def _print_side_by_side(report: ProbeReport, layers: tuple[int, ...] | None) -> None:
    """Print the sink score of every subject by layer, if they fit."""
    if len(report.subjects) > SHOWN:
        typer.echo("sink scores by layer of all these: layers in --json, or the page of --out FOLDER")
        return
    tables: list[Any] = [layers_table(subject.tables, report.eps) for subject in report.subjects]
    means = [dict(zip(table["layer"], table["sink"])) for table in tables]
    table = _table("sink by layer")
    table.add_column("layer", justify="right")
    for subject in report.subjects:
        table.add_column(short_label(subject.label), justify="right", overflow="fold")
    for layer in sorted(set().union(*means)):
        if layers is None or layer in layers:
            table.add_row(str(layer), *(_number(mean.get(layer), ".3f") for mean in means))
    _print(table)


def _check(report: ProbeReport) -> None:
    check = report.parts["check"]
    typer.echo(f"against eager attention on {check['tokens']} tokens, largest difference over heads / largest value:")
    for row in check["statistics"]:
        name = row["statistic"] if row["attention"] == "self" else f"{row['attention']} {row['statistic']}"
        if row["ok"] is None and math.isnan(row["relative"]):
            typer.echo(f"  {name:<24} eager attention does not show it")
        else:
            verdict = "counts, not judged" if row["ok"] is None else "" if row["ok"] else "TOO LARGE"
            typer.echo(f"  {name:<24} {row['relative']:.1e}  {verdict}".rstrip())
    typer.echo(f"  {'agrees' if check['ok'] else 'DOES NOT AGREE'} within {check['allowed']:g}")


def _mitigation(report: ProbeReport) -> None:
    part = report.parts["mitigation"]
    tokens = f" of {', '.join(map(repr, part['tokens']))}" if part["tokens"] else ""
    typer.echo(f"folding the sink away, {part['method']}{tokens}, against the model in float:")
    for row in part["rows"]:
        typer.echo(f"  {row['what']}: {row['said']}")
    if part["nothing"]:
        typer.echo(f"  {part['nothing']}")
    if not math.isnan(part["gap_closed"]):
        typer.echo(f"  share of the int8 gap that is closed: {part['gap_closed']:.0%}")
    typer.echo(f"  {part['who']}")
    typer.echo(f"  fitted on {report.text['calibration']}")


def _pruning(report: ProbeReport) -> None:
    alike = report.parts["similarity"]
    nearest = sorted(alike["pairs"], key=lambda pair: -pair["outputs"])[:ALIKE]
    pairs = ", ".join(f"{p['layer']}.{p['head']}~{p['other']} {p['outputs']:.2f}" for p in nearest)
    means = ", ".join(f"{name} {mean:.3f}" for name, mean in alike["mean"].items())
    typer.echo(f"similarity (cosine) of heads of a layer: {means}; outputs most alike: {pairs}")
    typer.echo(f"heads removed one by one, the cheapest next (layer.head), {RULES[report.settings['rule']]}:")
    for row in report.parts["pruning"][1:]:
        name = f"{row['layer']}.{row['head']}"
        cost = f"{row['delta']:+.4f}{plus_minus(row['delta_se'])}"
        typer.echo(f"  {row['step']:>3}  {name:<6}  Δloss {cost} nats per token")
    typer.echo(f"  chosen on {report.text['calibration']}")


def _print(table: Table) -> None:
    """Print at full width, also where there is no terminal: a cut number is worse than a long line."""
    console = Console()
    needed = Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum
    Console(width=max(console.width, needed)).print(table)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def _size(value: float) -> str:
    return _number(value, ",.3g" if value < 1e3 else ",.0f")


def _total(value: float | None) -> str:
    """Row totals of unnormalised maps have no bound."""
    return _number(value, ".3f" if value is not None and abs(value) < 10 else ".4g")


def _number(value: float | None, form: str) -> str:
    return "·" if value is None or math.isnan(value) else format(value, form)
