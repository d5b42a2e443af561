"""Tables that grow, runs that are there already in other forms, the order of runs, and what is still lacking."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from softmaxlab import Store
from softmaxlab.cli import main
from softmaxlab.core.progress import Progress
from softmaxlab.errors import SpecError
from softmaxlab.training import Classification, Induction, Run
from softmaxlab.training.estimate import Seconds, in_order
from softmaxlab.training.presets import preset, stages
from softmaxlab.training.status import status
from softmaxlab.training.sweep import Sweep, keyed
from softmaxlab.training.table import row
from softmaxlab.training.table_file import TableFile
from tests.training.faults import Trial, attempts
from tests.training.test_sweep import Here

TINY = Run(
    task=Induction(vocab=6, tokens=3, train=64, evaluate=16), width=8, heads=1, layers=1, epochs=1, measure=()
)  # fmt: skip
USUAL = Run(task=Classification(), layers=1, heads=1)


def ended(spec: Run, seconds: float = 1.0) -> dict:
    return row(spec, spec.key, Store("none")) | {"status": "done", "sentence": "finished", "seconds": seconds}


def written(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_runs_are_made_seed_by_seed_and_the_longest_first():
    runs = [USUAL.replace(seed=seed, layers=layers) for layers in (1, 2) for seed in (1, 0)]
    order = in_order(dict(keyed(runs)), {}).values()
    assert [(run.seed, run.layers) for run in order] == [(0, 2), (0, 1), (1, 2), (1, 1)]
    first = {runs[0].key: -1}
    assert next(iter(in_order(dict(keyed(runs)), first).values())) == runs[0]


def test_specs_without_a_cost_keep_their_order(marks):
    trials = dict(keyed([Trial(marks, number) for number in (2, 0, 1)]))
    assert list(in_order(trials, {})) == list(trials)


def test_cost_follows_what_makes_a_run_long():
    assert USUAL.replace(epochs=20).cost() == 2 * USUAL.cost()
    assert USUAL.replace(layers=2).cost() > USUAL.cost() > USUAL.replace(mlp=False).cost()
    induction = Run(task=Induction())
    assert induction.cost() > induction.replace(**{"task.aux": 0.0}).cost()


def test_figures_14_to_17_begin_with_what_is_most_useful():
    parts = stages("induction", "figures14-17")
    assert [len(part) for part in parts[:13]] == [12] * 11 + [121, 528]
    for part in parts[:11]:
        assert len({(run.task.aux, run.task.shifted, run.chosen_positions()) for run in part}) == 12
        assert len({run.map for run in part}) == 1
    assert {(run.heads, run.lr, run.seed) for part in parts[:11] for run in part} == {(4, 1e-3, 0)}
    assert {run.key for run in parts[11]} <= {run.key for run in preset("induction", "figure4")}
    assert {(run.heads, run.lr) for run in parts[12]} == {(4, 1e-3)}


def test_the_figures_need_10725_runs():
    names = {"induction": ("figure4", "figures14-17"), "classification": ("figure6", "figures18-20", "figure21")}
    runs = {task: {run.alike() for name in found for run in preset(task, name)} for task, found in names.items()}
    assert {task: len(found) for task, found in runs.items()} == {"induction": 7920, "classification": 2805}


def test_time_left_is_the_cost_left_over_the_rate_of_cost_done():
    progress = Progress(3, "runs", cost=10.0)
    assert progress.left(5.0) is None
    progress.advance(cost=6.0)
    assert progress.left(60.0) == pytest.approx(40.0)
    progress.advance(cost=3.0, failed=True)
    assert progress.left(60.0) == pytest.approx(10.0), "what failed at once is no sign of speed"
    assert Progress(3, "runs", cost=10.0, guess=100.0).left(30.0) == 70.0


def test_seconds_come_from_rows_of_like_cost():
    seconds = Seconds.of([ended(USUAL, 4.0), ended(USUAL.replace(epochs=1000), 900.0)])
    assert seconds.estimate(USUAL.replace(seed=3)) == (pytest.approx(4.0), 1)
    assert seconds.estimate(Run(task=Induction())) == (None, 0)
    assert Seconds().total([USUAL]) == (None, 0)


def test_rows_of_the_table_count_and_other_rows_stay_as_they_are(marks):
    trials = [Trial(marks, number) for number in range(3)]
    there = row(trials[0], trials[0].key, Store("none")) | {"status": "done", "seconds": 1.0}
    other = {"key": "0" * 24, "status": "failed", "x": "1.10"}
    file = TableFile("t.csv")
    file.rows = {other["key"]: other, there["key"]: there}
    file.write()
    for _ in range(2):
        work = Sweep(keyed(trials), "runs", table=Path("t.csv"))
        work.make(Here(), "cpu")
        work.write()
    assert attempts(marks) == {1: 1, 2: 1}
    rows = {cells["key"]: cells for cells in written("t.csv")}
    assert len(written("t.csv")) == len(rows) == 4
    assert rows["0" * 24]["x"] == "1.10"


def test_a_run_that_is_alike_serves_a_figure_and_nothing_else():
    file = TableFile("t.csv")
    full = USUAL.replace(stop="settled", track=("cls",))
    file.add([ended(full)])
    file.write()
    assert not Sweep(keyed([USUAL]), "runs", table=Path("t.csv"), serve=True).wanted
    assert Sweep(keyed([USUAL]), "runs", table=Path("t.csv")).wanted
    assert Sweep(keyed([USUAL.replace(seed=1)]), "runs", table=Path("t.csv"), serve=True).wanted
    found = status(keyed([USUAL, USUAL.replace(seed=1)]), {"table": file.ended()}, serve=True)
    assert (found["there"], found["lacking"], found["estimated_from_rows"]) == ({"table": 1}, 1, 1)
    assert found["core_hours"] == pytest.approx(1 / 3600)


def test_a_file_that_is_no_table_is_refused():
    Path("t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SpecError, match="no columns 'key' and 'status'"):
        TableFile("t.csv")
    assert Path("t.csv").read_text() == "a,b\n1,2\n"


def test_status_makes_nothing(capsys):
    with pytest.raises(SystemExit) as stop:
        main(("sweep", "classification", "--preset", "figure6", "--status", "--json"))
    found = json.loads(capsys.readouterr().out)
    assert not stop.value.code
    assert (found["runs"], found["there"], found["lacking"]) == (495, {"store": 0, "come along": 495}, 0)
    assert not list(Path().iterdir())


def test_a_sweep_killed_in_the_middle_goes_on_and_has_every_run_once():
    specs = [TINY.replace(seed=seed, epochs=20) for seed in range(6)]
    Path("mine.json").write_text(json.dumps([spec.plain() for spec in specs]))
    command = [sys.executable, "-m", "softmaxlab", "sweep", "mine.json", "--jobs", "1", "--table", "t.csv"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not Path("t.csv").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = written("t.csv")
    assert 1 <= len(before) <= len(specs), "whole, and there while runs were made"
    assert subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert Counter(cells["key"] for cells in written("t.csv")) == Counter(spec.key for spec in specs)
    after = {cells["key"]: cells["seconds"] for cells in written("t.csv")}
    assert all(after[cells["key"]] == cells["seconds"] for cells in before), "not made again"
