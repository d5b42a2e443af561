"""The Python and the command line of a view really compute it."""

import inspect
import json
import os
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from softmaxlab import Store
from softmaxlab.app import attention, polarization, specialization
from softmaxlab.app import probe as view
from softmaxlab.app import probe_page as probed
from softmaxlab.app.reproduce import PROBE_DEFAULTS, command, probe_command, python
from softmaxlab.app.results import load
from softmaxlab.app.specialization_page import AFTER
from softmaxlab.app.states import Attention, Polarization, Probe, Specialization
from softmaxlab.cli import main
from softmaxlab.cli.probe import command as probe_cli
from tests.app.saved import save
from tests.probing.checkpoints import TEXT, llama, saved

FINE = specialization.SAMPLES["fine"], specialization.POINTS
VIEWS = {
    "flow": (Polarization(horizon=2.0).spec(), polarization.solve(Polarization(horizon=2.0))),
    "descent": (
        Polarization(loss="kl", optimizer="adam", u=(0.6, 0.4, 0.1), horizon=2.0).spec(),
        polarization.solve(Polarization(loss="kl", optimizer="adam", u=(0.6, 0.4, 0.1), horizon=2.0)),
    ),
    "attention": (Attention(bias=1.0).spec(), attention.solve(Attention(bias=1.0))),
    "specialization": (
        Specialization(prior="gaussian", tau=1.0).spec(*FINE),
        specialization.solve(Specialization(prior="gaussian", tau=1.0)),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_the_python_of_a_view_gives_its_numbers(name, capsys):
    spec, shown = VIEWS[name]
    made: dict = {}
    exec(python(spec, AFTER if name == "specialization" else "print(result)"), made)
    assert made["spec"] == spec
    assert all(np.array_equal(made["result"][array], shown[array]) for array in shown)
    assert "Result" in capsys.readouterr().out


OWN = """
import torch
import softmaxlab as sl

@sl.polarization.register(margin=True)
def steep(m, rate=1.0):
    return torch.exp(-rate * m) / rate

@sl.polarization.register
def fitted(output, X):
    return ((X @ output) ** 2).sum()

@sl.attention.register(normalise="sum")
def smooth(scores):
    return torch.nn.functional.softplus(scores)
"""
OWN_VIEW = """
import importlib
import numpy as np
from softmaxlab.app import polarization
from softmaxlab.app.reproduce import command, python
from softmaxlab.app.states import Polarization, offered_losses, offered_maps

importlib.import_module("ours")
print("steep" in offered_losses(), "fitted" in offered_losses(), "smooth" in offered_maps())
state = Polarization.from_query("?loss=steep:2&map=smooth&horizon=2")
made = {}
exec(python(state.spec()), made)
shown = polarization.solve(state)
print(all(np.array_equal(made["result"][array], shown[array]) for array in shown), len(polarization.panels(state)))
print(polarization.panels(state)["bound"], polarization.panels(state)["strength"] is None)
print(command(state.spec()).endswith(" --plugin ours"), command(Polarization().spec()).endswith("--out runs"))
"""


def test_a_view_of_a_loss_and_a_map_of_ones_own_is_reproduced_with_its_plugin(tmp_path):
    (tmp_path / "ours.py").write_text(OWN)
    (tmp_path / "script.py").write_text(OWN_VIEW)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, cwd=tmp_path)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("True", "False", "None"))]
    assert lines == ["True False True", "True 5", "None False", "True True"], done.stderr


@pytest.mark.parametrize("name", VIEWS)
def test_the_command_of_a_view_gives_its_numbers(name, tmp_path, capsys):
    spec, shown = VIEWS[name]
    first, _, second = command(spec).partition(" && ")
    subprocess.run(["bash", "-c", first], check=True, cwd=tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(second)[1:])
    assert not stop.value.code
    stored = Store("runs").load(spec.key)
    assert all(np.array_equal(stored[array], shown[array]) for array in shown)


@pytest.mark.slow
def test_the_command_runs_in_a_shell(tmp_path):
    spec, _ = VIEWS["flow"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command(spec)], cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert spec.key in done.stdout


def test_the_python_of_a_probe_reads_its_numbers(tmp_path, capsys):
    save(tmp_path / "two", subjects=("one", "two"))
    exec(probed.python(Probe(subject=1, layer=1, head=2), str(tmp_path / "two")), {})
    assert "0.9" in capsys.readouterr().out


def run(line: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line)[1:])
    assert not stop.value.code


@pytest.mark.parametrize(
    "options",
    [
        "--seed 5 --dtype float64 --statistics fast --batch-size 2 --eager",
        "--swap softmax1:-2 --swap sparsemax --attention 1.2,0.3 --eps 0.2 --bos no",
    ],
)
def test_the_command_of_a_probe_measures_the_same_heads(tmp_path, capsys, options):
    (tmp_path / "text.txt").write_text(TEXT)
    saved(llama(), tmp_path / "model")
    run(f"softmaxlab probe model --text text.txt --length 24 --samples 3 {options} --out 'my folder'")
    first = load(tmp_path, "my folder")
    run(probed.show(Probe(result="my folder"), Path())["command"])
    before, after = (
        json.loads((tmp_path / name / "report.json").read_text()) for name in ("my folder", "my folder-again")
    )
    assert before == after
    assert load(tmp_path / "my folder-again", ".").patterns == first.patterns
    shown = [view.one_head(Probe(layer=1, head=2), first).data[0], view.one_head(Probe(), first).data[0]]
    assert [drawn.type for drawn in shown] == ["heatmap" if "--attention" in options else "bar", "bar"]


def test_every_setting_that_is_not_the_default_is_in_the_command(tmp_path):
    report = load(save(tmp_path / "one"), ".").report
    assert probe_command(report, [], "x").endswith("--samples 1 --out x"), "all settings are the defaults"
    changed = {"swap": ["softmax1:-5", "sigmoid:-log n"], "compare": ["b", "c d"], "mitigate": "bias", "prune": 3}
    changed |= {"statistics": "fast", "eager": True, "device": "cuda:1", "device_map": "auto", "revisions": ["p", "q"]}
    changed |= {"bos": "yes", "eps": 0.2, "seed": 7, "batch_size": 1}
    words = shlex.split(probe_command(report | {"settings": changed, "check": {}}, ["1.2", "0.0"], "x"))
    wanted = "--mitigate bias --prune 3 --statistics fast --device cuda:1 --device-map auto --revisions p,q --bos yes"
    wanted += " --eps 0.2 --seed 7 --batch-size 1 --attention 1.2,0.0 --swap softmax1:-5 --compare b --out x"
    pairs = {*pairwise(words)}
    expected = wanted.split()
    assert {*zip(expected[::2], expected[1::2]), ("--swap", "sigmoid:-log n"), ("--compare", "c d")} <= pairs
    assert {"--eager", "--check"} < {*words}
    assert "--dtype" not in words, "the models that are compared may have had different ones"


def test_the_defaults_are_those_of_the_command_line():
    options = inspect.signature(probe_cli).parameters
    assert {name: options[name].default for name in PROBE_DEFAULTS} == PROBE_DEFAULTS


def test_the_command_writes_over_nothing(tmp_path):
    assert probed.another(tmp_path / "a") == tmp_path / "a-again"
    (tmp_path / "a-again").mkdir()
    assert probed.another(tmp_path / "a") == tmp_path / "a-again-again"
    assert probed.another(Path(".")) == Path("probe-again")


def test_text_from_stdin_is_read_from_there_again(tmp_path):
    report = load(save(tmp_path / "one"), ".").report
    assert "--text - " in probe_command(report | {"text": {"name": "stdin"}}, [], "x")
