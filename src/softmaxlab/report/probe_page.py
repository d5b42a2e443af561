"""A probe as one HTML page that needs nothing beside it: pictures are inside, nothing is fetched."""

import base64
import math
from html import escape
from pathlib import Path
from typing import Any

import pandas

from softmaxlab import __version__
from softmaxlab.core.files import atomic
from softmaxlab.report.probe_record import Record, definitions, document, heads_table, layers_table, thresholds
from softmaxlab.report.shell import asset

STYLE = """
:root { color-scheme: light dark; --line: #8886; --back: #fff; --mark: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --mark: #56b4e9; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--back); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { position: sticky; top: 0; background: var(--back); }
th:first-child, td:first-child { text-align: left; }
.sortable th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; }
.sortable th[aria-sort=ascending] button::after { content: " ▲"; }
.sortable th[aria-sort=descending] button::after { content: " ▼"; }
img { max-width: 100%; background: white; }
figure { margin: 1.5rem 0; }
.wide { overflow: auto; max-height: 36rem; }
.do { border-left: .3rem solid var(--mark); padding-left: 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .9rem; }
dt { font-weight: 600; } dd { margin: 0; }
@media (max-width: 40rem) { dl { display: block; } }
"""
DIGITS = {"entropy": 2, "effective_keys": 1, "keys_above": 2, "top": 1, "median": 2, "ratio": 0, "kurtosis": 0}
UNSHOWN = ("queries", "sequences", "module")  # of the tables by head; they are in the files


def write_page(record: Record, pictures: list[tuple[Path, str]], folder: Path) -> Path:
    """Write index.html."""
    path = folder / "index.html"
    told = document(record)
    title = f"Heads of {record.about}"
    body = _beginning(record, told) + _tables(record) + _pictures(pictures) + _ending(told)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{body}<script>{asset('sort.js')}</script></body></html>\n"
    )
    with atomic(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


def _beginning(record: Record, told: dict[str, Any]) -> str:
    """What was measured, the headline, and what to do."""
    text, subjects = record.text, []
    uniform = ", ".join(f"{score:.4f} ({kind})" for kind, score in text["uniform_sink"].items())
    for row in told["subjects"]:
        shares = [f"{row['share_above_eps']:.1%}", f"{row['share_above_0.9']:.1%}"][: len(thresholds(record.eps))]
        numbers = [_cell(row.get(name), name) for name in ("sink", "sparsity", "entropy", "total", "top")]
        subjects.append([row["subject"], numbers[0], *shares, *numbers[1:], _with_error(row["loss"], ""),
                         _with_error(row["loss_change"], "+")])  # fmt: skip
    header = ["subject", "sink", *thresholds(record.eps), "sparsity", "entropy", "total", "top", "loss", "Δloss"]
    stopped = "<p><b>Interrupted: the numbers are of the text read until then.</b></p>" if record.interrupted else ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in told["conclusions"])
    notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in record.notes)
    fitted = f" Fitted on {escape(text['calibration'])}." if text.get("calibration") else ""
    about = f"{text['sequences']} sequences of T = {text['T']} tokens of {text['name']}; {text['token_0']}"
    return (
        f"{stopped}<p>{escape(about)}. ε = {record.eps:g}. Uniform attention would have a sink score of {uniform}."
        f'{fitted}</p><div class="do">{lines}</div><div class="wide">{_table(header, subjects)}</div>{notes}'
    )


def _with_error(found: dict[str, Any] | None, sign: str) -> str:
    if found is None:
        return "·"
    error = "·" if found["se"] is None else f"{found['se']:.4f}"
    return f"{found['mean']:{sign}.4f} ± {error}"


def _pictures(pictures: list[tuple[Path, str]]) -> str:
    parts = []
    for path, caption in pictures:
        data = base64.b64encode(path.read_bytes()).decode()
        image = f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
        parts.append(f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>")
    return "".join(parts)


def _tables(record: Record) -> str:
    """Every head, every layer, what the columns mean; then other results."""
    parts = []
    for subject in record.subjects:
        found, name = subject.found, escape(subject.label)
        opened = " open" if subject is record.subjects[0] else ""
        parts.append(f"<details{opened}><summary><b>{name}</b>: every head; a click on a column sorts by it</summary>")
        parts.append(f"{_frame(_shown(heads_table(found)))}</details>")
        parts.append(f"<details><summary>{name} by layer</summary>{_frame(_shown(_by_layer(record, found)))}</details>")
        if len(found.cross):
            parts.append(f"<details><summary>{name}, cross-attention</summary>{_frame(_shown(found.cross))}</details>")
        parts.append(f"<details><summary>{name}, activations</summary>{_frame(found.activations)}</details>")
    means = definitions(record.eps).items()
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in means)
    parts.append(f"<h2>What the columns mean</h2><dl>{listed}</dl>")
    for name, rows in _extra(record.parts).items():
        parts.append(f"<h2>{escape(name)}</h2>{_frame(pandas.DataFrame(rows))}")
    return "".join(parts)


def _by_layer(record: Record, found: Any) -> pandas.DataFrame:
    table: Any = layers_table(found, record.eps)
    counts = ["heads", *thresholds(record.eps)]
    return table[["layer", *counts, *(name for name in table.columns if name not in ("layer", *counts))]]


def _shown(table: Any) -> pandas.DataFrame:
    """Without errors and counts, which the files have: a page is to be read."""
    return table[[name for name in table.columns if not name.endswith("_se") and name not in UNSHOWN]]


def _extra(parts: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Other results as tables."""
    found = {}
    if "check" in parts:
        found["Against eager attention"] = parts["check"]["statistics"]
    if "mitigation" in parts:
        found["Folding the sink away"] = parts["mitigation"]["rows"]
    if "pruning" in parts:
        found["Heads removed one by one"] = parts["pruning"]
        found["How alike heads of a layer are"] = parts["similarity"]["pairs"]
    return found


def _ending(told: dict[str, Any]) -> str:
    """What is needed to do it again."""
    pairs = [
        (f"{part} {key}", value)
        for part in ("model", "text", "settings", "versions")
        for key, value in told[part].items()
    ]
    rows = [
        [name, "·" if value is None else str(value)] for name, value in pairs if not isinstance(value, (dict, list))
    ]
    return f"<h2>Where the numbers come from</h2>{_table(['', ''], rows)}<p>softmaxlab {__version__}</p>"


def _frame(table: pandas.DataFrame) -> str:
    """A table that can be sorted by every column."""
    names = [str(name) for name in table.columns]
    head = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in names)
    rows = (
        "".join(_td(value, name) for name, value in zip(names, row)) for row in table.itertuples(index=False, name=None)
    )
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    return (
        '<div class="wide"><table class="sortable" data-first="descending">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _td(value: Any, name: str) -> str:
    known = isinstance(value, (int, float)) and not math.isnan(value)  # truth too: a "no" is shown as nothing
    exact = f' data-sort="{value:.8g}"' if known else ""
    return f"<td{exact}>{escape(_cell(value, name))}</td>"


def _table(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any, name: str) -> str:
    """Plain digits, as many as the column needs; powers of ten only where nothing else would show."""
    if value is None or value is pandas.NA or (isinstance(value, float) and math.isnan(value)):
        return "·"
    if isinstance(value, bool):
        return "yes" if value else ""
    if not isinstance(value, float):
        return str(value)
    if name in ("relative", "largest"):
        return f"{value:.1e}"
    return f"{value:,.{DIGITS.get(name, 3)}f}"
