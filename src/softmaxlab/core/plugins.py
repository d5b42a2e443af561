"""A user's own modules: imported by `--plugin`, and found again by every worker process.

The list travels in the environment, so a spawned process knows it without being told.
"""

import contextlib
import importlib
import os
import sys

from softmaxlab.errors import SpecError

VARIABLE = "SOFTMAXLAB_PLUGINS"


def remembered() -> list[str]:
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


def remember(module: str) -> None:
    """Add a module that registers something. `__main__` is left out: a worker's `__main__` is another file."""
    if module != "__main__" and module not in remembered():
        os.environ[VARIABLE] = os.pathsep.join([*remembered(), module])


def load(module: str) -> None:
    """Import a plugin by name, from the current folder too, as `python -m` would. What it prints goes to stderr."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise SpecError(f"a plugin is a module's dotted name, such as mymodule, got {module!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with contextlib.redirect_stdout(sys.stderr):
            importlib.import_module(module)
    except (Exception, SystemExit) as error:  # it is the user's code: it may do anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise SpecError(f"plugin {module!r} cannot be imported: {reason}") from error
    remember(module)


def load_remembered() -> None:
    for module in remembered():
        if module not in sys.modules:
            load(module)
