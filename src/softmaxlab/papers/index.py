"""Every figure and claim there is: those in the folders `figures` and `claims` of each paper and of our studies.

Their ids are read from the source files; a file is imported when its figure or claim is used.
"""

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from softmaxlab.errors import unknown
from softmaxlab.papers.facts import FigureFacts, claim_facts, figure_facts

if TYPE_CHECKING:
    from softmaxlab.papers.claim import Claim
    from softmaxlab.papers.figure import FigureSpec

Item = TypeVar("Item")


class _OnDemand(Mapping[str, Item], Generic[Item]):
    """Name → item, in the order of `names`; `load` is called each time an item is used."""

    def __init__(self, names: Callable[[], Collection[str]], load: Callable[[str], Item]):
        self._names, self._load = names, load

    def __getitem__(self, name: str) -> Item:
        if name not in self:
            raise KeyError(name)
        return self._load(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _import_figure(id: str) -> "type[FigureSpec]":
    facts: FigureFacts = figure_facts()[id]
    return getattr(importlib.import_module(facts.module), facts.name)


def _import_claim(id: str) -> "Claim":
    module = importlib.import_module(claim_facts()[id].module)
    return next(claim for claim in module.CLAIMS if claim.id == id)


FIGURES: "Mapping[str, type[FigureSpec]]" = _OnDemand(figure_facts, _import_figure)
CLAIMS: "Mapping[str, Claim]" = _OnDemand(claim_facts, _import_claim)


def figure(id: str) -> "type[FigureSpec]":
    """Return the figure with this id."""
    if id not in FIGURES:
        padded = re.sub(r"fig(\d)(?!\d)", r"fig0\1", id)  # fig4 is meant for fig04, not for fig14
        raise unknown("figure", id, [name for name in FIGURES if name.endswith(padded)] or FIGURES)
    return FIGURES[id]


def figures(ids: Iterable[str] = ()) -> "list[type[FigureSpec]]":
    """Return the figures named by id or by a part of it up to a slash ("polarization"); all if none is named."""
    return _named("figure", ids, FIGURES)


def claims(ids: Iterable[str] = ()) -> "list[Claim]":
    """Return the claims named by id or by a part of it up to a slash ("polarization"); all if none is named."""
    return _named("claim", ids, CLAIMS)


def _named(kind: str, ids: Iterable[str], items: Mapping[str, Item]) -> list[Item]:
    wanted = list(ids)
    for id in wanted:
        if not any(_under(name, id) for name in items):
            raise unknown(kind, id, [*items, *{name.split("/")[0] for name in items}])
    return [items[name] for name in items if not wanted or any(_under(name, id) for id in wanted)]


def _under(name: str, id: str) -> bool:
    return name == id or name.startswith(f"{id}/")
