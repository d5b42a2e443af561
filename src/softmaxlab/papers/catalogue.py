"""What can be run and checked. A new figure or set of claims is one file and one line here."""

import itertools
from collections.abc import Iterable

from softmaxlab.errors import unknown
from softmaxlab.papers.attention import claims as claims_attention
from softmaxlab.papers.attention import maps
from softmaxlab.papers.claim import Claim
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.polarization import (
    asymptotics,
    claims_losses,
    claims_maps,
    claims_model,
    claims_onehot,
    claims_order,
    claims_sink,
    claims_square,
    confound,
    fig02,
    fig03,
    fig10,
    fig11,
    fig12,
    fig13,
    optimizers,
    orbit,
    phase,
    sink,
    softmax1,
    unaligned,
)

_FIGURES: tuple[type[FigureSpec], ...] = (
    maps.Maps,
    fig02.Fig02,
    fig03.Fig03,
    fig10.Fig10,
    fig11.Fig11,
    fig12.Fig12,
    fig13.Fig13a,
    fig13.Fig13b,
    orbit.Orbit,
    asymptotics.Asymptotics,
    sink.Sink,
    confound.Confound,
    softmax1.Softmax1,
    phase.Phase,
    optimizers.Optimizers,
    unaligned.Unaligned,
)
_CLAIMS = itertools.chain(
    claims_attention.CLAIMS,
    claims_order.CLAIMS,
    claims_onehot.CLAIMS,
    claims_square.CLAIMS,
    claims_model.CLAIMS,
    claims_maps.CLAIMS,
    claims_losses.CLAIMS,
    claims_sink.CLAIMS,
)
FIGURES: dict[str, type[FigureSpec]] = {figure.id: figure for figure in _FIGURES}
CLAIMS: dict[str, Claim] = {claim.id: claim for claim in _CLAIMS}


def figure(id: str) -> type[FigureSpec]:
    if id not in FIGURES:
        raise unknown("figure", id, FIGURES)
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
