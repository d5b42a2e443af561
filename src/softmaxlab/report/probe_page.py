"""A probe as one HTML page that needs nothing beside it: pictures are inside, nothing is fetched."""

import base64
import math
from html import escape
from pathlib import Path
from typing import Any

import pandas

from softmaxlab import __version__
from softmaxlab.core.files import atomic
from softmaxlab.probing.definitions import PAPER_EPS
from softmaxlab.report.probe_record import Record, document, layers_table

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid #8886; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; background: white; }
figure { margin: 1.5rem 0; }
.wide { overflow-x: auto; max-height: 40rem; }
.do { border-left: .3rem solid #0072B2; padding-left: 1rem; }
dt { font-weight: 600; }
"""


def write_page(record: Record, pictures: list[tuple[Path, str]], folder: Path) -> Path:
    """Write index.html."""
    path = folder / "index.html"
    told = document(record)
    title = f"Heads of {Path(record.model['name']).name or record.model['name']}"
    body = _beginning(record, told) + _pictures(pictures) + _tables(record) + _ending(told)
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )
    with atomic(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


def _beginning(record: Record, told: dict[str, Any]) -> str:
    """What was measured, the headline, and what to do."""
    text, subjects = record.text, []
    uniform = ", ".join(f"{score:.4f} ({kind})" for kind, score in text["uniform_sink"].items())
    for row in told["subjects"]:
        cost = row["loss_change"]["said"] if row["loss_change"] else "·"
        shares = [f"{row['share_above_eps']:.1%}", f"{row['share_above_0.9']:.1%}"]
        numbers = [_cell(row.get(name)) for name in ("sink", "sparsity", "entropy", "total", "top")]
        loss = _cell(row["loss"]["mean"]) if row["loss"] else "·"
        subjects.append([row["subject"], *shares, *numbers, loss, cost])
    header = ["", f"sink > {record.eps:g}", f"sink > {PAPER_EPS:g}", "sink", "sparsity", "entropy", "total", "max |h|"]
    stopped = "<p><b>Interrupted: the numbers are of the text read until then.</b></p>" if record.interrupted else ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in told["conclusions"])
    notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in record.notes)
    about = f"{text['sequences']} sequences of T = {text['T']} tokens of {text['name']}; {text['token_0']}"
    return (
        f"{stopped}<p>{escape(about)}. ε = {record.eps:g}. Uniform attention would have a sink score of {uniform}.</p>"
        f'<div class="do">{lines}</div>{_table([*header, "loss", "Δloss"], subjects)}{notes}'
    )


def _pictures(pictures: list[tuple[Path, str]]) -> str:
    parts = []
    for path, caption in pictures:
        data = base64.b64encode(path.read_bytes()).decode()
        image = f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
        parts.append(f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>")
    return "".join(parts)


def _tables(record: Record) -> str:
    """By layer, other results, and every head folded away."""
    parts = []
    for subject in record.subjects:
        by_layer: Any = layers_table(subject.found, record.eps)
        kept = [name for name in by_layer.columns if not name.endswith("_se") and name not in ("queries", "sequences")]
        parts.append(f"<h2>{escape(subject.label)} by layer</h2>{_frame(by_layer[kept])}")
        heads = subject.found.heads
        parts.append(f"<details><summary>all {len(heads)} heads</summary>{_frame(heads)}</details>")
        if len(subject.found.cross):
            parts.append(f"<details><summary>cross-attention</summary>{_frame(subject.found.cross)}</details>")
        parts.append(f"<details><summary>activations</summary>{_frame(subject.found.activations)}</details>")
    for name, rows in _extra(record.parts).items():
        parts.append(f"<h2>{escape(name)}</h2>{_frame(pandas.DataFrame(rows))}")
    return "".join(parts)


def _extra(parts: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Other results as tables."""
    found = {}
    if "check" in parts:
        found["Against eager attention"] = parts["check"]["statistics"]
    if "mitigation" in parts:
        found["Folding the sink away"] = parts["mitigation"]["rows"]
    if "pruning" in parts:
        found["Heads removed one by one"] = parts["pruning"]
        found["Heads most alike"] = parts["similarity"]["nearest"]
    return found


def _ending(told: dict[str, Any]) -> str:
    """Definitions, and what is needed to do it again."""
    means = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in told["definitions"].items())
    pairs = [
        (f"{part} {key}", value)
        for part in ("model", "text", "settings", "versions")
        for key, value in told[part].items()
    ]
    rows = [
        [name, "·" if value is None else str(value)] for name, value in pairs if not isinstance(value, (dict, list))
    ]
    return (
        f"<h2>What the numbers mean</h2><dl>{means}</dl><h2>Where they come from</h2>{_table(['', ''], rows)}"
        f"<p>softmaxlab {__version__}</p>"
    )


def _frame(table: pandas.DataFrame) -> str:
    rows = [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    return f'<div class="wide">{_table([str(name).replace("_", " ") for name in table.columns], rows)}</div>'


def _table(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "·" if math.isnan(value) else f"{value:.4g}"
    return "·" if value is None or value is pandas.NA else str(value)
