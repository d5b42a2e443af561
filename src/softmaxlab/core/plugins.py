"""A user's own modules: imported by `--plugin`, and found again by every worker process.

Their names and folders travel in the environment. The folders come last in `sys.path`, so a file in them that is named
like a library is never imported in its place, and workers look into no other folder of the user's. Installed packages
name their plugins as entry points of the group `softmaxlab.plugins`.
"""

import contextlib
import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from softmaxlab.errors import SpecError

log = logging.getLogger(__name__)
VARIABLE = "SOFTMAXLAB_PLUGINS"
GROUP = "softmaxlab.plugins"  # of entry points
FOLDERS = "SOFTMAXLAB_PLUGIN_FOLDERS"
PACKAGE = Path(__file__).parents[1]
_installed: tuple[str, ...] | None = None  # modules of entry points, once they are imported


def remembered() -> list[str]:
    return _listed(VARIABLE)


def remember(module: str) -> None:
    """Add a module that registers something. `__main__` is left out: a worker's `__main__` is another file."""
    if module == "__main__":
        return
    _add(VARIABLE, module)
    if folder := _folder_of(module):
        _add(FOLDERS, folder)


def load(module: str) -> None:
    """Import a plugin by name, from the current folder too. What it prints goes to stderr."""
    if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
        raise SpecError(
            f"a plugin is a module's dotted name, as mymodule for mymodule.py in the current folder, got {module!r}"
        )
    _load(module, [os.getcwd()])


def load_remembered() -> None:
    """Import every plugin that is not yet imported."""
    for module in remembered():
        if module not in sys.modules:
            _load(module, _listed(FOLDERS))
    _load_installed()


def _load_installed() -> tuple[str, ...]:
    """Import the plugins of installed packages, once in a process; one that fails is named and left out."""
    global _installed
    if _installed is not None:
        return _installed
    loaded = []
    for point in entry_points(group=GROUP):
        try:
            _import(point.module)
            loaded.append(point.module)
        except SpecError as error:
            log.warning("%s", error)
    _installed = tuple(loaded)
    return _installed


def modules() -> list[ModuleType]:
    """Return the modules of the user: plugins, and the program or notebook itself."""
    load_remembered()
    names = dict.fromkeys([*remembered(), *_load_installed(), "__main__"])
    return [sys.modules[name] for name in names if name in sys.modules]


def worker_environment() -> dict[str, str]:
    """Environment variables of a worker process: where its libraries are, and that no other folder is looked into.

    The current folder is left out, unless PYTHONPATH names it or softmaxlab itself is there.
    """
    given = [os.path.abspath(path) for path in _listed("PYTHONPATH")]
    own = {os.getcwd(), *_listed(FOLDERS)}
    wanted = {*given, str(PACKAGE.parent)}
    paths = [path for path in map(os.path.abspath, filter(None, sys.path)) if path in wanted or path not in own]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys([*paths, *given])), "PYTHONSAFEPATH": "1"}


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Keep processes that are started inside from importing from the current folder."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _load(module: str, folders: list[str]) -> None:
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    _refuse_namesake(module, folders)
    _import(module)
    remember(module)


def _import(module: str) -> None:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            importlib.import_module(module)
    except (Exception, SystemExit) as error:  # it is the user's code: it may do anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise SpecError(f"plugin {module!r} cannot be imported: {reason}") from error


def _refuse_namesake(module: str, folders: list[str]) -> None:
    """Refuse a plugin whose name is that of a library, which would be imported in its place."""
    top = module.partition(".")[0]
    own = PathFinder.find_spec(top, folders)
    if own is None or own.origin is None:
        return
    try:
        there = importlib.util.find_spec(top)
    except ValueError:  # of __main__, which has no spec
        return
    if there is not None and there.origin != own.origin:  # not inside: a SpecError is a ValueError
        raise SpecError(f"plugin {module!r} is named like the library at {there.origin}; rename {own.origin}")


def _folder_of(module: str) -> str | None:
    """The folder that the module's top-level package is imported from."""
    top = sys.modules.get(module.partition(".")[0])
    if file := getattr(top, "__file__", None):
        return os.path.abspath(Path(file).parent.parent if hasattr(top, "__path__") else Path(file).parent)
    paths = list(getattr(top, "__path__", ()))
    return os.path.abspath(Path(paths[0]).parent) if paths else None


def _listed(variable: str) -> list[str]:
    return [name for name in os.environ.get(variable, "").split(os.pathsep) if name]


def _add(variable: str, entry: str) -> None:
    if entry not in _listed(variable):
        os.environ[variable] = os.pathsep.join([*_listed(variable), entry])
