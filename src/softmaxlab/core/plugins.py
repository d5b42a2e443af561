"""A user's own modules: imported by `--plugin`, and found again by every worker process.

The list travels in the environment, so a spawned process knows it without being told.
"""

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
    """Import a plugin by name, from the current folder too, as `python -m` would."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise SpecError(f"plugin {module!r} cannot be imported: {error}") from error
    remember(module)


def load_remembered() -> None:
    for module in remembered():
        if module not in sys.modules:
            load(module)
