"""A user's own modules: imported by `--plugin`, and found again by every worker process.

The list travels in the environment, so a spawned process knows it without being told. Installed packages name theirs as
entry points of the group `softmaxlab.plugins`.
"""

import contextlib
import functools
import importlib
import logging
import os
import sys
from importlib.metadata import entry_points
from types import ModuleType

from softmaxlab.errors import SpecError

log = logging.getLogger(__name__)
VARIABLE = "SOFTMAXLAB_PLUGINS"
GROUP = "softmaxlab.plugins"  # of entry points


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
    _import(module)
    remember(module)


def _import(module: str) -> None:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            importlib.import_module(module)
    except (Exception, SystemExit) as error:  # it is the user's code: it may do anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise SpecError(f"plugin {module!r} cannot be imported: {reason}") from error


def load_remembered() -> None:
    """Import every plugin that is not yet imported; one of an installed package that fails is left out and named."""
    for module in remembered():
        if module not in sys.modules:
            load(module)
    _load_installed()


@functools.cache
def _load_installed() -> tuple[str, ...]:
    """Import the plugins of installed packages, once in a process; their names."""
    loaded = []
    for point in entry_points(group=GROUP):
        try:
            _import(point.module)
            loaded.append(point.module)
        except SpecError as error:
            log.warning("%s", error)
    return tuple(loaded)


def modules() -> list[ModuleType]:
    """Return the modules of the user: plugins, and the program or notebook itself."""
    load_remembered()
    names = dict.fromkeys([*remembered(), *_load_installed(), "__main__"])
    return [sys.modules[name] for name in names if name in sys.modules]
