"""Which claims and errata speak of which figure, by the numbers of figures and theorems in the places they name."""

import re
from collections.abc import Iterable

from softmaxlab.papers.claim import Claim
from softmaxlab.papers.errata import Erratum
from softmaxlab.papers.figure import FigureSpec

NAMED = re.compile(r"(Figure|Theorem|Lemma|Proposition|Appendix)s? ([\w.]+(?:(?:, | and | to )(?:\d|[A-Z]\b)[\w.]*)*)")


def numbers(place: str) -> set[str]:
    """ "Section 3.2, Figures 3 and 12" → {"Figure 3", "Figure 12"}; panels do not count: 13a is 13."""
    named = set()
    for kind, text in NAMED.findall(place):
        for name in re.split(r", | and ", text):
            first, _, last = name.partition(" to ")
            if last.isdigit() and first.isdigit():
                named |= {f"{kind} {n}" for n in range(int(first), int(last) + 1)}
            else:
                named.add(f"{kind} {re.sub(r'(?<=[0-9])[a-z]$', '', first.rstrip('.'))}")
    figures = {name for name in named if name.startswith("Figure")}
    return figures or named


def paper_of(id: str) -> str:
    """Return the part of an id before the slash."""
    return id.split("/")[0]


def claims_on(figure: type[FigureSpec], claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims of the same paper that name a place that the figure names."""
    wanted = numbers(figure.place)
    return [
        claim
        for claim in claims
        if paper_of(claim.id) == paper_of(figure.id) and (wanted & numbers(claim.place) or claim.place == figure.place)
    ]


def figures_of(claim: Claim, figures: Iterable[type[FigureSpec]]) -> list[type[FigureSpec]]:
    """Return the figures of the same paper that the claim names."""
    wanted = numbers(claim.place)
    return [f for f in figures if paper_of(f.id) == paper_of(claim.id) and wanted & numbers(f.place)]


def errata_on(figure: type[FigureSpec], errata: Iterable[Erratum]) -> list[Erratum]:
    """Return the errata of the same paper that name a place that the figure names."""
    wanted = numbers(figure.place)
    return [e for e in errata if paper_of(e.id) == paper_of(figure.id) and wanted & numbers(e.place)]
