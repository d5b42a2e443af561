"""All attention maps by name: those in the files of `maps`, and those that a user registers."""

import importlib
import pkgutil
from collections.abc import Callable
from functools import partial
from typing import Any

from softmaxlab.attention import maps
from softmaxlab.attention.map import FACTS, NORMALISERS, Map, Normalise, parameters_of
from softmaxlab.core.registry import Registry, numbers_of, required_of
from softmaxlab.errors import SpecError, unknown

MAPS: Registry[Map] = Registry("map")
for _file in pkgutil.iter_modules(maps.__path__, f"{maps.__name__}."):
    for _map in importlib.import_module(_file.name).MAPS:
        MAPS.add(_map.name, _map)


def names() -> tuple[str, ...]:
    """The names of all registered maps."""
    return MAPS.names()


def register(
    function: Callable | None = None, /, *, name: str | None = None, normalise: Normalise = "none", **facts: Any
):
    """Make a map of your own function, under its own name: `@sl.attention.register`.

    The function is elementwise, `f(scores)`, or acts on rows, `f(scores, visible)`; with a parameter `bias` it takes
    the per-head bias. Parameters with a number as default can be given with the name: `f(scores, exponent=2.0)` is also
    "f:3". `normalise` ("none", "sum" or "bounded") and FACTS may be given:
    `@sl.attention.register(normalise="sum", non_negative=True)`.
    """
    if normalise not in NORMALISERS:
        raise unknown("normaliser", normalise, NORMALISERS)
    for fact, value in facts.items():
        if fact not in FACTS:
            raise unknown("fact of a map", fact, FACTS)
        if not isinstance(value, bool):
            raise SpecError(f"fact {fact!r} of a map is True or False, got {value!r}")

    def add(f: Callable) -> Callable:
        takes = parameters_of(f)
        if "visible" in takes and normalise != "none":
            raise SpecError(f"a map of rows, f(scores, visible), normalises by itself, got normalise={normalise!r}")
        if other := [p for p in required_of(f)[1:] if p not in ("visible", "bias")]:
            raise SpecError(
                f"a map is a function of the scores, then any of visible, bias and numbers with a default "
                f"(exponent=2.0), got {f.__name__} with {other[0]!r}, which has none"
            )
        title = name or f.__name__
        learnable = ("bias",) if "bias" in takes else ()
        numbers = numbers_of(f, ("scores", "visible", "bias"))

        def with_parameters(*values: float) -> Map:
            set_to = partial(f, **dict(zip(numbers, values)))
            return Map(":".join([title, *(f"{v:g}" for v in values)]), set_to, normalise, parameters=learnable, **facts)

        own = Map(title, f, normalise, parameters=learnable, **facts)
        MAPS.add(title, own, defined_by=f, parameters=numbers, with_parameters=with_parameters)
        return f

    return add if function is None else add(function)
