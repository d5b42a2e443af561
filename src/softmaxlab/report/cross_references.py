"""Link figures with the claims and errata about them: those that name a figure by its id, and those that it names."""

from collections.abc import Iterable

from softmaxlab.papers.claim import Claim
from softmaxlab.papers.figure import FigureSpec


def paper_of(id: str) -> str:
    """Return the part of an id before the slash."""
    return id.split("/")[0]


def claims_on(figure: type[FigureSpec], claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims that the figure shows."""
    return [claim for claim in claims if figure.id in claim.figures]


def figures_of(claim: Claim, figures: Iterable[type[FigureSpec]]) -> list[type[FigureSpec]]:
    """Return the figures that show the claim."""
    return [figure for figure in figures if figure.id in claim.figures]


def errata_on(figure: type[FigureSpec], claims: Iterable[Claim]) -> list[str]:
    """Return the ids of the errata about the figure itself or a claim that it shows."""
    return list(dict.fromkeys([*figure.errata, *(id for claim in claims_on(figure, claims) for id in claim.erratum)]))
