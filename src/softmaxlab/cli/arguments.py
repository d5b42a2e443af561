"""Find the argument that an error is about."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def option_of(error: OSError, arguments: Sequence[str]) -> str:
    """The option whose value is the path of an error, or begins it."""
    path = str(error.filename or "")
    given = ((option, str(Path(value))) for option, value in itertools.pairwise(arguments) if value)
    options = (option for option, value in given if path.startswith(value))
    option = next((option for option in options if option.startswith("--")), None)
    return "" if option is None else f"{option}: "


def value_of(error: Any, arguments: Sequence[str]) -> str:
    """The value given to the option that was refused, which typer does not tell."""
    options = getattr(getattr(error, "param", None), "opts", ())
    given = [after for option, after in itertools.pairwise(arguments) if option in options]
    given += [one.partition("=")[2] for one in arguments if "=" in one and one.partition("=")[0] in options]
    return f", got {given[-1]!r}" if given and given[-1] not in error.format_message() else ""
