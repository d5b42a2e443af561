"""The first page: what came out, the verdict table, the gallery."""

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from softmaxlab.papers.evidence import Verdict
from softmaxlab.report.claim_page import LOOKS, chip
from softmaxlab.report.figure_page import from_tables
from softmaxlab.report.places import PAPERS, Point, paper_of
from softmaxlab.report.prose import bare, plain
from softmaxlab.report.shell import note, row, table

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction

HEADER = ("Paper", "Place", "Paper says", "Measured", "Tolerance", "Verdict", "Details")
TILES = {
    Verdict.HOLDS: "claims hold",
    Verdict.CONDITION: "hold with a condition",
    Verdict.FAILS: "fail as stated",
    Verdict.UNDECIDED: "undecided",
}
UNJUDGED = "unjudged"  # the kind of a claim whose check raised
GROUPS = (  # heading → which figures
    ("Gradient Flow Polarizes Softmax Outputs towards Low-Entropy Solutions", "varre2026polarization", ""),
    ("Specialization of softmax attention heads", "sagitova2026specialization", ""),
    ("Our own: attention maps", "softmaxlab", "attention"),
    ("Our own: beyond the polarization paper", "softmaxlab", "polarization"),
    ("Our own: beyond the specialization paper", "softmaxlab", "specialization"),
)


def index_body(done: "Reproduction", points: list[Point]) -> str:
    """Return the page that opens the report; `points` are those of the errata."""
    return (
        '<p class="lead">Two papers on how softmax attention learns, computed again: every figure drawn, every claim '
        "checked against a model on which it must fail.</p>"
        f"{_tiles(done, points)}{_promise(done)}<h2 id=verdicts>Verdicts</h2>{_verdicts(done)}"
        f"<h2 id=gallery>Figures</h2>{''.join(_group(done, *group) for group in GROUPS)}"
    )


def _tiles(done: "Reproduction", points: list[Point]) -> str:
    verdicts = Counter(check.verdict for check in done.checks.values() if check)
    tiles = [("", len(done.drawn), '<a href="#gallery">figures</a>')]
    tiles += [
        (LOOKS[verdict][0], verdicts[verdict], f'<a href="#verdicts">{text}</a>') for verdict, text in TILES.items()
    ]
    tiles += [("", len(points), '<a href="errata.html">corrections to the papers</a>')]
    items = "".join(f'<li class="{kind}"><b>{count}</b><span>{text}</span></li>' for kind, count, text in tiles)
    return f'<ul class="tiles">{items}</ul>'


def _promise(done: "Reproduction") -> str:
    """Whether all is as we promise; a claim that fails as stated is a finding, not a failure of ours."""
    preset = f"preset <code>{escape(done.preset)}</code>, {done.seconds:.0f} s"
    if done.ok:
        return note(f"Every figure was drawn and every verdict is the stored one ({preset}).")
    links = ", ".join(f'<a href="{_page_of(done, id)}">{escape(id)}</a>' for id in done.failures)
    return note(f"<b>Not as promised</b> ({preset}): {links}", bad=True)


def _page_of(done: "Reproduction", id: str) -> str:
    if id == "probe":
        return "probe/index.html"
    drawn = done.drawn.get(id)
    return f"{id}.html" if drawn is not None and not drawn.ok else f"claims/{id}.html"


def _verdicts(done: "Reproduction") -> str:
    counts = Counter(_kind(done, id) for id in done.claims)
    shown = [("", "all", len(done.claims)), *((kind, verdict, counts[kind]) for verdict, (kind, _) in LOOKS.items())]
    shown += [(UNJUDGED, "not judged", counts[UNJUDGED])] if counts[UNJUDGED] else []
    buttons = "".join(
        f'<button type="button" data-show="{kind}" aria-pressed="{str(not kind).lower()}">{text} ({count})</button>'
        for kind, text, count in shown
    )
    filters = f'<div class="filters" data-of="verdict-table" role="group" aria-label="Verdicts shown">{buttons}</div>'
    return filters + table(HEADER, [_verdict(done, id) for id in done.claims], "verdict-table")


def _kind(done: "Reproduction", id: str) -> str:
    check = done.checks[id]
    return LOOKS[check.verdict][0] if check else UNJUDGED


def _verdict(done: "Reproduction", id: str) -> str:
    claim = done.claims[id]
    source = PAPERS.get(claim.source, claim.source) if claim.source != "softmaxlab" else f"{paper_of(id).title()}, ours"
    name = id.split("/", 1)[1]
    cells = [escape(source), plain(claim.place), plain(claim.statement), plain(done.judged[id].measured)]
    cells += [plain(claim.tolerance), chip(done, id), f'<a href="claims/{escape(id)}.html">{escape(name)}</a>']
    return row(cells, _kind(done, id))


def _group(done: "Reproduction", heading: str, source: str, paper: str) -> str:
    ids = [
        id for id, figure in done.figures.items() if figure.source == source and (not paper or paper_of(id) == paper)
    ]
    cards = "".join(f"<li>{_card(done, id)}</li>" for id in ids)
    return f'<h3>{escape(heading)}</h3><ul class="gallery">{cards}</ul>' if ids else ""


def _card(done: "Reproduction", id: str) -> str:
    figure, drawn = done.figures[id], done.drawn[id]
    image = f'<img src="{id}.png" alt="{escape(bare(figure.title))}" loading="lazy">'
    if drawn.error:
        image = '<span class="none">no picture: it raised an error</span>'
    chips = '<span class="chip info">committed runs</span>' if from_tables(drawn) else ""
    chips += "" if drawn.ok else '<span class="chip fails">! failed</span>'
    name = figure.place if figure.source != "softmaxlab" else id
    words = f"<div><b>{escape(name)}</b><p>{plain(figure.title)}</p>{chips}</div>"
    return f'<a class="card" href="{id}.html">{image}{words}</a>'
