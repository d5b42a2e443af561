"""Every figure and claim there is: those in the folders `figures` and `claims` of each paper and of our studies."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from softmaxlab.errors import unknown
from softmaxlab.papers.claim import Claim
from softmaxlab.papers.figure import FigureSpec

PAPERS = sorted(folder.parent.name for folder in Path(__file__).parent.glob("*/figures"))
HOMES = (*(f"softmaxlab.papers.{paper}" for paper in PAPERS), "softmaxlab.studies")


def _modules(folder: str) -> Iterator[ModuleType]:
    for home in HOMES:
        package = importlib.import_module(f"{home}.{folder}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(module.name)


def _figures(module: ModuleType) -> Iterator[type[FigureSpec]]:
    """The figures that a module defines itself: classes with an id of their own."""
    for _, value in inspect.getmembers(module, inspect.isclass):
        if issubclass(value, FigureSpec) and value.__module__ == module.__name__ and "id" in vars(value):
            yield value


FIGURES: dict[str, type[FigureSpec]] = {
    figure.id: figure for module in _modules("figures") for figure in _figures(module)
}
CLAIMS: dict[str, Claim] = {claim.id: claim for module in _modules("claims") for claim in module.CLAIMS}


def figure(id: str) -> type[FigureSpec]:
    """Return the figure with this id."""
    if id not in FIGURES:
        padded = re.sub(r"fig(\d)(?!\d)", r"fig0\1", id)  # fig4 is meant for fig04, not for fig14
        raise unknown("figure", id, [name for name in FIGURES if name.endswith(padded)] or FIGURES)
    return FIGURES[id]


def claims(ids: Iterable[str] = ()) -> list[Claim]:
    """Return the claims named by id or by a part of it up to a slash ("polarization"); all if none is named."""
    wanted = list(ids)
    for id in wanted:
        if not any(_under(claim, id) for claim in CLAIMS):
            raise unknown("claim", id, [*CLAIMS, *{claim.split("/")[0] for claim in CLAIMS}])
    return [claim for name, claim in CLAIMS.items() if not wanted or any(_under(name, id) for id in wanted)]


def _under(claim: str, id: str) -> bool:
    return claim == id or claim.startswith(f"{id}/")
