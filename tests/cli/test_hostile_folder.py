"""Files named like libraries in the folder where a command is started: neither it nor its workers import them.

Nor do libraries read their settings there, or load machine code.
"""

import functools
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import softmaxlab as sl

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
LONG = 900  # seconds, of a busy machine
TINY = {"width": 8, "heads": 1, "layers": 1, "epochs": 1, "measure": ()}
POOL = """
import operator
from functools import partial
from softmaxlab.core.pool import run_all
print(run_all({"sum": partial(operator.add, 1, 2)}, 1))
"""


@functools.cache
def names() -> set[str]:
    """Every module that can be imported, but ours and what `python -m` itself imports before it begins with ours."""
    code = "import runpy, sys; print(*sys.modules)"
    before = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    installed = {module.name for module in pkgutil.iter_modules() if not module.name.startswith("_")}
    return {*installed, *sys.stdlib_module_names, "sitecustomize"} - {"softmaxlab", *before.split()}


def nowhere() -> list[str]:
    """The names that a Python of its own cannot import, as winreg here: earlier tests may have widened our search."""
    code = "import sys, importlib.util as u; print(*[name for name in sys.argv[1:] if u.find_spec(name) is None])"
    asked = [sys.executable, "-P", "-c", code, *(names() - {"sitecustomize"})]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def folder(tmp_path):
    for name in names():
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
        capture_output=True, text=True, cwd=folder, env=os.environ | environment, timeout=LONG,
    )  # fmt: skip


def imported(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("imported-*"))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("list",), 0),
        (("run", "attention/maps"), 0),
        (("sweep", "specs.json", "--jobs", "2"), 0),
        (("sweep", "specs.json", "--jobs", "1", "--executor", "ray"), 0),
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
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=folder, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{'sum': 3}\n"
    assert imported(folder) == []


def test_the_trap_is_one(folder):
    """Python itself, left alone, imports from there."""
    subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True, cwd=folder, timeout=60)
    assert imported(folder) == ["imported-numpy"]


def test_a_plugin_is_found_there_and_libraries_still_are_not(folder):
    for name in nowhere():  # what is nowhere else is found with the plugin
        (folder / f"{name}.py").unlink(missing_ok=True)
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


FLOW = {
    "kind": "specialization.Flow",
    "model": {
        "kind": "specialization.SingleLocation",
        "prior": {"kind": "specialization.OneHotSpikes", "F": 2, "nu": 4.0},
        "length": 4,
        "heads": 2,
    },
    "tau_end": 0.1,
    "points": 3,
    "samples": 64,
}


def test_pictures_are_not_drawn_by_settings_in_the_folder(tmp_path):
    pictures = []
    for settings in ("", "figure.facecolor: red\n"):
        (tmp_path / "matplotlibrc").write_text(settings)
        done = program(tmp_path, "run", "attention/maps")
        assert done.returncode == 0, done.stderr
        pictures.append((tmp_path / "runs" / "attention" / "maps.png").read_bytes())
    assert pictures[0] == pictures[1]


def test_compiled_code_is_not_kept_where_settings_in_the_folder_say(tmp_path):
    """Whoever chooses that place chooses what is run: compiled code is read from there."""
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path / 'kept'}\ndisable_jit: 1\n")
    (tmp_path / "flow.json").write_text(json.dumps(FLOW))
    done = program(tmp_path, "run", "flow.json")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("first", ["", "import softmaxlab; "], ids=["left alone", "worker"])
def test_a_worker_has_no_settings_of_the_folder(tmp_path, first):
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: kept\n")
    code = f"{first}import numba; numba.core.config.reload_config(); print(numba.config.CACHE_DIR)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.strip() == ("" if first else "kept")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, and is told by the loader of GNU")
def test_no_machine_code_in_the_folder_is_loaded(tmp_path):
    library = re.search(r"/\S+\.so\S*$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    assert library is not None
    shutil.copy(library[0], tmp_path / "libcuda.so.1")

    def is_loaded(code: str) -> bool:
        command, told = [sys.executable, "-P", "-c", code], os.environ | {"LD_DEBUG": "files"}
        done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=told, check=True)
        return b"file=libcuda.so.1 [0];  generating link map" in done.stderr

    if not is_loaded("import torch"):
        pytest.skip("this torch does not look for it there")
    assert not is_loaded("import softmaxlab, torch")
