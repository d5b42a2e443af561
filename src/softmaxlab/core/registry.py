"""Named things a spec can refer to (maps, losses, priors, tasks), built in or registered by a user.

A user's entry carries the hash of its source, which enters the content key of every spec that names it:
a changed map is a different experiment.

An entry may have parameters, which are numbers behind its name: "focal:2", "power:3:0.5".
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from softmaxlab.core import plugins, source
from softmaxlab.errors import SpecError, unknown

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Name → entry, in the order of registration. `kind` is the word used in messages ("map", "loss", …)."""

    def __init__(self, kind: str):
        self.kind = kind
        self._entries: dict[str, Entry] = {}
        self._fingerprints: dict[str, str | None] = {}
        self._modules: dict[str, str] = {}
        self._with: dict[str, tuple[tuple[str, ...], Callable[..., Entry]]] = {}

    def add(
        self,
        name: str,
        entry: Entry,
        defined_by: Callable | None = None,
        parameters: Sequence[str] = (),
        with_parameters: Callable[..., Entry] | None = None,
    ) -> Entry:
        """Register an entry. `defined_by` is the user's function or class; None marks a built-in.

        `with_parameters(*numbers)` gives the entry for other values of its `parameters`.
        """
        if not name.isidentifier():
            raise SpecError(f"a {self.kind} needs a name that is a Python identifier, got {name!r}")
        if defined_by is not None and not (inspect.isfunction(defined_by) or inspect.isclass(defined_by)):
            # anything else carries state that its source does not show
            raise SpecError(f"a {self.kind} is registered as a function of your own, got {defined_by!r}")
        home = source.PACKAGE if defined_by is None else defined_by.__module__
        if self._modules.get(name, home) != home or (name in self._entries and defined_by is None):
            raise SpecError(f"{self.kind} {name!r} is registered already, by {self._modules[name]}")
        self._entries[name], self._modules[name] = entry, home
        self._fingerprints[name] = "" if defined_by is None else source_hash(defined_by)
        self._with.pop(name, None)
        if with_parameters is not None and parameters:
            self._with[name] = tuple(parameters), with_parameters
        if defined_by is not None:
            plugins.remember(home)
        return entry

    def names(self) -> tuple[str, ...]:
        plugins.load_remembered()
        return tuple(self._entries)

    def __getitem__(self, name: str) -> Entry:
        known = self.names()
        base, *texts = name.split(":") if isinstance(name, str) else (name,)
        if base not in known:
            raise unknown(self.kind, base, self._entries)
        if not texts:
            return self._entries[base]
        parameters, build = self._with.get(base, ((), None))
        if build is None or len(texts) > len(parameters):
            takes = f"the parameters {', '.join(parameters)}" if parameters else "no parameters"
            raise SpecError(f"{self.kind} {base!r} has {takes}, got {name!r}")
        try:
            return build(*(float(text) for text in texts))
        except ValueError:
            raise SpecError(f"{self.kind} {name!r}: a parameter must be a number, as in '{base}:2'") from None

    def parameters(self, name: str) -> tuple[str, ...]:
        """The names of the numbers that may stand behind an entry's name."""
        base = name.partition(":")[0]
        self[base]
        return self._with[base][0] if base in self._with else ()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def own(self) -> tuple[str, ...]:
        """The names that a user registered."""
        return tuple(name for name in self.names() if self._modules[name] != source.PACKAGE)

    def module(self, name: str) -> str:
        """The module that registered an entry."""
        self[name]
        return self._modules[name.partition(":")[0]]

    def fingerprint(self, name: str) -> str:
        """Hash of a user entry's source; empty for a built-in."""
        self[name]
        fingerprint = self._fingerprints[name.partition(":")[0]]
        if fingerprint is None:
            raise SpecError(
                f"{self.kind} {name!r} cannot be keyed by its source, which cannot be read or does not show the values "
                "that it closes over; define it at the top of a module"
            )
        return fingerprint


def numbers_of(function: Callable, fixed: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a function's parameters that have a number as default, those called `fixed` left out.

    What shows no signature, as a built-in of torch, has none; `add` refuses it.
    """
    try:
        given = inspect.signature(function).parameters.values()
    except ValueError:
        return ()
    return tuple(p.name for p in given if p.name not in fixed and isinstance(p.default, (int, float)))


def required_of(function: Callable) -> tuple[str, ...]:
    """Return the names of a function's parameters that have no default; of what shows no signature, none."""
    try:
        given = inspect.signature(function).parameters.values()
    except ValueError:
        return ()
    return tuple(p.name for p in given if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def source_hash(thing: Callable | type) -> str | None:
    """Hash of the module file that defines `thing` (helpers beside it count), or of its own source in a notebook.

    None where no source can be read, and for a closure, whose values no source shows.
    """
    if getattr(thing, "__closure__", None):
        return None
    file = getattr(sys.modules.get(thing.__module__), "__file__", None)
    try:
        source = Path(file).read_bytes() if file else inspect.getsource(thing).encode()
    except (OSError, TypeError):
        return None
    return hashlib.sha256(source).hexdigest()


class Named:
    """Annotation of a spec field that holds a registered name: `map: Annotated[str, Named(MAPS)]`."""

    def __init__(self, registry: Registry):
        self.registry = registry

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._known, handler(source))

    def _known(self, name: str) -> str:
        self.registry[name]
        return name
