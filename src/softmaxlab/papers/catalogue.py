"""What can be run and checked: each paper's own catalogue, put together."""

import re
from collections.abc import Iterable

from softmaxlab.errors import unknown
from softmaxlab.papers.attention import catalogue as attention
from softmaxlab.papers.claim import Claim
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.polarization import catalogue as polarization
from softmaxlab.papers.specialization import catalogue as specialization
from softmaxlab.papers.studies import catalogue as studies

_ALL = (attention, polarization, specialization, studies)
FIGURES: dict[str, type[FigureSpec]] = {figure.id: figure for paper in _ALL for figure in paper.FIGURES}
CLAIMS: dict[str, Claim] = {claim.id: claim for paper in _ALL for claim in paper.CLAIMS}


def figure(id: str) -> type[FigureSpec]:
    if id not in FIGURES:
        padded = re.sub(r"fig(\d)(?!\d)", r"fig0\1", id)  # fig4 is meant for fig04, not for fig14
        raise unknown("figure", id, [name for name in FIGURES if name.endswith(padded)] or FIGURES)
    return FIGURES[id]


def claims(ids: Iterable[str] = ()) -> list[Claim]:
    """The claims named by id or by a part of it up to a slash ("polarization"); all if none is named."""
    wanted = list(ids)
    for id in wanted:
        if not any(_under(claim, id) for claim in CLAIMS):
            raise unknown("claim", id, [*CLAIMS, *{claim.split("/")[0] for claim in CLAIMS}])
    return [claim for name, claim in CLAIMS.items() if not wanted or any(_under(name, id) for id in wanted)]


def _under(claim: str, id: str) -> bool:
    return claim == id or claim.startswith(f"{id}/")
