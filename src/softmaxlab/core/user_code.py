"""Report what goes wrong in a user's own code with the plugin, the function and the line."""

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from softmaxlab.core import plugins
from softmaxlab.errors import UserCodeError


@contextlib.contextmanager
def naming_user_code(*more: Path) -> Iterator[None]:
    """Errors raised inside from a frame of a plugin, or of the files `more`, become UserCodeError."""
    try:
        yield
    except UserCodeError:
        raise
    except Exception as error:
        if place := place_of(error, *more):
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UserCodeError(f"{place}: {reason}") from error
        raise


def place_of(error: BaseException, *more: Path) -> str | None:
    """'plugin NAME, function NAME, line N' of the last frame of a user's in the traceback; None if there is none."""
    theirs = {str(file.resolve()): file.stem for file in more} | _files_of_plugins()
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if name := theirs.get(os.path.realpath(frame.f_code.co_filename)):
            return f"plugin {name!r}, function {frame.f_code.co_name}, line {line}"
    return None


def place_of_function(function: Callable) -> str:
    """The same of a function whose value is refused: the line is where it begins."""
    code = getattr(function, "__code__", None)
    where = f", line {code.co_firstlineno}" if code is not None else ""
    return f"plugin {function.__module__!r}, function {getattr(function, '__name__', function)}{where}"


def _files_of_plugins() -> dict[str, str]:
    """File → module, of plugins and of what lies in their packages."""
    tops = {name.partition(".")[0] for name in plugins.remembered()}
    modules = [(name, getattr(module, "__file__", None)) for name, module in [*sys.modules.items()]]
    return {os.path.realpath(file): name for name, file in modules if file and name.partition(".")[0] in tops}
