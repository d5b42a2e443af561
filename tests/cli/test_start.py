"""Listings, citations and misspelt ids import nothing heavy; commands are short and leave the work to the library."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import softmaxlab

SOURCE = Path(softmaxlab.__file__).parent
HEAVY = ("torch", "numpy", "scipy", "pandas", "matplotlib", "xarray", "numba")
LONGEST = 150  # lines of a command
STATISTICS = {"numpy", "scipy", "statistics"}

PROGRAM = """
import contextlib, io, json, sys
from softmaxlab.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(json.loads(sys.argv[1]))
print(json.dumps(sorted(set(json.loads(sys.argv[2])) & set(sys.modules))))
"""


def imported_by(*arguments: str) -> list[str]:
    """Which of the heavy modules a command imports."""
    program = [sys.executable, "-c", PROGRAM, json.dumps(arguments), json.dumps(HEAVY)]
    return json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("list", "claims"), ("list", "maps"), ("cite", "polarization/fig02"), ("run", "polarization/fig2x"),
     ("check", "polarization/nosuch"), ("cite", "nosuch")],
)  # fmt: skip
def test_nothing_heavy_is_imported(arguments):
    assert imported_by(*arguments) == []


def test_a_figure_does_import_what_it_needs():
    assert "torch" in imported_by("run", "attention/maps", "--set", "tokens=nonsense")


def modules(folder: str) -> list[Path]:
    return sorted((SOURCE / folder).glob("*.py"))


def test_commands_are_short():
    lines = {path.name: len(path.read_text().splitlines()) for path in modules("cli")}
    assert {name: number for name, number in lines.items() if number > LONGEST} == {}
    assert [name for name in lines if name.startswith("probe_")] == []


def imports(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("folder", ["cli", "report"])
def test_commands_and_reports_compute_no_statistics(folder):
    computing = {path.name for path in modules(folder) if imports(path) & STATISTICS}
    assert computing <= {"probe_pictures.py"}  # arrays for matplotlib


def markup(path: Path) -> list[str]:
    """Strings of a module that hold HTML tags, docstrings left out."""
    tree = ast.parse(path.read_text())
    documented = [node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))]
    docstrings = {id(node.body[0].value) for node in documented if node.body and isinstance(node.body[0], ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node.value for node in strings if id(node) not in docstrings and ("</" in node.value or "/>" in node.value)]


@pytest.mark.parametrize("path", modules("report"), ids=lambda path: path.name)
def test_the_report_has_no_html_in_python(path):
    assert markup(path) == []


def test_html_in_python_is_noticed(tmp_path):
    (tmp_path / "page.py").write_text('"""A </b> in words."""\n\nrow = f"<td>{1}</td>"\n')
    assert markup(tmp_path / "page.py") == ["</td>"]
