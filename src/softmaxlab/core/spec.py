"""Specs: frozen, validated when built, one canonical JSON, one content key.

`Record` is any validated value with a kind (a prior, a task, a model); `Spec` is a record that can be simulated.
The content key is a hash of the canonical JSON, the version of the engine behind it and the source of every
user-registered name in it, so the same key means the same numbers.
"""

import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Self, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.fields import FieldInfo

from softmaxlab.core import plugins, source
from softmaxlab.core.arrays import encode
from softmaxlab.core.cost import Cost
from softmaxlab.core.documents import parse_json
from softmaxlab.core.messages import one_line, user_code_error
from softmaxlab.core.registry import Named, Registry, source_hash
from softmaxlab.errors import SpecError, unknown

LABORATORIES = ("attention", "polarization", "specialization", "training", "probing")
KEY_LENGTH = 24  # hex digits = 96 bits: a collision among 1e9 results has probability 6e-12


Seed = Annotated[int, Field(ge=0, lt=2**63)]  # what every generator takes, torch's being a signed 64-bit number
ADDED_LATER = "added_later"


def added_later(default: Any) -> Any:
    """A field that older specs do not have: at its default it is not in the JSON, so their keys stay as they were."""
    return Field(default=default, json_schema_extra={ADDED_LATER: True})


def _added_later(field: FieldInfo) -> bool:
    return isinstance(field.json_schema_extra, dict) and ADDED_LATER in field.json_schema_extra


class Record(BaseModel):
    """A frozen, validated value. Fields may be given by position, in order, or by name."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        validate_default=True,
    )
    kind: ClassVar[str] = ""
    kinds: ClassVar[dict[str, type["Record"]]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        parts = cls.__module__.split(".")
        if parts[0] == source.PACKAGE:
            # the folders inside a laboratory do not count: polarization/flow/flow.py has polarization.Flow
            parts = parts[1:2] if parts[1] in LABORATORIES else parts[1:-1]
        cls.kind = ".".join([*parts, cls.__name__])
        known = Record.kinds.setdefault(cls.kind, cls)
        if known.__module__ != cls.__module__:
            raise TypeError(f"kind {cls.kind!r} is taken by {known.__module__}, name the class otherwise")
        Record.kinds[cls.kind] = cls

    def __init__(self, /, *values: Any, **fields: Any):
        names = list(type(self).model_fields)
        if len(values) > len(names):
            raise SpecError(f"{type(self).__name__} takes at most {len(names)} values, got {len(values)}")
        by_position = dict(zip(names, values))
        if twice := by_position.keys() & fields.keys():
            raise SpecError(f"{type(self).__name__}.{twice.pop()} is given twice, by position and by name")
        try:
            super().__init__(**by_position, **fields)
        except ValidationError as error:
            raise user_code_error(error) or SpecError(one_line(error, type(self))) from None

    @model_validator(mode="wrap")
    @classmethod
    def _of_kind(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Build the class that a plain dict names by its kind, so a field may hold any leaf of a family."""
        if not isinstance(value, dict):
            return handler(value)
        fields = {name: _strict_plain(item) for name, item in value.items()}
        named = _class_of(fields.pop("kind")) if "kind" in fields else cls
        if named is cls:
            return handler(fields)
        if not issubclass(named, cls):
            raise ValueError(f"must be a {cls.__name__}, got a {named.__name__}")
        return named(**fields)

    def plain(self) -> dict:
        """The record as JSON-ready values, kind included. Fields `added_later` are left out at their default."""
        fields = type(self).model_fields.items()
        shown = [name for name, field in fields if not _added_later(field) or getattr(self, name) != field.default]
        return {"kind": self.kind} | {name: _plain(getattr(self, name)) for name in shown}

    def json_text(self) -> str:
        """The canonical JSON: sorted keys, no spaces, shortest exact floats."""
        return json.dumps(self.plain(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def replace(self, /, **changes: Any) -> Self:
        """A copy with some fields changed; a dotted name reaches into a nested record: `{"task.vocab": 81}`."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        for path, value in changes.items():
            head, _, rest = path.partition(".")
            if head not in fields:
                raise unknown(f"field of {type(self).__name__}", head, fields)
            if rest and not isinstance(fields[head], Record):
                raise SpecError(f"{type(self).__name__}.{head} has no fields of its own, so {path!r} cannot be set")
            fields[head] = fields[head].replace(**{rest: value}) if rest else value
        return type(self)(**fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.json_text() == other.json_text()

    def __hash__(self) -> int:
        return hash(self.json_text())


class Spec(Record):
    """A record that can be simulated: `_run` computes its result. Raise `version` when its numbers change."""

    version: ClassVar[int] = 1

    @property
    def key(self) -> str:
        """The content key: the same in every process and Python version."""
        content = [self.version, self.json_text(), sorted(set(_fingerprints(self)))]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:KEY_LENGTH]

    def estimate(self) -> Cost:
        """The cost of computing the spec. A spec of one's own that does not say is taken for a cheap one."""
        return Cost()

    def _run(self, device: str) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no engine")


def from_plain(value: Any) -> Spec:
    """The spec that `plain` describes. Anything malformed raises SpecError."""
    if not isinstance(value, dict) or "kind" not in value:
        raise SpecError(f"a spec is a JSON object with a 'kind', got {type(value).__name__}")
    fields = dict(value)
    named = _class_of(fields.pop("kind"))
    if not issubclass(named, Spec) or named._run is Spec._run:
        raise SpecError(f"kind {named.kind!r} cannot be simulated, it is a part or a family of specs")
    return named(**fields)


def from_json(text: str) -> Spec:
    """The spec that a JSON text describes."""
    try:
        return from_plain(parse_json(text, "a spec's JSON", _refuse_constant, _once_each))
    except ValueError as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"not a JSON document: {error}") from None


def _refuse_constant(name: str) -> None:
    raise SpecError(f"a spec holds finite numbers only, got {name}")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise SpecError(f"field {twice!r} is given twice")
    return fields


def _class_of(kind: Any) -> type[Record]:
    """The class a kind names; its laboratory, or the plugin that defines it, is imported if need be."""
    if not isinstance(kind, str):
        raise SpecError(f"a kind is a name, got {kind!r}")
    if kind not in Record.kinds and kind.split(".")[0] in HOMES:
        _import_home(kind)
    if kind not in Record.kinds:
        plugins.load_remembered()
    if kind not in Record.kinds:
        raise unknown("kind", kind, (known for known in Record.kinds if _is_leaf(known)))
    return Record.kinds[kind]


# A kind read from a file may cause modules to be imported in these folders only.
HOMES = (*LABORATORIES, "papers", "studies")


def _import_home(kind: str) -> None:
    """Import the file that defines the class of a kind; if there is none, all beside it, so that a near miss is known.

    "polarization.Flow" is the class Flow in a file below softmaxlab/polarization.
    """
    package, _, name = f"{source.PACKAGE}.{kind}".rpartition(".")
    files = source.modules_in(package, below=kind.split(".")[0] in LABORATORIES)
    for file in [file for file in files if source.defines_class(file, name)] or files:
        importlib.import_module(file)


def _is_leaf(kind: str) -> bool:
    return not Record.kinds[kind].__subclasses__()


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.plain()
    if isinstance(value, np.ndarray):
        return encode(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _strict_plain(value: Any) -> Any:
    """JSON lists as tuples, NumPy scalars as Python's, -0.0 as 0.0: one value per thing for strict validation."""
    if isinstance(value, (list, tuple)):
        return tuple(_strict_plain(item) for item in value)
    value = value.item() if isinstance(value, np.generic) else value
    return value + 0.0 if isinstance(value, float) else value


def _fingerprints(record: Record) -> Iterator[str]:
    """Hashes of all user code behind a record: its class, and the registered names in it."""
    for family in type(record).__mro__:
        if family.__module__.split(".")[0] in ("softmaxlab", "pydantic", "builtins"):
            continue
        fingerprint = source_hash(family)
        if fingerprint is None:
            raise SpecError(f"{family.__name__} has no readable source to key its results; define it in a module")
        yield fingerprint
    for inner in _records_in(record):
        yield from _fingerprints(inner)
    for registry, name in _registered_in(record):
        if fingerprint := registry.fingerprint(name):
            yield fingerprint


def plugins_of(record: Record) -> set[str]:
    """The modules of the user's that a record needs: that of its class, and those of the registered names in it."""
    modules = {registry.module(name) for registry, name in _registered_in(record)} | {type(record).__module__}
    own = {module for module in modules if module.split(".")[0] != source.PACKAGE}
    return own.union(*(plugins_of(inner) for inner in _records_in(record)))


def _records_in(record: Record) -> list[Record]:
    return [value for name in type(record).model_fields if isinstance(value := getattr(record, name), Record)]


def _registered_in(record: Record) -> Iterator[tuple[Registry, str]]:
    """The registered names in a record's own fields."""
    for name, field in type(record).model_fields.items():
        value = getattr(record, name)
        for registry in _registries(field.annotation, field.metadata):
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, str):
                    yield registry, item


def _registries(annotation: Any, notes: Iterable[Any]) -> Iterator[Registry]:
    """The registries that a field's names come from, also inside `tuple[Name, ...]` and `Name | None`."""
    yield from (note.registry for note in notes if isinstance(note, Named))
    for inner in get_args(annotation):
        yield from _registries(inner, getattr(inner, "__metadata__", ()))
