"""The Python and the command line of a view really compute it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softmaxlab import Store
from softmaxlab.app import attention, polarization, specialization
from softmaxlab.app import probe_page as probed
from softmaxlab.app.reproduce import command, probe_command, python
from softmaxlab.app.results import load
from softmaxlab.app.specialization_page import AFTER
from softmaxlab.app.states import Attention, Polarization, Probe, Specialization
from softmaxlab.cli import main
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


def test_the_command_of_a_probe_measures_the_same_heads(tmp_path, capsys):
    (tmp_path / "text.txt").write_text(TEXT)
    saved(llama(), tmp_path / "model")
    arguments = [
        "probe",
        "model",
        "--text",
        "text.txt",
        "--length",
        "24",
        "--samples",
        "3",
        "--seed",
        "5",
        "--out",
        "a",
    ]
    with pytest.raises(SystemExit):
        main(arguments)
    again = probe_command(load(tmp_path, "a").report, "my folder")
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(again)[1:])
    assert not stop.value.code
    before, after = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("a", "my folder"))
    assert before["heads"] == after["heads"]
