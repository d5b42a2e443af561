"""Every executor: what fails is recorded, what dies is tried again, what is killed resumes, each run counts once."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from softmaxlab import Store
from softmaxlab.core.simulate import simulate
from softmaxlab.training import Induction, Run
from softmaxlab.training.executors import slurm
from softmaxlab.training.executors.slurm import Slurm
from softmaxlab.training.sweep import sweep
from tests.training.faults import Trial, attempts, parents, workers

PROJECT = str(Path(__file__).parents[2])
PATIENCE = 300.0  # seconds for what takes a few on an idle machine
FAULTS = ("work", "raise", "die", "die_once", "starve", "exit", "print", "diverge")


def wait_until(true) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def alive(process: int) -> bool:
    """Whether a process runs; a dead one that nobody has waited for counts as dead."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def command(trials: list[Trial], *options: str) -> subprocess.Popen:
    """`softmaxlab sweep` of trials in a process of its own."""
    Path("trials.json").write_text(json.dumps([trial.plain() for trial in trials]))
    code = "from softmaxlab.cli import main; main()"
    environment = os.environ | {"PYTHONPATH": PROJECT}
    arguments = [sys.executable, "-c", code, "sweep", "trials.json", *options]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def drafts(store: str = "runs") -> list[Path]:
    return list(Path(store).rglob(".writing-*"))


def test_whatever_a_run_does_the_others_are_made(marks):
    trials = [Trial(marks, number, does) for number, does in enumerate(FAULTS)]
    with pytest.warns(UserWarning, match="of 8 runs .*4 failed.*: "):
        table = sweep(trials, jobs=2).set_index("does")
    good = {"work", "die_once", "print"}
    assert set(table.index[table["status"] == "done"]) == good
    assert set(table.index[table["status"] == "diverged"]) == {"diverge"}
    reasons = table["sentence"]
    assert reasons["die"] == "the worker died 3 times, last with signal 9 (out of memory?)"
    assert re.fullmatch(
        r"plugin 'tests\.training\.faults', function _run, line \d+: RuntimeError: two lines", reasons["raise"]
    )
    assert reasons["exit"] == "SystemExit: 3"
    assert re.search(r", line \d+: MemoryError: ", reasons["starve"])
    repeated = {FAULTS.index("die"): 3, FAULTS.index("die_once"): 2}
    assert attempts(marks) == {number: repeated.get(number, 1) for number in range(len(FAULTS))}
    assert len(Store("runs")) == len(good) + 1
    assert not any(map(alive, workers(marks)))


def test_a_machine_that_cannot_start_workers_says_so(marks, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.warns(UserWarning, match="3 failed"):
        table = sweep([Trial(marks, number) for number in range(3)], jobs=2)
    assert set(table["sentence"]) == {"the worker died 3 times, last with exit code 1"}


def test_a_worker_trains_exactly_as_this_process_does():
    task = Induction(vocab=6, tokens=3, train=64, evaluate=16)
    spec = Run(task=task, width=8, heads=1, layers=1, epochs=1, measure=())
    sweep([spec, spec.replace(seed=1)], jobs=1)
    here, there = simulate(spec), Store("runs").get(spec)
    np.testing.assert_array_equal(here["train_loss"], there["train_loss"])
    assert (here["train_loss"] != Store("runs").get(spec.replace(seed=1))["train_loss"]).all()


IMPORTS = """
import sys
from softmaxlab.training import Classification, Induction, Run, attempts

def run(spec, device):
    before = set(sys.modules)
    made = timed(spec, device)
    print([name for name in set(sys.modules) - before if not name.startswith("numpy.ma")])  # which takes milliseconds
    return made

timed, Run._run = Run._run, run
small = {"width": 8, "heads": 1, "layers": 1, "epochs": 1}
task = Induction(vocab=6, tokens=3, train=64, evaluate=16)
for spec in (Run(task=task, track=("heads",), stop="settled", **small), Run(task=Classification(train=64), **small)):
    attempts.run_one(spec.key, spec.json_text(), "runs", "cpu")
"""


def test_the_seconds_of_a_run_hold_no_imports():
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n" * 2, "")


def test_after_kill_9_a_sweep_resumes_and_no_worker_lives_on(marks):
    trials, jobs = [Trial(marks, number, seconds=0.2) for number in range(20)], 2
    killed = command(trials, "--jobs", str(jobs))
    with killed:
        wait_until(lambda: len(Store("runs")) >= 4)
        killed.kill()
    wait_until(lambda: not any(map(alive, workers(marks))))
    kept = len(Store("runs"))
    assert 4 <= kept < len(trials)
    table = sweep(trials, jobs=jobs)
    assert set(table["status"]) == {"done"}
    assert len(Store("runs")) == len(trials)
    assert sum(attempts(marks).values()) - len(trials) <= jobs
    assert not drafts()


def test_ctrl_c_stops_the_workers_leaves_a_clean_store_and_tells_what_there_is(marks):
    stopped = command([Trial(marks, number, seconds=0.3) for number in range(40)], "--jobs", "2", "--json")
    with stopped:
        wait_until(lambda: len(Store("runs")) >= 1)
        stopped.send_signal(signal.SIGINT)
        out, err = stopped.communicate()
    assert stopped.returncode == 130, err
    assert err == "interrupted; finished results are kept\n"
    document, kept = json.loads(out), len(Store("runs"))
    assert document["counts"] == {"done": kept, "not run": 40 - kept}
    assert (document["made_now"], document["failed_now"]) == (kept, 0)
    assert len(Path("runs/trials.csv").read_text().splitlines()) == 41
    assert not any(map(alive, workers(marks)))
    assert not drafts()
    assert not Path("runs/failures").exists()


def test_slurm_is_given_the_script_of_the_dry_run(marks, tmp_path, monkeypatch):
    """With commands in SLURM's place that take a job and end it at once."""
    tools = {
        "srun": "",
        "sbatch": f'cp "$1" {tmp_path}/submitted; echo Submitted batch job 7',
        "sacct": "printf 'JobID|State|NodeList\\n7_0|TIMEOUT|a\\n7_1|TIMEOUT|b\\n'",
    }
    (tmp_path / "bin").mkdir()
    for name, line in tools.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    cluster = Slurm(jobs=2, elements=2, partition="cpu", account="lab", time="30", gpus_per_task=1)
    with pytest.warns(UserWarning, match="3 failed"):
        table = sweep([Trial(marks, number) for number in range(3)], cluster)
    assert (tmp_path / "submitted").read_text() == cluster.script(3, "runs")
    assert list(table["status"]) == ["failed"] * 3
    reason = "element 7_{} ended before it (TIMEOUT), see slurm/ in the store"
    assert list(table["sentence"]) == [reason.format(element) for element in (0, 1, 0)]


@pytest.mark.slow
def test_slurm_elements_are_requeued_and_their_deaths_recorded(marks, monkeypatch):
    """On submitit's own local executor. The runs are dealt out in turn: even numbers to element 0, odd to element 1."""
    monkeypatch.setattr(slurm, "POLL_SECONDS", 0.1)
    does = ("work", "work", "preempt_once", "orphan", "work", "work")
    trials = [Trial(marks, number, what) for number, what in enumerate(does)]
    with pytest.warns(UserWarning, match="2 failed"):
        table = sweep(trials, Slurm(jobs=1, elements=2, cluster="local"))
    assert list(table["status"]) == ["done", "done", "done", "failed", "done", "failed"]
    assert "ended before it" in table["sentence"][5]
    assert attempts(marks) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}
    assert len(Store("runs")) == 4
    wait_until(lambda: not any(map(alive, workers(marks))))


@pytest.mark.slow
def test_a_ray_cluster_loses_a_node_and_no_run(marks):
    runs = 60
    arguments = [sys.executable, "-m", "tests.training.two_nodes", str(Path("runs").absolute()), marks, str(runs)]
    found = os.environ | {"PYTHONPATH": str(PROJECT)}  # workers import from no current folder
    done = subprocess.run(arguments, cwd=PROJECT, env=found, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["counts"] == {"done": runs}
    assert report["begun_at_kill"] < runs
    assert len(Store("runs")) == runs
    assert sorted(int(result["number"]) for result in Store("runs")) == list(range(runs))
    assert len(parents(marks)) >= 2  # both nodes worked; what the killed one left behind has another parent
    assert sum(attempts(marks).values()) - runs <= 2


@pytest.mark.slow
def test_ray_on_this_machine_records_what_fails(marks):
    faults = ("work", "raise", "die", "print")
    done = command([Trial(marks, number, does) for number, does in enumerate(faults)], "--executor", "ray", "--json")
    out, err = done.communicate()
    assert done.returncode == 1, err
    runs = json.loads(out)["runs"]
    assert [run["status"] for run in runs] == ["done", "failed", "failed", "done"]
    assert runs[2]["sentence"].startswith("Ray gave up after 3 attempts: ")
    assert attempts(marks) == {0: 1, 1: 1, 2: 3, 3: 1}
