"""The page of the real model: what `softmaxlab probe` found, from the files that it wrote."""

import json
import shutil
from pathlib import Path
from typing import Any

from softmaxlab.report.records import ProbeRecord
from softmaxlab.report.render import render_page

TITLE = "A real model"
COLUMNS = {
    "layer": "layer",
    "sink": "sink",
    "sparsity": "sparsity",
    "entropy": "entropy",
    "effective_keys": "effective keys",
    "top": "max |h|",
}


def model_page(record: ProbeRecord | None, out: Path, folder: Path) -> str:
    """Return the page; the probe's files are copied from the store's folder `out` to beside it."""
    values: dict[str, Any] = {"files": []}
    if record is not None and not record.error and not record.missing:
        source = out / "probe" / record.name
        shutil.copytree(source, folder / record.name, dirs_exist_ok=True)
        values = _values(record, source)
    return render_page("model.html", "probe/index.html", TITLE, record=record, **values)


def _values(record: ProbeRecord, source: Path) -> dict[str, Any]:
    document = json.loads((source / "report.json").read_text(encoding="utf-8"))
    shown = [column for column in COLUMNS if column in document["layers"][0]]
    files = [("index.html", "The whole probe as one page"), ("report.json", "All of it (JSON)")]
    files += [(path.name, f"{path.stem} (CSV)") for path in sorted(source.glob("*.csv"))]
    return {
        "document": document,
        "about": _about(document),
        "pictures": [
            (f"{record.name}/{name}.png", f"{record.name}: {caption}", caption)
            for name, caption in record.captions.items()
            if (source / f"{name}.png").is_file()
        ],
        "header": [COLUMNS[column] for column in shown],
        "layers": [[_cell(layer[column]) for column in shown] for layer in document["layers"]],
        "files": [(f"{source.name}/{file}", text) for file, text in files],
    }


def _about(document: dict[str, Any]) -> list[tuple[str, str]]:
    model, text, subject = document["model"], document["text"], document["subjects"][0]
    size = f"{model['parameters'] / 1e6:,.0f} million parameters, {subject['heads']} heads"
    return [
        ("model", f"{model['name']}, {size}"),
        ("text", f"{text['amount']} of {text['name']}; {text['token_0']}"),
        ("heads with a sink", f"{subject['share_above_eps']:.0%} above ε = {document['settings']['eps']:g}"),
        ("mean sparsity", f"{subject['sparsity']:.3f}"),
        ("mean entropy", f"{subject['entropy']:.2f} nats"),
    ]


def _cell(value: Any) -> Any:
    return "·" if value is None else {"number": repr(value), "text": f"{value:.4g}"}
