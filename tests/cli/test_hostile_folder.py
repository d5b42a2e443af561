"""Files named like libraries in the folder where a command is started: neither it nor its workers import them."""

import json
import os
import subprocess
import sys

import pytest

import softmaxlab as sl

NAMES = ("torch", "numpy", "json", "sitecustomize", "pickle", "socket", "signal", "scipy", "numba", "pandas")
HOSTILE = """
import os
open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "imported-" + __name__), "w").close()
raise SystemExit("a hostile module was imported")
"""
PLUGIN = """
import softmaxlab as sl

@sl.attention.register
def cubic(scores):
    return scores**3
"""
TINY = {"width": 8, "heads": 1, "layers": 1, "epochs": 1, "measure": ()}
POOL = """
import operator
from functools import partial
from softmaxlab.core.pool import run_all
print(run_all({"sum": partial(operator.add, 1, 2)}, 1))
"""


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "mine.py").write_text(HOSTILE)
    task = sl.training.Induction(vocab=6, tokens=3, train=32, evaluate=8)
    specs = [sl.training.Run(task=task, seed=seed, **TINY).plain() for seed in (0, 1)]
    (tmp_path / "specs.json").write_text(json.dumps(specs))
    return tmp_path


def program(folder, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "softmaxlab", *arguments],
        capture_output=True, text=True, cwd=folder, env=os.environ | environment, timeout=300,
    )  # fmt: skip


def imported(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("imported-*"))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("list",), 0),
        (("run", "attention/maps"), 0),
        (("sweep", "specs.json", "--jobs", "2"), 0),
        (("probe", "--help"), 0),
        (("check", "attention/bayes-mean"), 0),
        (("cite",), 0),
        (("bench", "mine"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_no_command_and_no_worker_imports_what_lies_in_the_folder(folder, arguments, code):
    done = program(folder, *arguments)
    assert done.returncode == code, done.stderr
    assert imported(folder) == []


def test_nor_does_a_process_of_the_pool(folder):
    """The script lies elsewhere, so its folder is not the current one."""
    script = folder / "scripts" / "pool.py"
    script.parent.mkdir()
    script.write_text(POOL)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{'sum': 3}\n"
    assert imported(folder) == []


def test_the_trap_is_one(folder):
    """Python itself, left alone, imports from there."""
    subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True, cwd=folder, timeout=60)
    assert imported(folder) == ["imported-numpy"]


def test_a_plugin_is_found_there_and_libraries_still_are_not(folder):
    (folder / "mymaps.py").write_text(PLUGIN)
    specs = json.loads((folder / "specs.json").read_text())
    (folder / "specs.json").write_text(json.dumps([spec | {"map": "cubic"} for spec in specs]))
    done = program(folder, "sweep", "specs.json", "--jobs", "2", "--plugin", "mymaps", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"done": 2}
    assert imported(folder) == []


def test_a_plugin_named_like_a_library_is_refused(folder):
    done = program(folder, "list", "--plugin", "numpy")
    assert done.returncode == 2
    assert "plugin 'numpy' is named like the library at" in done.stderr
    assert imported(folder) == []


def test_bench_runs_a_folder_that_is_named(folder):
    done = program(folder, "bench", "--folder", "benchmarks")
    assert imported(folder) == ["imported-benchmarks.mine"]
    assert done.returncode == 1
