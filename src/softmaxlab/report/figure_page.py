"""One page per figure: picture, what the paper reports, what we see, how to make it again, the data."""

import inspect
import json
import sys
from html import escape
from typing import TYPE_CHECKING, Any

from softmaxlab.papers.figure import FigureSpec
from softmaxlab.report.claim_page import chip
from softmaxlab.report.kept import Drawn
from softmaxlab.report.places import PAPERS, Point, claims_on, points_on
from softmaxlab.report.prose import inside, plain
from softmaxlab.report.shell import copyable, facts, note, picture, row, table

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction

UP = "../"


def figure_body(done: "Reproduction", id: str, points: list[Point]) -> str:
    """Return the page of a figure; `points` are those of the errata."""
    figure, drawn = done.figures[id], done.drawn[id]
    name = id.rsplit("/", 1)[-1]
    who = "We report" if figure.source == "softmaxlab" else "The paper reports"
    return (
        f'<p class="lead">{escape(PAPERS.get(figure.source, figure.source))}, {plain(figure.place)}</p>'
        f"{_picture(figure, drawn, name)}{_labels(done, figure, drawn)}<h2>{who}</h2><p>{plain(figure.reports)}.</p>"
        f"<h2>What we see</h2>{_seen(done, figure, drawn, points)}"
        f"<h2>What is drawn</h2>{_described(figure)}"
        f"<h2>Make it again</h2>{_again(figure.shown_at(done.preset), id, drawn)}"
        f"<h2>Data</h2>{_data(name, drawn)}{_neighbours(done, id)}"
    )


def _picture(figure: type[FigureSpec], drawn: Drawn, name: str) -> str:
    if drawn.error:
        return note(f"<b>No picture: {escape(drawn.status)}.</b>", bad=True) + copyable(drawn.error, "error")
    return picture(f"{name}.svg", f"{figure.place}: {figure.title}", plain(drawn.heading))


def _labels(done: "Reproduction", figure: type[FigureSpec], drawn: Drawn) -> str:
    """What a reader must know before believing the picture."""
    told = []
    if from_tables(drawn):
        told.append(note("Drawn from tables of earlier runs that come with softmaxlab, not from runs made now."))
    if not drawn.ok and not drawn.error:
        told.append(note(f"Status: {escape(drawn.status)}", bad=True))
    if figure.shown_at(done.preset) == "quick" and (changed := figure.presets["quick"]):
        told.append(note(f"Preset <code>quick</code>, smaller than the paper's: {_settings(figure, changed)}."))
    return "".join(told)


def from_tables(drawn: Drawn) -> bool:
    """Whether a figure shows runs made earlier: only such figures have the digest of what they read in their spec."""
    return bool(drawn.spec.get("digest"))


def _settings(figure: type[FigureSpec], changed: dict[str, Any]) -> str:
    """What quick changes, and what it is at paper."""
    paper = figure.preset("paper")
    pairs = ((name, changed[name], getattr(paper, name, None)) for name in changed)
    return ", ".join(f"{escape(name)} = {_short(now)} (paper: {_short(then)})" for name, now, then in pairs)


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return escape(text if len(text) <= 60 else f"{text[:59]}…")


def _seen(done: "Reproduction", figure: type[FigureSpec], drawn: Drawn, points: list[Point]) -> str:
    """The verdicts of the claims on this figure, and the errata that name it."""
    rows = [
        row([chip(done, c.id), plain(c.statement), plain(done.judged[c.id].measured), _link(c.id)])
        for c in claims_on(figure, done.claims.values())
    ]
    told = f"<p>{plain(drawn.seen)}</p>" if drawn.seen else ""
    told += table(["Verdict", "Statement", "Measured", "Details"], rows) if rows else ""
    named = "".join(
        f'<h3><a href="{UP}errata.html#{p.anchor}">Errata</a>: {inside(p.heading)}</h3>{p.body}'
        for p in points_on(figure, points)
    )
    if told or named:
        return told + named
    return "<p>The picture is what we see: no claim and no correction is about this figure alone.</p>"


def _link(claim: str) -> str:
    return f'<a href="{UP}claims/{escape(claim)}.html">{escape(claim.split("/")[1])}</a>'


def _described(figure: type[FigureSpec]) -> str:
    """What the file of the figure says at its top, and the figure itself."""
    module = inspect.getdoc(sys.modules[figure.__module__]) or ""
    head, _, rest = module.partition("\n\n")
    more = f"<pre tabindex=0>{escape(rest)}</pre>" if rest else ""
    return f"<p>{plain(head)} {plain(inspect.getdoc(figure) or '')}</p>{more}"


def _again(preset: str, id: str, drawn: Drawn) -> str:
    command = f"softmaxlab run {id} --preset {preset}"
    program = f'import softmaxlab as sl\n\nresult, figure = sl.run("{id}", preset="{preset}")'
    spec = json.dumps(drawn.spec, indent=1, ensure_ascii=False)
    return (
        f"{copyable(command, 'command')}{copyable(f'{command} --format pdf --style icml', 'command for a column')}"
        f"{copyable(program, 'Python')}<details><summary>The whole spec, for <code>softmaxlab run spec.json</code>"
        f"</summary>{copyable(spec, 'spec')}</details>"
    )


def _data(name: str, drawn: Drawn) -> str:
    if drawn.error:
        return "<p>None.</p>"
    files = (("nc", "Data (netCDF)"), ("json", "Record (JSON)"), ("svg", "Picture (SVG)"))
    links = "".join(f'<li><a href="{name}.{kind}" download>{text}</a></li>' for kind, text in files)
    rows = [row([f"<code>{escape(n)}</code>", escape(axes) or "a number", escape(t)]) for n, axes, t in drawn.arrays]
    read = f'import xarray\n\ndata = xarray.open_dataset("{name}.nc", engine="h5netcdf")'
    made = drawn.provenance
    told = [("status", escape(drawn.status)), ("computed", escape(str(made.get("finished", ""))))]
    told += [("seconds", f"{made.get('seconds', 0):.2f}"), ("content key", f"<code>{drawn.key}</code>")]
    told += [(key.replace("_", " "), _short(value)) for key, value in drawn.notes.items()]
    return (
        f'<ul class="downloads">{links}</ul>{copyable(read, "Python that reads the data")}{facts(told)}'
        f"{table(['Array', 'Axes', 'Type'], rows)}"
    )


def _neighbours(done: "Reproduction", id: str) -> str:
    ids = list(done.figures)
    place = ids.index(id)
    before = (
        f'<a href="{UP}{ids[place - 1]}.html" rel="prev">← {escape(ids[place - 1])}</a>' if place else "<span></span>"
    )
    after = (
        f'<a href="{UP}{ids[place + 1]}.html" rel="next">{escape(ids[place + 1])} →</a>' if place + 1 < len(ids) else ""
    )
    return f'<nav class="turn" aria-label="Other figures">{before}{after}</nav>'
