"""Stored findings that take minutes: one JSON file per claim, in the folder `data/refined` of the judge's paper.

A record holds a digest of what it was computed from: the source of the judge and of all functions, classes and
constants of the papers' modules that it uses, and the subject. A record of another digest is stale: it does not count.
Comments, docstrings, layout and the names of local variables compute nothing and are not part of the digest.
The engines are not part of the digest: their numbers are held by reference tables in the tests.
"""

import ast
import functools
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from softmaxlab.core.files import atomic
from softmaxlab.core.spec import Spec
from softmaxlab.papers.evidence import Evidence, Finding, Level, Verdict

FOLDER = Path("data", "refined")
PLUMBING = ("softmaxlab.papers.evidence", "softmaxlab.papers.claim")  # what every judge uses, and none computes with
Judge = Callable[[Any], Finding]


@dataclass(frozen=True)
class Record:
    """A finding, with what it was computed from, by which command and when."""

    verdict: str
    measured: str
    evidence: dict[str, Any]
    digest: str
    command: str
    date: str  # "2026-11-18"
    seconds: float  # of the processor
    lacking: str = ""

    @property
    def finding(self) -> Finding:
        return Finding(Verdict(self.verdict), self.measured, self.lacking)

    @property
    def effort(self) -> Evidence:
        return Evidence(**self.evidence)


def _package_folder(judge: Judge) -> Path:
    """Return the folder of the judge's paper, or of the module of a plugin."""
    folder = Path(inspect.getfile(_function(judge))).parent
    return folder.parent if folder.name == "claims" else folder


def path_of(id: str, judge: Judge) -> Path:
    return _package_folder(judge) / FOLDER / f"{id.split('/', 1)[-1]}.json"


def read(id: str, judge: Judge) -> dict[Level, Record]:
    """The stored findings of a claim by level; none if there is no file."""
    path = path_of(id, judge)
    if not path.is_file():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {level: Record(**record) for level, record in stored["findings"].items()}


def write(id: str, judge: Judge, records: Mapping[Level, Record]) -> Path:
    path = path_of(id, judge)
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = {"claim": id, "findings": {level: asdict(record) for level, record in records.items()}}
    with atomic(path) as draft:
        draft.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def digest(judge: Callable[[Any], object], subject: Any) -> str:
    """Return the digest of the judge's source, of all that it uses in its own package, and of the subject."""
    text = "\n".join([*sorted(_sources(judge, {})), _told(judge), _told(subject)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _function(judge: Any) -> Any:
    while isinstance(judge, functools.partial):
        judge = judge.func
    return inspect.unwrap(judge)


def _sources(used: Any, seen: dict[str, str]) -> list[str]:
    """The sources of a function or class and of those that it names in the papers' modules; constants as values."""
    used = _function(used)
    name = f"{used.__module__}.{used.__qualname__}"
    if name in seen:
        return []
    seen[name] = ast.unparse(_Computing().visit(ast.parse(textwrap.dedent(inspect.getsource(used)))))
    module = inspect.getmodule(used)
    for word in {word for code in _codes(used) for word in code.co_names}:
        value = vars(module).get(word)
        if inspect.isfunction(_unwrapped(value)) or inspect.isclass(value):
            home = _unwrapped(value).__module__
            if home not in PLUMBING and _home(home) == _home(used.__module__):
                _sources(value, seen)
        elif value is not None and not inspect.ismodule(value) and not word.startswith("__"):
            seen[f"{module}.{word}"] = f"{word} = {_told(value)}"
    return list(seen.values())


class _Computing(ast.NodeTransformer):
    """Removes docstrings, and numbers the local variables of each function in the order in which they are bound."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        _drop_docstring(node)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        inside = list(ast.walk(node))
        for part in inside:
            if isinstance(part, ast.FunctionDef | ast.ClassDef):
                _drop_docstring(part)
        fixed = {part.arg for part in inside if isinstance(part, ast.arg)}
        fixed |= {name for part in inside if isinstance(part, ast.Global | ast.Nonlocal) for name in part.names}
        names = [part for part in inside if isinstance(part, ast.Name)]
        bound = [name.id for name in names if isinstance(name.ctx, ast.Store) and name.id not in fixed]
        numbers = {name: f"local{i}" for i, name in enumerate(dict.fromkeys(bound))}
        for name in names:
            name.id = numbers.get(name.id, name.id)
        return node


def _drop_docstring(node: ast.FunctionDef | ast.ClassDef) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]


def _unwrapped(value: Any) -> Any:
    return inspect.unwrap(value) if callable(value) and not isinstance(value, functools.partial) else value


def _home(module: str) -> str:
    """The package of papers or, of a plugin, its module."""
    return "softmaxlab.papers" if module.startswith(("softmaxlab.papers.", "softmaxlab.studies.")) else module


def _codes(used: Any) -> Iterator[CodeType]:
    """The code objects of a function, or of a class's methods, with those nested in them."""
    functions = vars(used).values() if inspect.isclass(used) else [used]
    todo = [f.__code__ for f in map(_plain_function, functions) if f is not None]
    while todo:
        code = todo.pop()
        yield code
        todo += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _plain_function(value: Any) -> Any:
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, staticmethod | classmethod):
        value = value.__func__
    return value if inspect.isfunction(value) else None


def _told(value: Any) -> str:
    """A value in words that are the same in every process."""
    if isinstance(value, Spec):
        return value.key
    if isinstance(value, functools.partial):
        return f"{_told(value.func)}{_told(value.args)}{_told(value.keywords)}"
    if inspect.isroutine(value) or inspect.isclass(value):
        return value.__qualname__  # where it is kept is not what it computes
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_told(k)}: {_told(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(_told, value)) + ")"
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    return type(value).__name__ if " at 0x" in repr(value) else repr(value)
