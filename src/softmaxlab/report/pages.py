"""The pages of the report: one index with the verdict table and gallery, one page per figure."""

import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmaxlab import __version__
from softmaxlab.core.files import atomic
from softmaxlab.papers.catalogue import FIGURES

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #8886; }
img { max-width: 100%; background: white; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid #8886; }
"""


def write(done: "Reproduction", folder: Path) -> None:
    """Write all pages; the index comes last."""
    for id in done.figures:
        _write(folder / f"{id}.html", _figure_page(done, id))
    _write(folder / "index.html", _index(done))


def _write(path: Path, text: str) -> None:
    with atomic(path) as draft:
        draft.write_text(text, encoding="utf-8")


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def _table(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _index(done: "Reproduction") -> str:
    verdicts = [
        [
            c.claim.id,
            f"{c.claim.source}, {c.claim.place}",
            c.claim.statement,
            c.finding.measured,
            c.claim.tolerance,
            str(c.finding.verdict) if c.ok else f"{c.finding.verdict} (expected {c.claim.expected})",
            c.claim.control_is if c.control_failed else f"NOT told apart: {c.claim.control_is}",
        ]
        for c in done.checks
    ]
    header = ["claim", "where", "paper says", "measured", "tolerance", "verdict", "control"]
    gallery = "".join(
        f'<li><a href="{id}.html">{escape(id)}</a>: {escape(FIGURES[id].title)} ({escape(str(r.status))})</li>'
        for id, r in done.figures.items()
    )
    return _page(
        "softmaxlab: figures and claims",
        f"<p>softmaxlab {__version__}, preset <code>{escape(done.preset)}</code>: {escape(done.counts())}</p>"
        f"<h2>Claims</h2>{_table(header, verdicts)}<h2>Figures</h2><ul>{gallery}</ul>",
    )


def _figure_page(done: "Reproduction", id: str) -> str:
    figure, result = FIGURES[id], done.figures[id]
    up = "../" * id.count("/")
    picture = id.rsplit("/", 1)[-1] + ".svg"
    return _page(
        f"{id}: {figure.title}",
        f'<p><a href="{up}index.html">all figures and claims</a></p>'
        f'<img src="{picture}" alt="{escape(figure.title)}">'
        f"<p><b>{escape(figure.source)}, {escape(figure.place)}</b>: {escape(figure.reports)}.</p>"
        f"<p>Status: {escape(str(result.status))}</p>"
        f"<h2>Again</h2><pre>softmaxlab run {escape(id)} --preset {escape(done.preset)}</pre>"
        f"<pre>import softmaxlab as sl\nresult, figure = sl.run({id!r}, preset={done.preset!r})</pre>"
        f"<h2>Spec</h2><pre>{escape(_readable(result.spec.plain() if result.spec else None))}</pre>"
        f"<h2>Provenance</h2><pre>{escape(_readable(dict(result.provenance)))}</pre>",
    )


def _readable(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
