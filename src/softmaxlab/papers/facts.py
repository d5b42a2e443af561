"""Facts of figures, claims and maps, read from their source files: what listings, citations and near misses need.

Nothing is imported, so torch is not either. A test compares these facts with those of the imported objects. The user's
own figures and claims are those in the modules of plugins: classes with an id, and the tuple CLAIMS.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from softmaxlab.core import plugins, source
from softmaxlab.core.source import UNKNOWN, Instance
from softmaxlab.errors import SoftmaxlabError

PAPERS = sorted(folder.parent.name for folder in Path(__file__).parent.glob("*/figures"))
HOMES = (*(f"softmaxlab.papers.{paper}" for paper in PAPERS), "softmaxlab.studies")
MAPS = "softmaxlab.attention.maps"


@dataclass(frozen=True)
class FigureFacts:
    """A figure's facts, as its class has them; of its presets the names."""

    id: str
    title: str
    source: str
    place: str
    reports: str
    presets: tuple[str, ...]
    cost: dict[str, str]
    module: str
    name: str  # of the class


@dataclass(frozen=True)
class ClaimFacts:
    """A claim's facts, with the stored verdict in words."""

    id: str
    source: str
    place: str
    statement: str
    expected: str
    module: str


@dataclass(frozen=True)
class MapFacts:
    """An attention map's facts: what holds of it by name, what it learns, its source."""

    name: str
    holds: dict[str, bool]
    parameters: tuple[str, ...]
    source: str


Facts = TypeVar("Facts", FigureFacts, ClaimFacts, MapFacts)


def figure_facts() -> dict[str, FigureFacts]:
    """Every figure by its id: the classes with an id of their own in the folders `figures`, and the user's."""
    return _by_name("figure", lambda facts: facts.id, (*_built_in_figures(), *_own_figures()))


def claim_facts() -> dict[str, ClaimFacts]:
    """Every claim by its id: those in the tuples CLAIMS of the files in the folders `claims`, and the user's."""
    return _by_name("claim", lambda facts: facts.id, (*_built_in_claims(), *_own_claims()))


@functools.cache
def _built_in_figures() -> tuple[FigureFacts, ...]:
    return tuple(_figures())


@functools.cache
def _built_in_claims() -> tuple[ClaimFacts, ...]:
    return tuple(_claims())


def _own_figures() -> Iterator[FigureFacts]:
    for module in plugins.modules():
        for name, figure in vars(module).items():
            if isinstance(figure, type) and figure.__module__ == module.__name__ and _is_figure(figure):
                facts = {fact: getattr(figure, fact) for fact in ("id", "title", "source", "place", "reports", "cost")}
                yield FigureFacts(**facts, presets=tuple(figure.presets), module=module.__name__, name=name)


def _is_figure(owned: type) -> bool:
    from softmaxlab.papers.figure import FigureSpec

    return issubclass(owned, FigureSpec) and "id" in vars(owned)


def _own_claims() -> Iterator[ClaimFacts]:
    for module in plugins.modules():
        listed = vars(module).get("CLAIMS")
        for claim in listed if isinstance(listed, tuple) else ():  # a program may also import the mapping of that name
            yield ClaimFacts(claim.id, claim.source, claim.place, claim.statement, str(claim.expected), module.__name__)


@functools.cache
def map_facts() -> dict[str, MapFacts]:
    """Every attention map of softmaxlab by its name: those in the tuples MAPS of the files in `attention/maps`."""
    return _by_name("map", lambda facts: facts.name, _maps())


def _figures() -> Iterator[FigureFacts]:
    for module in _files("figures"):
        for figure in sorted(module.classes(), key=lambda figure: figure.name):
            if figure.owns("id"):
                names = ("id", "title", "source", "place", "reports", "cost")
                facts = {name: _known(figure[name], module, f"{figure.name}.{name}") for name in names}
                presets = figure["presets"]
                names = _known(UNKNOWN if presets is UNKNOWN else tuple(presets), module, f"{figure.name}.presets")
                yield FigureFacts(**facts, presets=names, module=module.name, name=figure.name)


def _claims() -> Iterator[ClaimFacts]:
    for module in _files("claims"):
        for claim in _instances(module, "CLAIMS"):
            names = ("id", "source", "place", "statement", "expected")
            facts = {name: _known(claim.fields[name], module, f"{name} of a claim") for name in names}
            yield ClaimFacts(**facts, module=module.name)


def _maps() -> Iterator[MapFacts]:
    declared = _module("softmaxlab.attention.map")["FACTS"]
    for module in map(_module, source.modules_in(MAPS)):
        for entry in _instances(module, "MAPS"):
            names = ("name", "parameters", "source", *declared)
            facts = {name: _known(entry.fields[name], module, f"{name} of a map") for name in names}
            holds = {name: facts[name] for name in declared}
            yield MapFacts(facts["name"], holds, facts["parameters"], facts["source"])


def _files(folder: str) -> Iterator[source.Module]:
    for home in HOMES:
        yield from map(_module, source.modules_in(f"{home}.{folder}"))


def _module(name: str) -> source.Module:
    module = source.module(name)
    assert module is not None  # it is in the folder
    return module


def _instances(module: source.Module, name: str) -> tuple[Instance, ...]:
    listed = _known(module[name], module, name) if name in module else ()
    for entry in listed:
        if not isinstance(entry, Instance):
            raise SoftmaxlabError(f"{module.path}: an entry of {name} is not readable without running code")
    return listed


def _known(value: Any, module: source.Module, what: str) -> Any:
    parts = (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
    if any(part is UNKNOWN for part in parts):
        raise SoftmaxlabError(f"{module.path}: {what} must be a constant, readable without running code")
    return value


def _by_name(kind: str, name: Callable[[Facts], str], facts: Iterable[Facts]) -> dict[str, Facts]:
    named: dict[str, Facts] = {}
    for each in facts:
        if name(each) in named:
            raise SoftmaxlabError(f"{kind} {name(each)!r} is defined twice")
        named[name(each)] = each
    return named
