"""The state of a view: one frozen record, whose query string is its permalink."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, Self, TypeVar, cast, get_origin
from urllib.parse import parse_qsl, urlencode

from softmaxlab.core.spec import Record
from softmaxlab.errors import SpecError

LONGEST = 2000  # characters of a query string; the longest permalink has some 300

Function = TypeVar("Function", bound=Callable[..., Any])


class State(Record):
    """A view. Fields are words, numbers and tuples of numbers, so that they fit a query string."""

    @classmethod
    def from_query(cls, query: str) -> Self:
        """The view that a query string names; what it leaves out has its default."""
        query = query.removeprefix("?")
        if len(query) > LONGEST:
            raise SpecError(f"{cls.__name__}: a query string has at most {LONGEST} characters, got {len(query)}")
        pairs = parse_qsl(query, keep_blank_values=True)
        fields: dict[str, Any] = {}
        for name, text in pairs:
            if name in fields:
                raise SpecError(f"{cls.__name__}.{name} is given twice")
            field = cls.model_fields.get(name)
            fields[name] = text if field is None else _read(text, field.annotation)
        return cls(**fields)

    def query(self) -> str:
        """The permalink's query string: every field, also those that have their default."""
        fields = {name: _write(getattr(self, name)) for name in type(self).model_fields}
        return "?" + urlencode(fields, safe=",")


class Superseded(Exception):
    """A view that its tab has left, so that nobody waits for it."""


def remembered(function: Function) -> Function:
    """Keep the last answers: a view's pictures and its download ask for the same result."""
    return cast(Function, lru_cache(maxsize=64)(function))


def _read(text: str, kind: Any) -> Any:
    """A field's value; text that is no number is left for the record to refuse."""
    origin = get_origin(kind)
    if kind is str or origin is Literal:
        return text
    if origin is tuple:
        return tuple(_number(part) for part in text.split(","))
    return _number(text)


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _write(value: Any) -> str:
    return ",".join(_write(item) for item in value) if isinstance(value, tuple) else str(value)
