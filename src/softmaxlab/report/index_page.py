"""The first page: what came out, the verdict table, the gallery."""

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from softmaxlab.papers.evidence import Verdict
from softmaxlab.report.claim_page import LOOKS, PAPERS, UNJUDGED, chip
from softmaxlab.report.cross_references import paper_of
from softmaxlab.report.render import render_page

if TYPE_CHECKING:
    from softmaxlab.report.reproduce import Reproduction

TILES = {
    Verdict.HOLDS: "claims hold",
    Verdict.CONDITION: "hold with a condition",
    Verdict.FAILS: "fail as stated",
    Verdict.UNDECIDED: "undecided",
}


def index_page(done: "Reproduction", errata: int) -> str:
    """Return the first page; `errata` is how many there are."""
    chips = {id: chip(done, id) for id in done.claims}
    return render_page(
        "index.html",
        "index.html",
        "Both papers, reproduced",
        preset=done.preset,
        seconds=f"{done.seconds:.0f}",
        tiles=_tiles(done, errata),
        failures=[(id, _page_of(done, id)) for id in done.failures],
        filters=_filters(Counter(chip.kind_of_row for chip in chips.values())),
        verdicts=[
            {
                "paper": _paper(done, id),
                "claim": claim,
                "measured": done.judged[id].measured,
                "verdict": chips[id],
            }
            for id, claim in done.claims.items()
        ],
        groups=_groups(done),
    )


def _tiles(done: "Reproduction", errata: int) -> list[dict[str, Any]]:
    verdicts = Counter(check.verdict for check in done.checks.values() if check)
    tiles = [("", len(done.drawn), "#gallery", "figures")]
    tiles += [(LOOKS[verdict][0], verdicts[verdict], "#verdicts", text) for verdict, text in TILES.items()]
    tiles += [("", errata, "errata.html", "corrections to the papers")]
    return [dict(zip(("kind", "count", "link", "text"), tile)) for tile in tiles]


def _filters(counts: Counter[str]) -> list[tuple[str, str, int]]:
    """Return the kinds of rows that can be shown, each with its words and number; "" stands for all."""
    shown = [("", "all", counts.total())]
    shown += [(kind, str(verdict), counts[kind]) for verdict, (kind, _) in LOOKS.items()]
    return shown + ([(UNJUDGED, "not judged", counts[UNJUDGED])] if counts[UNJUDGED] else [])


def _page_of(done: "Reproduction", id: str) -> str:
    if id == "probe":
        return "probe/index.html"
    record = done.drawn.get(id)
    return f"{id}.html" if record is not None and not record.ok else f"claims/{id}.html"


def _paper(done: "Reproduction", id: str) -> str:
    source = done.claims[id].source
    return PAPERS.get(source, source) if source != "softmaxlab" else f"{paper_of(id).title()}, ours"


def _groups(done: "Reproduction") -> list[dict[str, Any]]:
    """Return the figures by the folder of their files, which ids begin with; a paper's own come before ours."""
    groups: dict[tuple[str, bool], list] = {}
    for id, figure in done.figures.items():
        ours = figure.source == "softmaxlab"
        groups.setdefault((paper_of(id), ours), []).append((figure, done.drawn[id]))
    ordered = sorted(groups.items(), key=lambda item: item[0][1])  # ours last, else as the folders come
    return [{"heading": _heading(folder, ours, groups), "figures": figures} for (folder, ours), figures in ordered]


def _heading(folder: str, ours: bool, groups: Collection[tuple[str, bool]]) -> str:
    if not ours:
        return f"The paper on {folder}"
    if folder == "studies":
        return "Our own studies"
    return f"Our own, beside the paper on {folder}" if (folder, False) in groups else f"Our own, on {folder}"
