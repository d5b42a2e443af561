"""One page per figure: picture, what the paper reports, what we see, how to make it again, the data."""

import inspect
import json
import sys
from typing import TYPE_CHECKING, Any

from softmaxlab.papers.errata import Erratum
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.report.claim_page import PAPERS, chip
from softmaxlab.report.cross_references import claims_on, errata_on
from softmaxlab.report.markup import Section
from softmaxlab.report.records import FigureRecord
from softmaxlab.report.render import render_page

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction

LONGEST = 60  # characters of a value


def figure_page(done: "Reproduction", id: str, errata: dict[str, Erratum], sections: dict[str, Section]) -> str:
    """Return the page of a figure; `sections` are those of the errata by anchor."""
    figure, record = done.figures[id], done.drawn[id]
    preset, file = figure.shown_at(done.preset), id.rsplit("/", 1)[-1]
    ids = list(done.figures)
    place = ids.index(id)
    claims = claims_on(figure, done.claims.values())
    described, details = _description(figure)
    return render_page(
        "figure.html",
        f"{id}.html",
        figure.title,
        paper=PAPERS.get(figure.source, figure.source),
        figure=figure,
        record=record,
        file=file,
        changed=_changed(figure) if preset == "quick" else [],
        claims=[(claim, chip(done, claim.id), done.judged[claim.id].measured) for claim in claims],
        errata=[sections[errata[id].anchor] for id in errata_on(figure, claims)],
        described=described,
        details=details,
        command=f"softmaxlab run {id} --preset {preset}",
        program=f'import softmaxlab as sl\n\nresult, figure = sl.run("{id}", preset="{preset}")',
        spec=json.dumps(record.spec, indent=1, ensure_ascii=False),
        reading=f'import xarray\n\ndata = xarray.open_dataset("{file}.nc", engine="h5netcdf")',
        provenance=_provenance(record),
        before=ids[place - 1] if place else "",
        after=ids[place + 1] if place + 1 < len(ids) else "",
    )


def _changed(figure: type[FigureSpec]) -> list[tuple[str, str, str]]:
    """Return what the quick preset changes: name, value, and the value at paper."""
    paper = figure.preset("paper")
    changes = figure.presets["quick"].items()
    return [(name, _short(value), _short(getattr(paper, name, None))) for name, value in changes]


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _description(figure: type[FigureSpec]) -> tuple[str, str]:
    """Return what the file of the figure says first, with what the figure says, and the rest of the file's text."""
    first, _, rest = (inspect.getdoc(sys.modules[figure.__module__]) or "").partition("\n\n")
    return f"{first} {inspect.getdoc(figure) or ''}", rest


def _provenance(record: FigureRecord) -> list[tuple[str, str]]:
    made = record.provenance
    return [
        ("status", record.status),
        ("computed", str(made.get("finished", ""))),
        ("seconds", f"{made.get('seconds', 0):.2f}"),
        ("content key", record.key),
        *((name.replace("_", " "), _short(value)) for name, value in record.notes.items()),
    ]
