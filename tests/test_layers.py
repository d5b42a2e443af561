"""Imports point downward only."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "softmaxlab"
LABORATORIES = ("polarization", "specialization", "training", "probing")
# layer → the layers it may import from, besides itself
BELOW_PAPERS = {"core", "errors", "attention", "measure", *LABORATORIES}
MAY_IMPORT = {
    "errors": set(),
    "core": {"errors"},
    "attention": {"core", "errors"},
    "measure": {"core", "errors"},
    **{laboratory: {"core", "errors", "attention", "measure"} for laboratory in LABORATORIES},
    "training": {"core", "errors", "attention", "measure", "probing"},  # a language model with its map swapped in
    "plotting": BELOW_PAPERS,
    "papers": {*BELOW_PAPERS, "plotting"},
    "studies": {*BELOW_PAPERS, "plotting", "papers"},
    "report": {*BELOW_PAPERS, "plotting", "papers", "studies"},
    "app": {*BELOW_PAPERS, "plotting", "papers", "studies", "report"},
    "cli": {*BELOW_PAPERS, "plotting", "papers", "studies", "report", "app"},
}
PLOTTING = {"matplotlib", "plotly", "dash"}
FILES = sorted(p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or p.name == "errors.py")


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path, types: bool = True) -> set[str]:
    """Every module a file imports, at the top or inside a function; without `types`, none that only types need."""
    names = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING" and not types:
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import, which this test cannot follow"
            names.add(node.module or "")
            names |= {f"{node.module}.{name.name}" for name in node.names}
    return names


def violations(layer: str, modules: set[str]) -> set[str]:
    ours = {m.split(".")[1] for m in modules if m.startswith("softmaxlab.")} & MAY_IMPORT.keys()
    upward = ours - MAY_IMPORT[layer] - {layer}
    plots = {m.split(".")[0] for m in modules} & PLOTTING if layer in {*LABORATORIES, "core", "attention"} else set()
    return upward | plots


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_downward(path):
    assert violations(layer(path), imported(path)) == set()


def test_an_upward_import_is_noticed():
    assert violations("core", {"softmaxlab.attention.map"}) == {"attention"}
    assert violations("attention", {"softmaxlab.cli"}) == {"cli"}
    assert violations("polarization", {"matplotlib.figure"}) == {"matplotlib"}


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """Nodes of a cycle in a directed graph, in order; empty if there is none."""
    done: set[str] = set()

    def follow(node: str, path: list[str]) -> list[str]:
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return []
        for target in sorted(edges.get(node, ())):
            if loop := follow(target, [*path, node]):
                return loop
        done.add(node)
        return []

    return next((loop for node in sorted(edges) if (loop := follow(node, []))), [])


def edges_within(modules: dict[str, set[str]], package: str, depth: int) -> dict[str, set[str]]:
    """Which parts of a package import which others, at the top of a file or inside a function.

    `modules` maps each module to what it imports. `depth` 1: the package's files and folders, 2: files in folders too.
    A folder's `__init__` may import what is in the folder; importing the folder is importing its `__init__`.
    """

    def part(module: str) -> str:
        inside = module.removeprefix(f"{package}.").split(".")
        is_folder = len(inside) < depth and f"{module}.__init__" in modules
        return ".".join(inside[:depth]) + (".__init__" if is_folder else "")

    edges: dict[str, set[str]] = {}
    for module, targets in modules.items():
        if module.startswith(f"{package}.") and module != f"{package}.__init__":
            known = {t for t in targets if t.startswith(f"{package}.") and (t in modules or f"{t}.__init__" in modules)}
            edges.setdefault(part(module), set()).update(part(t) for t in known - {f"{package}.__init__"})
    return {start: targets - {start} for start, targets in edges.items()}


def named(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


MODULES = {named(path): imported(path, types=False) for path in FILES}
PACKAGES = sorted({named(path.parent) for path in FILES if path.parent != SOURCE})


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_no_import_cycle(package, depth):
    assert cycle(edges_within(MODULES, package, depth)) == []


def test_an_import_cycle_is_noticed(tmp_path):
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert edges_within(MODULES, "softmaxlab.probing", 1)["session"] >= {"streaming", "swap", "interventions", "report"}
    # a cycle hidden by an import in a function, and one that goes through a folder's __init__
    hidden = tmp_path / "hidden.py"
    hidden.write_text("def f():\n    from softmaxlab.core.result import Result\n    return Result\n")
    for name, package in (("core.files", "core"), ("core.spec", "core")):
        made = MODULES | {f"softmaxlab.{name}": MODULES[f"softmaxlab.{name}"] | imported(hidden)}
        assert "result" in cycle(edges_within(made, f"softmaxlab.{package}", 1))
    field = "softmaxlab.polarization.flow.field"
    through = MODULES | {field: MODULES[field] | {"softmaxlab.polarization.flow", "softmaxlab.polarization.flow.Flow"}}
    assert cycle(edges_within(through, "softmaxlab.polarization", 2)) != []
