"""A probe as one HTML page that needs nothing beside it: pictures are inside, nothing is fetched."""

import base64
import math
from pathlib import Path
from typing import Any

import pandas

from softmaxlab import __version__
from softmaxlab.probing.next_token_loss import plus_minus
from softmaxlab.probing.report import PAGE, ProbeReport
from softmaxlab.probing.summary import Subject, heads_table, layers_table, sink_thresholds
from softmaxlab.report.render import asset, render, write_text

DIGITS = {"entropy": 2, "effective_keys": 1, "keys_above": 2, "top": 1, "median": 2, "ratio": 0, "kurtosis": 0}
UNSHOWN = ("queries", "sequences", "module")  # columns of the tables by head that only the files have
UNKNOWN = "·"


def write_page(report: ProbeReport, pictures: list[tuple[Path, str]], folder: Path) -> Path:
    """Write index.html; `pictures` are files and captions."""
    document = report.document()
    page = render(
        "probe.html",
        title=f"Heads of {report.about}",
        interrupted=report.interrupted,
        text=report.text | {"calibration": report.text.get("calibration")},
        eps=f"{report.eps:g}",
        uniform=", ".join(f"{score:.4f} ({kind})" for kind, score in report.text["uniform_sink"].items()),
        recommendations=document["conclusions"],
        summary_names=_summary_names(report),
        summary_rows=[_summary_row(row, report) for row in document["subjects"]],
        notes=report.notes,
        subjects=[_subject(subject, report) for subject in report.subjects],
        definitions=document["definitions"],
        parts={name: _table(pandas.DataFrame(rows)) for name, rows in _parts(report.parts).items()},
        pictures=[{"data": base64.b64encode(path.read_bytes()).decode(), "caption": text} for path, text in pictures],
        origin=_origin(document),
        version=__version__,
        script=asset("sort.js"),
    )
    write_text(folder / PAGE, page)
    return folder / PAGE


def _summary_names(report: ProbeReport) -> list[str]:
    return ["subject", "sink", *sink_thresholds(report.eps), "sparsity", "entropy", "total", "top", "loss", "Δloss"]


def _summary_row(row: dict[str, Any], report: ProbeReport) -> list[str]:
    """The cells of one subject; with ε = 0.9 both thresholds are one column."""
    shares = [f"{row['share_above_eps']:.1%}", f"{row['share_above_0.9']:.1%}"][: len(sink_thresholds(report.eps))]
    sink, *numbers = (_cell(row.get(name), name) for name in ("sink", "sparsity", "entropy", "total", "top"))
    return [row["subject"], sink, *shares, *numbers, _with_error(row["loss"], ""), _with_error(row["loss_change"], "+")]


def _with_error(value: dict[str, Any] | None, sign: str) -> str:
    if value is None:
        return UNKNOWN
    return f"{value['mean']:{sign}.4f}{plus_minus(value['se'])}"


def _subject(subject: Subject, report: ProbeReport) -> dict[str, Any]:
    """A subject's tables by the title they are shown under."""
    measured = subject.tables
    by_layer: Any = layers_table(measured, report.eps)
    first = ["layer", "heads", *sink_thresholds(report.eps)]
    tables = {
        "every head; a click on a column sorts by it": _for_reading(heads_table(measured)),
        "by layer": _for_reading(by_layer[[*first, *(name for name in by_layer.columns if name not in first)]]),
        "cross-attention": _for_reading(measured.cross),
        "activations": measured.activations,
    }
    shown = {name: _table(table) for name, table in tables.items() if len(table) or name != "cross-attention"}
    return {"label": subject.label, "is_first": subject is report.subjects[0], "tables": shown}


def _for_reading(table: Any) -> pandas.DataFrame:
    """A table without errors and counts, which the files have."""
    return table[[name for name in table.columns if not name.endswith("_se") and name not in UNSHOWN]]


def _parts(parts: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Title → rows of what was measured beside the heads."""
    tables = {}
    if "check" in parts:
        tables["Against eager attention"] = parts["check"]["statistics"]
    if "dormant_removed" in parts:
        removed = parts["dormant_removed"]
        row = {"heads removed": len(removed["heads"]), "Δloss": removed["loss_change"], "standard error": removed["se"]}
        tables["All dormant heads removed"] = [row]
    if "mitigation" in parts:
        tables["Folding the sink away"] = parts["mitigation"]["rows"]
    if "pruning" in parts:
        tables["Heads removed one by one"] = parts["pruning"]
        tables["How alike heads of a layer are"] = parts["similarity"]["pairs"]
    return tables


def _origin(document: dict[str, Any]) -> list[list[str]]:
    """Return what is needed to repeat the probe: name, value."""
    sections = ("model", "text", "settings", "versions")
    pairs = [(f"{section} {key}", value) for section in sections for key, value in document[section].items()]
    return [
        [name, UNKNOWN if value is None else str(value)] for name, value in pairs if not isinstance(value, (dict, list))
    ]


def _table(table: pandas.DataFrame) -> dict[str, Any]:
    """Names and cells; a cell has the text that is shown and the number that a column is sorted by."""
    names = [str(name) for name in table.columns]
    rows = [
        [{"text": _cell(value, name), "sort": _sort_key(value)} for name, value in zip(names, row)]
        for row in table.itertuples(index=False, name=None)
    ]
    return {"names": names, "rows": rows}


def _sort_key(value: Any) -> str | None:
    is_number = isinstance(value, (int, float)) and not math.isnan(value)  # a truth value too: a "no" is shown empty
    return f"{value:.8g}" if is_number else None


def _cell(value: Any, name: str) -> str:
    """Plain digits, as many as the column needs; powers of ten only where nothing else would show."""
    if value is None or value is pandas.NA or (isinstance(value, float) and math.isnan(value)):
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else ""
    if not isinstance(value, float):
        return str(value)
    if name in ("relative", "largest"):
        return f"{value:.1e}"
    return f"{value:,.{DIGITS.get(name, 3)}f}"
