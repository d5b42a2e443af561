"""Constants read from source files without importing them, so that a listing costs no import of torch.

Evaluated are literals, names (also imported from softmaxlab's own modules), attributes of classes and modules, + | * **
and f-strings, `partial`, and calls of dataclasses and of functions that only name values and return one. Anything else
is UNKNOWN, which is no error unless a caller needs the value.
"""

import ast
import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = "softmaxlab"
ROOT = Path(__file__).parents[1]
UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "UNKNOWN"})()
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.BitOr: operator.or_,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True)
class Function:
    """A function, or a partial application of a function or class, that can be called without running any code."""

    of: "Class | ast.FunctionDef"
    module: "Module"
    positional: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Instance:
    """A call of a dataclass: its fields by name, those that are not given at their default."""

    of: str
    fields: Mapping[str, Any]


class Class:
    """A class statement: its attributes, own and inherited."""

    def __init__(self, node: ast.ClassDef, module: "Module"):
        self.name, self.module, self._node = node.name, module, node
        self._own = dict(_assignments(node.body))

    def owns(self, attribute: str) -> bool:
        return attribute in self._own

    def bases(self) -> "list[Class]":
        values = (self.module.value(base) for base in self._node.bases)
        return [base for base in values if isinstance(base, Class)]

    def __getitem__(self, attribute: str) -> Any:
        """The attribute's value, UNKNOWN if neither the class nor a base of ours gives one."""
        if attribute in self._own:
            return self.module.value(self._own[attribute])
        values = (base[attribute] for base in self.bases())
        return next((value for value in values if value is not UNKNOWN), UNKNOWN)

    def fields(self) -> dict[str, Any]:
        """The fields of a dataclass with their defaults, in order."""
        named = [
            n.target.id for n in self._node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
        ]
        return {name: self[name] if name in self._own else UNKNOWN for name in named}


class Module:
    """The top level of a source file. Its values are evaluated when they are needed."""

    def __init__(self, name: str, path: Path):
        self.name, self.path = name, path
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self._nodes: dict[str, ast.AST] = dict(_assignments(tree.body))
        self._nodes |= {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        self._imported = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        self._values: dict[str, Any] = {}

    def classes(self) -> Iterator[Class]:
        """The classes that the file defines, in its order."""
        for name, node in self._nodes.items():
            if isinstance(node, ast.ClassDef):
                yield self[name]

    def __contains__(self, name: str) -> bool:
        return name in self._nodes or name in self._imported

    def __getitem__(self, name: str) -> Any:
        """The value of a name at the file's top level."""
        if name not in self._values:
            self._values[name] = UNKNOWN  # while it is evaluated: a value that needs itself is not known
            self._values[name] = self._find(name)
        return self._values[name]

    def _find(self, name: str) -> Any:
        node = self._nodes.get(name)
        if isinstance(node, ast.ClassDef):
            return Class(node, self)
        if isinstance(node, ast.FunctionDef):
            return Function(node, self)
        if isinstance(node, ast.expr):
            return self.value(node)
        home, original = self._imported.get(name, ("", ""))
        if (home, original) == ("functools", "partial"):
            return functools.partial
        if home.split(".")[0] != PACKAGE:
            return UNKNOWN
        if (inner := module(f"{home}.{original}")) is not None:
            return inner
        outer = module(home)
        return UNKNOWN if outer is None else outer[original]

    def value(self, node: ast.AST, local: Mapping[str, Any] | None = None) -> Any:
        """The value of an expression, with a function's arguments as `local` names."""
        evaluate = functools.partial(self.value, local=local)
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return local[node.id] if local and node.id in local else self[node.id]
            case ast.Attribute():
                owner = evaluate(node.value)
                return owner[node.attr] if isinstance(owner, Class | Module) else UNKNOWN
            case ast.Tuple() | ast.List():
                return self._items(node.elts, local)
            case ast.Dict():
                return self._dict(node, local)
            case ast.JoinedStr():
                parts = [evaluate(part) for part in node.values]
                return UNKNOWN if UNKNOWN in parts else "".join(map(str, parts))
            case ast.FormattedValue():
                value, spec = evaluate(node.value), evaluate(node.format_spec) if node.format_spec else ""
                return UNKNOWN if UNKNOWN in (value, spec) else format(value, spec)
            case ast.UnaryOp(op=ast.USub()):
                value = evaluate(node.operand)
                return -value if isinstance(value, int | float) else UNKNOWN
            case ast.BinOp():
                sides = evaluate(node.left), evaluate(node.right)
                work = OPERATORS.get(type(node.op))
                return UNKNOWN if work is None or UNKNOWN in sides else work(*sides)
            case ast.Call():
                return self._call(node, local)
        return UNKNOWN

    def _items(self, nodes: list[ast.expr], local: Mapping[str, Any] | None) -> Any:
        items: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.value(node.value, local)
                if not isinstance(inner, tuple):
                    return UNKNOWN
                items += inner
            else:
                items.append(self.value(node, local))
        return tuple(items)

    def _dict(self, node: ast.Dict, local: Mapping[str, Any] | None) -> Any:
        pairs: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            inner = self.value(value, local)
            if key is not None:
                pairs[self.value(key, local)] = inner
            elif isinstance(inner, dict):
                pairs |= inner
            else:
                return UNKNOWN
        return pairs

    def _call(self, node: ast.Call, local: Mapping[str, Any] | None) -> Any:
        called, positional = self.value(node.func, local), self._items(node.args, local)
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            inner = self.value(keyword.value, local)
            if keyword.arg is not None:
                named[keyword.arg] = inner
            elif isinstance(inner, dict):
                named |= inner
            else:
                return UNKNOWN
        if positional is UNKNOWN:
            return UNKNOWN
        if called is functools.partial:
            called, *positional = positional
            if isinstance(called, Class):
                called = Function(called, called.module)
            if not isinstance(called, Function):
                return UNKNOWN
            together = tuple((dict(called.named) | named).items())
            return Function(called.of, called.module, (*called.positional, *positional), together)
        if isinstance(called, Class):
            return _instance(called, positional, named)
        if isinstance(called, Function):
            positional, named = (*called.positional, *positional), dict(called.named) | named
            if isinstance(called.of, Class):
                return _instance(called.of, positional, named)
            return _returned(called.of, called.module, positional, named)
        return UNKNOWN


def _instance(of: Class, positional: tuple[Any, ...], named: dict[str, Any]) -> Instance:
    fields = of.fields()
    return Instance(of.name, fields | dict(zip(fields, positional)) | named)


def _returned(of: ast.FunctionDef, home: Module, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the value of a function that only gives names to values and returns an expression."""
    *steps, last = of.body[1:] if ast.get_docstring(of) else of.body
    if not isinstance(last, ast.Return) or last.value is None or not all(isinstance(s, ast.Assign) for s in steps):
        return UNKNOWN
    names = [argument.arg for argument in of.args.args]
    local = {argument.arg: UNKNOWN for argument in (*of.args.args, *of.args.kwonlyargs)}
    local |= {name: home.value(default) for name, default in zip(reversed(names), reversed(of.args.defaults))}
    for argument, default in zip(of.args.kwonlyargs, of.args.kw_defaults):
        local[argument.arg] = UNKNOWN if default is None else home.value(default)
    local |= dict(zip(names, positional))
    if of.args.vararg is not None:
        local[of.args.vararg.arg] = tuple(positional[len(names) :])
    if of.args.kwarg is not None:
        local[of.args.kwarg.arg] = {name: value for name, value in named.items() if name not in local}
    local |= {name: value for name, value in named.items() if name in local}
    for name, node in _assignments(steps):
        local[name] = home.value(node, local)
    return home.value(last.value, local)


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts)
                    yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))


@functools.cache
def module(name: str) -> Module | None:
    """The source of one of softmaxlab's modules by its dotted name; None if there is no such file."""
    file = _file(name)
    return Module(name, file) if file.is_file() else None


def defines_class(name: str, cls: str) -> bool:
    """Whether a module's file has the statement of a class."""
    return re.search(rf"^class {re.escape(cls)}\b", _file(name).read_text(encoding="utf-8"), re.MULTILINE) is not None


def modules_in(package: str, below: bool = False) -> list[str]:
    """The dotted names of the modules in a folder of softmaxlab (and in the folders `below` it), sorted.

    Modules whose names begin with _ are left out.
    """
    parts = package.split(".")[1:]
    if not all(part.isidentifier() for part in parts):
        return []
    files = ROOT.joinpath(*parts).glob("**/*.py" if below else "*.py")
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files if not file.stem.startswith("_"))
    return sorted(f"{PACKAGE}.{name}" for name in names)


def _file(name: str) -> Path:
    path = ROOT.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
