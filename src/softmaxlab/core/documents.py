"""JSON from outside: read with a limit on how deeply it is nested, and written without NaN, which JSON has not."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from softmaxlab.errors import SpecError

DEEPEST = 64  # levels: a spec needs six, and Python's own recursion ends at some hundreds


def parse_json(
    text: str | bytes, what: str, constant: Callable[[str], Any] | None = None, pairs: Callable | None = None
) -> Any:
    """The value of a JSON text; ValueError if it is not JSON, SpecError on `what` if it is nested too deeply."""
    try:
        value = json.loads(text, parse_constant=constant, object_pairs_hook=pairs)
    except RecursionError:
        raise _too_deep(what) from None
    level, depth = [value], 0
    while level := [item for each in level if isinstance(each, (list, dict)) for item in _items(each)]:
        if (depth := depth + 1) > DEEPEST:
            raise _too_deep(what)
    return value


def jsonable(value: Any) -> Any:
    """The value with null for NaN and ∞."""
    if isinstance(value, dict):
        return {name: jsonable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def user_folder(option: str, text: str) -> Path:
    """The path that was given for `option`, ~ being a home folder."""
    try:
        path = Path(text).expanduser()
        path.exists()
    except RuntimeError:
        raise SpecError(f"{option} {text!r}: there is no such user's home folder") from None
    except OSError as error:
        raise SpecError(f"{option} {text!r} cannot be a path: {error.strerror}") from None
    return path


def _items(value: list | dict) -> Any:
    return value if isinstance(value, list) else value.values()


def _too_deep(what: str) -> SpecError:
    return SpecError(f"{what} is nested too deeply, expected at most {DEEPEST} levels")
