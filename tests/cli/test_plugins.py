"""A user's own map: through `--plugin`, in new processes, in the content key, under the laws and in the docs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.probing.checkpoints import llama, saved

PROJECT = Path(__file__).parents[2]
CUBIC = """
import softmaxlab as sl

@sl.attention.register
def cubic(scores):
    return scores ** 3
"""
FALSE_CLAIM = """
import softmaxlab as sl

@sl.attention.register(non_negative=True)
def cubic(scores):
    return scores ** 3
"""
CUBIC_FILE = '''
"""Cubic attention: w = χ³."""

from softmaxlab.attention.map import Map

MAPS = (Map("cubic", lambda scores: scores**3),)
'''


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    code = "from softmaxlab.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=os.environ | environment
    )


def laws(**environment: str) -> subprocess.CompletedProcess:
    """The laws of the map `cubic` alone."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "tests/laws/test_maps.py", "-k", "cubic", "-n", "0", "-p", "no:cacheprovider"],
        capture_output=True, text=True, cwd=PROJECT, env=os.environ | environment,
    )  # fmt: skip


def key_of(*arguments: str) -> str:
    done = program("run", "attention/maps", "--set", 'maps=["cubic", "softmax"]', "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["data"]).name


def test_a_plugin_map_runs_and_its_source_enters_the_key(tmp_path):
    source = tmp_path / "mymaps.py"
    source.write_text(CUBIC)
    first = key_of("--plugin", "mymaps")
    assert key_of("--plugin", "mymaps") == first
    source.write_text(CUBIC.replace("** 3", "** 5"))
    assert key_of("--plugin", "mymaps") != first
    listed = json.loads(program("--plugin", "mymaps", "list", "maps", "--json").stdout)
    assert "cubic" in {row["name"] for row in listed}
    assert program("run", "attention/maps", "--set", 'maps=["cubic"]').returncode == 2


def test_built_in_maps_keep_their_key_beside_a_plugin(tmp_path):
    (tmp_path / "mymaps.py").write_text(CUBIC)
    code = "import softmaxlab as sl; print(sl.attention.Compare([[[1.0]]], maps=('softmax',)).key)"
    keys = {
        subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, check=True).stdout
        for start in ("", "import mymaps; ")
    }
    assert len(keys) == 1


def test_a_spawned_worker_finds_the_map(tmp_path):
    (tmp_path / "mymaps.py").write_text(CUBIC)
    (tmp_path / "script.py").write_text(
        "import multiprocessing, mymaps\n"
        "import softmaxlab as sl\n"
        "def work(text):\n"
        "    return sl.simulate(sl.from_json(text))['weights'].item()\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work, [sl.attention.Compare([[[2.0]]], maps=('cubic',)).json_text()]))\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    assert done.stdout == "[8.0]\n", done.stderr


def test_a_probe_swaps_a_plugin_map_in(tmp_path):
    (tmp_path / "mymaps.py").write_text(CUBIC)
    saved(llama(), tmp_path / "model")
    arguments = ("--text", "licence", "--length", "16", "--samples", "2", "--swap", "cubic", "--json")
    done = program("probe", "model", *arguments, "--plugin", "mymaps")
    assert done.returncode == 0, done.stderr
    subjects = json.loads(done.stdout)["subjects"]
    assert [row["subject"] for row in subjects] == ["model", "cubic"]
    assert abs(subjects[1]["total"] - 1) > 0.01  # cubes do not sum to 1
    refused = program("probe", "model", *arguments)
    assert (refused.returncode, "unknown map 'cubic'" in refused.stderr) == (2, True)


EXPLORE = """
from softmaxlab.app import attention, server
from softmaxlab.app.states import Attention
from softmaxlab.cli import main

def show(app, opened):  # in place of serving until Ctrl-C
    print([bars.name for bars in attention.pattern(Attention()).data])

server.warm, server.serve = lambda: None, show
main(["explore", "--port", "0", "--no-browser", "--plugin", "mymaps"])
"""


def test_the_explorer_shows_a_plugin_map(tmp_path):
    (tmp_path / "mymaps.py").write_text(CUBIC)
    done = subprocess.run([sys.executable, "-c", EXPLORE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "'cubic'" in done.stdout


def test_the_laws_pick_up_a_plugin_map_and_refute_a_false_fact(tmp_path):
    (tmp_path / "mymaps.py").write_text(CUBIC)
    here = {"SOFTMAXLAB_PLUGINS": "mymaps", "PYTHONPATH": str(tmp_path)}
    done = laws(**here)
    assert done.returncode == 0, done.stdout
    assert "cubic" in program("list", "maps", **here).stdout
    (tmp_path / "mymaps.py").write_text(FALSE_CLAIM)
    done = laws(**here)
    assert done.returncode == 1
    assert "test_declared_sign_and_row_sums_hold[cubic]" in done.stdout


@pytest.fixture
def copy_with_cubic(tmp_path):
    """A copy of the package with one new file of maps."""
    package = tmp_path / "src" / "softmaxlab"
    shutil.copytree(PROJECT / "src" / "softmaxlab", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "attention" / "maps" / "cubic.py").write_text(CUBIC_FILE)
    return {"PYTHONPATH": str(tmp_path / "src")}


def test_one_file_makes_a_map(copy_with_cubic):
    done = laws(**copy_with_cubic)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    listed = json.loads(program("list", "maps", "--json", **copy_with_cubic).stdout)
    assert "cubic" in {row["name"] for row in listed}
    table = subprocess.run(
        [sys.executable, "docs/tables.py"],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env=os.environ | copy_with_cubic,
    )
    assert "`cubic`" in table.stdout, table.stderr


def test_a_map_without_readable_source_works_but_cannot_be_stored():
    code = (
        "import softmaxlab as sl\n"
        "sl.attention.register(lambda scores: scores + 1, name='plus')\n"
        "spec = sl.attention.Compare([[[1.0]]], maps=('plus',))\n"
        "print(sl.simulate(spec)['weights'].item())\n"
        "try: spec.key\n"
        "except sl.SpecError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("2.0\nmap 'plus' cannot be keyed by its source"), done.stderr


def test_a_closure_cannot_be_stored(tmp_path):
    """Its values are in no source, so two different ones would share a key."""
    (tmp_path / "script.py").write_text(
        "import softmaxlab as sl\n"
        "def power(p):\n"
        "    return sl.attention.register(lambda scores: scores**p, name='power')\n"
        "power(2)\n"
        "spec = sl.attention.Compare([[[3.0]]], maps=('power',))\n"
        "print(sl.simulate(spec)['weights'].item())\n"
        "try: sl.simulate(spec, store='runs')\n"
        "except sl.SpecError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    assert done.stdout.startswith("9.0\nmap 'power' cannot be keyed by its source"), done.stderr
    assert not (tmp_path / "runs").exists()


REFUSED = """
import functools, torch
import softmaxlab as sl

def power(scores, p):
    return scores ** p

for attempt in (
    lambda: sl.attention.register(functools.partial(power, p=2), name="power"),
    lambda: sl.attention.register(torch.relu),
    lambda: sl.attention.register(lambda scores: scores, name="softmax"),
    lambda: sl.attention.register(lambda scores: scores, name="not a name"),
    lambda: sl.attention.register(lambda scores, visible: scores, name="rows", normalise="sum"),
    lambda: sl.attention.register(lambda scores: scores, name="x", row_stochastic="maybe"),
    lambda: sl.attention.register(lambda scores: scores, name="x", row_stochastik=True),
    lambda: sl.attention.register(power, normalise="sum"),
):
    try:
        attempt()
        print("accepted")
    except sl.SpecError as error:
        print(error)

sl.attention.register(lambda scores: scores.sum(-1), name="flat")
try:
    sl.attention.weights("flat", torch.zeros(1, 2, 3))
except sl.SpecError as error:
    print(error)
"""


def test_what_cannot_be_a_map_is_refused(tmp_path):
    (tmp_path / "script.py").write_text(REFUSED)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    expected = [
        "a map is registered as a function of your own",
        "a map is registered as a function of your own",
        "map 'softmax' is registered already, by softmaxlab",
        "a map needs a name that is a Python identifier",
        "normalises by itself, got normalise='sum'",
        "fact 'row_stochastic' of a map is True or False, got 'maybe'",
        "unknown fact of a map 'row_stochastik', did you mean 'row_stochastic'?",
        "numbers with a default (exponent=2.0), got power with 'p', which has none",
        "map 'flat' must give one weight per score",
    ]
    lines = done.stdout.splitlines()
    assert len(lines) == len(expected), done.stderr
    for line, message in zip(lines, expected):
        assert message in line


SWAPS = """
import softmaxlab as sl
from softmaxlab.probing.options import parse_swaps

@sl.attention.register(normalise="sum")
def power(scores, exponent=2.0):
    return scores.abs() ** exponent

@sl.attention.register(normalise="sum")
def shifted(scores, bias, exponent=2.0):
    return (scores + bias).abs() ** exponent

for swap in parse_swaps(("power", "power:3", "shifted:3:-5", "shifted:4", "softmax1:2"), "-1"):
    print(swap.map, swap.bias)
for wrong in ("power:3:4", "power:x"):
    try:
        parse_swaps((wrong,), None)
    except sl.SpecError as error:
        print(error)
"""


def test_numbers_of_a_map_come_before_its_bias_in_a_swap(tmp_path):
    (tmp_path / "script.py").write_text(SWAPS)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[:-2] == ["power None", "power:3 None", "shifted:3 -5.0", "shifted:4 -1.0", "softmax1 2.0"], done.stderr
    assert lines[-2] == "--swap power:3:4: this map takes no bias"
    assert lines[-1].startswith("map 'power:x': a parameter must be a number")


OWN = """
from typing import ClassVar

import numpy as np
import softmaxlab as sl


class Line(sl.FigureSpec):
    id: ClassVar[str] = "mine/line"
    title: ClassVar[str] = "A line"
    points: int = 5

    def _run(self, device):
        return sl.Result({"x": np.arange(self.points)}, {"x": ("x",)})

    @staticmethod
    def draw(result):
        from matplotlib.figure import Figure

        figure = Figure()
        figure.subplots().plot(result["x"])
        return figure


def positive(value):
    return sl.Finding(sl.Verdict.HOLDS if value > 0 else sl.Verdict.FAILS, f"{value}")


CLAIMS = (sl.Claim("mine/sign", "softmaxlab", "here", "It is positive", "none", positive, 1.0, -1.0, "the other sign"),)
"""


def test_a_figure_and_a_claim_of_a_plugin(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    done = program("run", "mine/line", "--plugin", "mine", "--set", "points=3", "--json")
    assert done.returncode == 0, done.stderr
    assert Path(json.loads(done.stdout)["picture"]).is_file()
    listed = json.loads(program("list", "--plugin", "mine", "--json").stdout)
    assert [row["title"] for row in listed if row["id"] == "mine/line"] == ["A line"]
    checked = program("check", "mine", "--plugin", "mine", "--json")
    assert checked.returncode == 0, checked.stderr
    (claim,) = json.loads(checked.stdout)
    assert (claim["id"], claim["verdict"], claim["control_failed"]) == ("mine/sign", "holds", True)
    assert "did you mean 'mine/line'" in program("run", "mine/lin", "--plugin", "mine").stderr
    assert program("run", "mine/line").returncode == 2


def test_installed_packages_are_plugins_by_their_entry_points(tmp_path):
    """One that works and one that does not: the second is named in one line and left out."""
    site = tmp_path / "site"
    for package, text in (("goodmaps", CUBIC), ("badmaps", "import nothing_of_that_name")):
        info = site / f"{package}-1.dist-info"
        info.mkdir(parents=True)
        (site / f"{package}.py").write_text(text)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[softmaxlab.plugins]\nmine = {package}\n")
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    done = program("run", "attention/maps", "--set", 'maps=["cubic"]', PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("badmaps") == 1
    assert program("run", "attention/maps", "--set", 'maps=["cubic"]').returncode == 2


PARAMETER = """
import softmaxlab as sl

@sl.attention.register
def power(scores, exponent=2.0):
    return abs(scores) ** exponent
"""


def test_parameters_of_a_map_are_given_with_its_name(tmp_path):
    (tmp_path / "mymaps.py").write_text(PARAMETER)
    maps = 'maps=["power:1", "abs"]'
    done = program("run", "attention/maps", "--plugin", "mymaps", "--set", maps, "--json")
    assert done.returncode == 0, done.stderr
    code = "import mymaps, torch, softmaxlab as sl; w = sl.attention.weights; x = torch.randn(1, 2, 3); "
    code += "print(torch.equal(w('power:1', x), w('abs', x)), torch.equal(w('power', x), w('power:2', x)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True True\n"
    refused = program("run", "attention/maps", "--plugin", "mymaps", "--set", 'maps=["power:x"]')
    assert (refused.returncode, "'power:x': a parameter must be a number" in refused.stderr) == (2, True)
