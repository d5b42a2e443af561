"""The page of the real model: what `softmaxlab probe` found, from the files that it wrote."""

import json
import shutil
from html import escape
from pathlib import Path
from typing import Any

from softmaxlab.report.kept import Probed
from softmaxlab.report.shell import copyable, facts, note, number, picture, row, table

TITLE = "A real model"
COLUMNS = ("layer", "sink", "sparsity", "entropy", "effective_keys", "top")


def model_body(probed: Probed | None, out: Path, folder: Path) -> str:
    """Copy the probe's files from the store's folder `out` to beside the page and show them; or say why not."""
    lead = '<p class="lead">The heads of a pretrained language model, measured while it reads.</p>'
    if probed is None:
        return lead + note("It was not asked for: <code>softmaxlab reproduce --no-model</code>.")
    again = f"<h2>Make it again</h2>{copyable(probed.command, 'command')}"
    if probed.error:
        return lead + note("<b>The probe failed.</b>", bad=True) + copyable(probed.error, "error") + again
    if probed.missing:
        return lead + note(f"There is no probe in this report: {escape(probed.missing)}.") + again
    source = out / "probe" / probed.name
    shutil.copytree(source, folder / probed.name, dirs_exist_ok=True)
    record = json.loads((source / "report.json").read_text(encoding="utf-8"))
    pictures = "".join(
        picture(f"{probed.name}/{name}.png", f"{probed.name}: {caption}", escape(caption))
        for name, caption in probed.captions.items()
        if (source / f"{name}.png").is_file()
    )
    return (
        f"{lead}{_conclusions(record)}{_facts(record)}<h2>Pictures</h2>{pictures}<h2>By layer</h2>{_layers(record)}"
        f"{again}<h2>Data</h2>{_files(source)}"
    )


def _conclusions(record: dict[str, Any]) -> str:
    return note("<br>".join(escape(line) for line in record["conclusions"]))


def _facts(record: dict[str, Any]) -> str:
    model, text, subject = record["model"], record["text"], record["subjects"][0]
    told = [
        (
            "model",
            f"{escape(model['name'])}, {model['parameters'] / 1e6:,.0f} million parameters, {subject['heads']} heads",
        ),
        ("text", escape(f"{text['amount']} of {text['name']}; {text['token_0']}")),
        ("heads with a sink", f"{subject['share_above_eps']:.0%} above ε = {record['settings']['eps']:g}"),
        ("mean sparsity", f"{subject['sparsity']:.3f}"),
        ("mean entropy", f"{subject['entropy']:.2f} nats"),
    ]
    return facts(told)


def _layers(record: dict[str, Any]) -> str:
    names = {"top": "max |h|", "effective_keys": "effective keys"}
    shown = [column for column in COLUMNS if column in record["layers"][0]]
    rows = [row([_cell(layer[column]) for column in shown]) for layer in record["layers"]]
    return table([names.get(column, column) for column in shown], rows)


def _cell(value: Any) -> str:
    return "·" if value is None else number(value, f"{value:.4g}")


def _files(source: Path) -> str:
    shown = [("index.html", "The whole probe as one page"), ("report.json", "All of it (JSON)")]
    shown += [(path.name, f"{path.stem} (CSV)") for path in sorted(source.glob("*.csv"))]
    links = "".join(f'<li><a href="{source.name}/{file}">{escape(text)}</a></li>' for file, text in shown)
    return f'<ul class="downloads">{links}</ul>'
