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


def imported(path: Path) -> set[str]:
    """Every module a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import, which this test cannot follow"
            found.add(node.module or "")
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


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


def edges_within(package: str, depth: int) -> dict[str, set[str]]:
    """Which parts of a package import which others; `depth` 1: its files and folders, 2: the files in folders too."""
    root = SOURCE / package
    modules = {".".join(p.relative_to(root).with_suffix("").parts): p for p in root.rglob("*.py")}
    edges: dict[str, set[str]] = {}
    for name, path in modules.items():
        start = ".".join(name.split(".")[:depth])
        names = {m.removeprefix(f"softmaxlab.{package}.") for m in imported(path) if m.startswith("softmaxlab.")}
        targets = {".".join(m.split(".")[:depth]) for m in names if m in modules}
        if start != "__init__":
            edges.setdefault(start, set()).update(targets - {start})
    return edges


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("package", ["probing", "measure"])
def test_a_package_has_no_import_cycle(package, depth):
    assert cycle(edges_within(package, depth)) == []


def test_an_import_cycle_is_noticed():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert edges_within("probing", 1)["session"] >= {"streaming", "swap", "interventions", "report"}
