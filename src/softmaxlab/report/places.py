"""Which claims and errata speak of which figure: papers' numbers, read from the places that each of them names."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import softmaxlab
from softmaxlab.papers.claim import Claim
from softmaxlab.papers.errata import errata_file
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.report.prose import markdown

NAMED = re.compile(r"(Figure|Theorem|Lemma|Proposition|Appendix)s? ([\w.]+(?:(?:, | and | to )(?:\d|[A-Z]\b)[\w.]*)*)")
PAPERS = {
    "varre2026polarization": "Polarization",
    "sagitova2026specialization": "Specialization",
    "softmaxlab": "softmaxlab",
}
REPOSITORY = Path(softmaxlab.__file__).parents[2]


@dataclass(frozen=True)
class Point:
    """A point of the errata."""

    paper: str  # "polarization"
    anchor: str
    heading: str  # HTML
    body: str  # HTML


def numbers(place: str) -> set[str]:
    """ "Section 3.2, Figures 3 and 12" → {"Figure 3", "Figure 12"}; panels do not count: 13a is 13."""
    found = set()
    for kind, text in NAMED.findall(place):
        names = re.split(r", | and ", text)
        for name in names:
            first, _, last = name.partition(" to ")
            if last.isdigit() and first.isdigit():
                found |= {f"{kind} {n}" for n in range(int(first), int(last) + 1)}
            else:
                found.add(f"{kind} {re.sub(r'(?<=[0-9])[a-z]$', '', first.rstrip('.'))}")
    figures = {name for name in found if name.startswith("Figure")}
    return figures or found


def paper_of(id: str) -> str:
    return id.split("/")[0]


def claims_on(figure: type[FigureSpec], claims: Iterable[Claim]) -> list[Claim]:
    """The claims of the same paper that name a place that the figure names."""
    wanted = numbers(figure.place)
    return [
        claim
        for claim in claims
        if paper_of(claim.id) == paper_of(figure.id) and (wanted & numbers(claim.place) or claim.place == figure.place)
    ]


def points_on(figure: type[FigureSpec], points: Iterable[Point]) -> list[Point]:
    wanted = numbers(figure.place)
    return [p for p in points if p.paper == paper_of(figure.id) and wanted & numbers(re.sub("<[^>]+>", "", p.heading))]


def errata() -> list[Point]:
    """The points of the errata as HTML."""
    points: list[Point] = []
    paper = ""
    for depth, anchor, html in markdown(errata_file().read_text(encoding="utf-8")):
        if depth == 2:
            paper = anchor
        elif depth == 3:
            points.append(Point(paper, anchor, html, ""))
        elif depth == 0 and points and points[-1].paper == paper:
            last = points.pop()
            points.append(Point(paper, last.anchor, last.heading, last.body + html))
    return points
