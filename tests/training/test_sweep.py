"""Grids, presets, and sweeps with an executor that runs in this process: who is run, in what order, how often."""

import json
import logging
import re
from pathlib import Path

import pytest

from softmaxlab import SpecError, Store, StoreError
from softmaxlab.cli import main
from softmaxlab.training import Classification, Induction, Run
from softmaxlab.training.attempts import run_one
from softmaxlab.training.executors import executor_named
from softmaxlab.training.executors.slurm import Slurm, minutes
from softmaxlab.training.grid import grid
from softmaxlab.training.presets import MAPS, PRESETS, preset
from softmaxlab.training.sweep import sweep
from tests.training.faults import Trial, attempts

TINY = Run(
    task=Induction(vocab=6, tokens=3, train=64, evaluate=16), width=8, heads=1, layers=1, epochs=1, measure=()
)  # fmt: skip


class Here:
    """An executor without processes."""

    def run(self, specs, store, device, finished):
        for key, spec in specs.items():
            run_one(key, spec, store, device)
            finished(key)


class Idle:
    """An executor that does nothing."""

    def run(self, specs, store, device, finished):
        pass


def test_a_grid_is_the_product_with_the_last_name_fastest():
    runs = grid(Run(task=Induction()), map=("softmax", "linear"), **{"task.aux": (0.0, 0.2)})
    assert [(run.map, run.task.aux) for run in runs] == [
        ("softmax", 0.0), ("softmax", 0.2), ("linear", 0.0), ("linear", 0.2),
    ]  # fmt: skip
    assert grid(TINY) == [TINY]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"map": ("softmax", "sofmax")}, "did you mean 'softmax'"),
        ({"hedas": (1, 2)}, "did you mean 'heads'"),
        ({"heads": (1, 3)}, "heads must divide width"),
        ({"map": "softmax"}, "map takes several values"),
        ({"heads": 4}, "heads takes several values"),
    ],
)
def test_a_bad_grid_is_refused(choices, message):
    with pytest.raises(SpecError, match=message):
        grid(Run(task=Induction()), **choices)


@pytest.mark.parametrize(
    ("task", "name", "size"),
    [
        ("induction", "quick", 3), ("induction", "figure4", 660), ("induction", "paper", 8640),
        ("classification", "quick", 3), ("classification", "figure6", 495), ("classification", "paper", 12960),
    ],
)  # fmt: skip
def test_presets_have_the_runs_of_the_paper(task, name, size):
    runs = preset(task, name)
    assert len(runs) == len(set(runs)) == size
    assert {type(run.task) for run in runs} == {Induction if task == "induction" else Classification}


def test_an_unfinished_figure4_is_as_useful_as_it_can_be():
    runs = preset("induction", "figure4")
    assert [(run.map, run.heads, run.lr, run.seed) for run in runs[:11]] == [(name, 4, 1e-3, 0) for name in MAPS]
    assert len({(run.map, run.heads, run.lr) for run in runs[:132]}) == 132
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert {(run.stop, run.task.aux, run.task.shifted, run.chosen_positions()) for run in runs} == {
        ("settled", 0.2, True, "additive")
    }
    assert [run.task.vocab for run in preset("classification", "figure6")] == [41] * 165 + [81] * 165 + [161] * 165


def test_what_is_not_a_preset_is_refused():
    all_of_them = r"\(classification has: quick, figure6, figures18-20, figure21, beyond, paper\)$"
    with pytest.raises(
        SpecError, match=rf"^unknown preset of classification 'figure4', did you mean 'figure6'\? {all_of_them}"
    ):
        preset("classification", "figure4")
    with pytest.raises(SpecError, match=rf"^unknown preset of classification 'zzz' {all_of_them}"):
        preset("classification", "zzz")
    with pytest.raises(SpecError, match="did you mean 'induction'"):
        preset("inductoin", "quick")


def test_every_preset_has_the_runs_that_its_docs_say():
    sizes = {task: {name: len(preset(task, name)) for name in presets} for task, presets in PRESETS.items()}
    assert sizes == {
        "induction": {
            "quick": 3, "full": 12, "figure4": 660, "figures14-17": 7920, "settings": 132, "variants": 24,
            "bfloat16": 22, "beyond": 6, "paper": 8640,
        },
        "classification": {
            "quick": 3, "figure6": 495, "figures18-20": 1980, "figure21": 990, "beyond": 25, "paper": 12960,
        },
    }  # fmt: skip


def test_each_run_is_made_once_and_the_table_is_in_the_order_asked(marks):
    one, two, three = (Trial(marks, number) for number in (1, 2, 3))
    first = sweep([two, one, two], Here())
    assert list(first["result.number"]) == [2, 1, 2]
    again = sweep([three, two, one], Here())
    assert list(again["result.number"]) == [3, 2, 1]
    assert attempts(marks) == {1: 1, 2: 1, 3: 1}
    assert list(again["key"]) == [three.key, two.key, one.key]


def test_limit_makes_the_first_of_the_missing(marks):
    trials = [Trial(marks, number) for number in range(5)]
    sweep(trials[:1], Here())
    table = sweep(trials, Here(), limit=2)
    assert list(table["status"]) == ["done", "done", "done", "not run", "not run"]
    assert list(sweep(trials, Here(), limit=0)["status"]) == list(table["status"])
    with pytest.raises(SpecError, match="limit must be at least 0"):
        sweep(trials, Here(), limit=-1)


def test_a_failed_run_is_recorded_stops_nothing_and_is_tried_again(marks, monkeypatch):
    trials = [Trial(marks, 0, "raise"), Trial(marks, 1, "diverge"), Trial(marks, 2)]
    where = f"the column 'sentence' says why, {Path('runs/failures')} has tracebacks"
    with pytest.warns(UserWarning, match=f"^of 3 runs 1 failed, 1 diverged: {where}$"):
        table = sweep(trials, Here())
    assert list(table["status"]) == ["failed", "diverged", "done"]
    reason, *others = table["sentence"]
    assert re.fullmatch(r"plugin 'tests.training.faults', function _run, line \d+: RuntimeError: two lines", reason)
    assert others == ["it grew", "finished"]
    record = json.loads((Path("runs/failures") / f"{trials[0].key}.json").read_text())
    assert (record["attempts"], record["spec"]) == (1, trials[0].plain())
    assert "in _run" in record["traceback"]
    monkeypatch.setattr(Trial, "_run", lambda self, device: Store("other").load(trials[2].key))
    Store("other").put(Store("runs").load(trials[2].key))
    with pytest.warns(UserWarning, match="^of 3 runs 1 diverged: "):
        assert list(sweep(trials, Here())["status"]) == ["done", "diverged", "done"]
    assert not list(Path("runs/failures").iterdir())


def test_changed_code_is_noticed(marks):
    """Its results would be filed under a key that nobody asked for."""
    trial = Trial(marks, 1)
    run_one("0" * 24, trial.json_text(), "runs", "cpu")
    assert "not what it was" in json.loads(Path(f"runs/failures/{'0' * 24}.json").read_text())["reason"]


def test_an_executor_that_does_nothing_is_told_on(marks):
    with pytest.warns(UserWarning, match="of 1 runs 1 failed"):
        table = sweep([Trial(marks)], Idle())
    assert list(table["status"]) == ["failed"]
    assert "without a result" in table["sentence"][0]


def test_failures_are_counted_in_the_progress(marks, monkeypatch, caplog):
    monkeypatch.setattr("softmaxlab.core.progress.QUIET_SECONDS", -1.0)
    monkeypatch.setattr("softmaxlab.core.progress.LOG_SECONDS", -1.0)
    with caplog.at_level(logging.INFO), pytest.warns(UserWarning, match="1 failed"):
        sweep([Trial(marks, 0, "raise"), Trial(marks, 1)], Here())
    assert caplog.messages[-1].startswith("runs: 2/2, 1 failed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"specs": TINY}, "list of specs, got Run"),
        ({"specs": [TINY, "TINY"]}, "list of specs, got str"),
        ({"executor": "lokal"}, "did you mean 'local'"),
        ({"jobs": 0}, "jobs must be a whole number from 1, got 0"),
        ({"jobs": 2, "executor": Here()}, "jobs belongs to the executor"),
        ({"device": "nowhere"}, "device 'nowhere' cannot be used"),
    ],
)
def test_bad_input_is_refused_before_any_work(arguments, message):
    with pytest.raises(SpecError, match=message):
        sweep(**({"specs": [TINY]} | arguments))
    assert not list(Path().glob("runs/*"))


def test_a_store_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="is a file"):
        sweep([TINY], store="file")
    with pytest.raises(StoreError, match="the store file/below cannot be written"):
        sweep([TINY], store="file/below")


@pytest.mark.parametrize("table", ["file/below.csv", f"{'a' * 300}.csv", "folder.csv"])
def test_a_table_that_cannot_be_written_is_refused_before_any_work(tmp_path, capsys, table):
    (tmp_path / "file").touch()
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "specs.json").write_text(json.dumps([TINY.plain()]))
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "specs.json", "--table", table])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "table" in err
    assert not (tmp_path / "runs").exists()


def test_options_of_executors_are_checked():
    with pytest.raises(SpecError, match="executor 'local' has no option 'partition', it has: jobs"):
        executor_named("local", partition="gpu", address=None)
    with pytest.raises(SpecError, match="whole number on SLURM"):
        executor_named("slurm", gpus_per_task=0.5)
    with pytest.raises(SpecError, match="jobs goes with Ray on this machine"):
        executor_named("ray", jobs=2, address="auto")


def test_a_cluster_that_is_not_there_is_told_at_once(marks):
    with pytest.raises(SpecError, match=r"no Ray cluster can be joined at '127\.0\.0\.1:1': "):
        sweep([Trial(marks)], executor_named("ray", address="127.0.0.1:1"))
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90:01", 91), ("1:30:00", 90), ("1-0", 1440), ("2-01:30", 2970), ("0:00:30", 1)]
)
def test_time_limits_are_read_as_sbatch_reads_them(text, expected):
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-1", "0", "1:2:3:4", "1.5", "25:61", "٣:00:00", f"{'9' * 20}-0"])
def test_other_time_limits_are_refused(text):
    with pytest.raises(SpecError, match="time"):
        Slurm(time=text)


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(("sweep", *arguments))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["induction", "--preset", "figure6"], "did you mean 'figure4'"),
        (["absent.json"], "cannot read the specs"),
        (["induction", "--set", "hedas=2"], "did you mean 'heads'"),
        (["induction", "--table", "t.txt"], ".csv or .parquet"),
        (["induction", "--dry-run"], "--dry-run goes with --executor slurm"),
        (["induction", "--executor", "local", "--address", "auto"], "has no option 'address'"),
        (["absent.json", "--preset", "quick"], "no presets"),
    ],
)
def test_the_command_refuses_bad_input(capsys, arguments, message):
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(Path().iterdir())


def test_help_has_examples_and_every_option(capsys):
    code, out, _ = call(capsys, "--help")
    assert code == 0
    for word in ("Examples", "--preset", "--jobs", "--address", "--gpus-per-task", "--partition", "--dry-run"):
        assert word in out


def test_dry_run_prints_the_script_and_its_core_hours(capsys):
    arguments = ("--executor", "slurm", "--partition", "cpu", "--account", "lab", "--time", "2:00:00", "--jobs", "8")
    code, out, _ = call(capsys, "induction", "--preset", "figure4", *arguments, "--gpus-per-task", "1", "--dry-run")
    assert code == 0
    for flag in ("partition=cpu", "account=lab", "time=120", "cpus-per-task=8", "gpus-per-task=1", "array=0-82%83"):
        assert f"#SBATCH --{flag}\n" in out
    assert "660 runs in 83 elements: at most 1328 core-hours; nothing was submitted" in out
    assert not list(Path().iterdir())


def test_a_failed_run_makes_the_exit_code_1_and_limit_0_runs_nothing(capsys, marks):
    trials = [Trial(marks, number) for number in range(2)]
    Path("mine.json").write_text(json.dumps([trial.plain() for trial in trials]))
    sweep(trials[:1], Here())
    code, out, _ = call(capsys, "mine.json", "--limit", "0")
    assert code == 0
    assert "mine: 1 done, 1 not run (1 there already, 0 made now, 0 failed now)" in out
    with pytest.warns(UserWarning, match="1 diverged"):
        sweep([Trial(marks, 2, "diverge")], Here())
    code, out, _ = call(capsys, "mine.json", "--set", "number=2", "--set", "does=diverge", "--json", "--table", "t.csv")
    document = json.loads(out)
    assert code == 1
    assert document["counts"] == {"diverged": 1}
    assert [document[name] for name in ("there_already", "made_now", "failed_now")] == [1, 0, 0]
    assert document["runs"][0]["sentence"] == "it grew"
    assert Path("t.csv").exists()
    assert Path("runs/mine.csv").exists()


def test_the_command_says_what_was_there_what_was_made_and_what_failed(capsys, marks, monkeypatch):
    trials = [Trial(marks, 0), Trial(marks, 1), Trial(marks, 2, "raise"), Trial(marks, 3, "diverge"), Trial(marks, 4)]
    Path("mine.json").write_text(json.dumps([trial.plain() for trial in trials]))
    sweep(trials[:1], Here())
    monkeypatch.setattr("softmaxlab.training.executors.executor_named", lambda *_, **__: Here())
    code, out, err = call(capsys, "mine.json", "--limit", "3")
    assert (code, err) == (1, "")
    assert "(1 there already, 2 made now, 1 failed now)" in out
    assert "Warning" not in out
    code, out, _ = call(capsys, "mine.json", "--limit", "0")
    assert code == 1
    assert "(3 there already, 0 made now, 0 failed now)" in out


def test_rows_of_the_json_document_are_json_through_and_through(capsys):
    task = Induction(vocab=6, tokens=3, train=64, evaluate=16)
    good = Run(task=task, width=8, heads=2, layers=1, epochs=1, map="relu")
    bad = good.replace(lr=1e30, optimizer="sgd", epochs=3)
    Path("mine.json").write_text(json.dumps([good.plain(), bad.plain()]))
    sweep([good], Here())
    with pytest.warns(UserWarning, match="diverged"):
        table = sweep([good, bad], Here())
    _, out, _ = call(capsys, "mine.json", "--limit", "0", "--json")
    first, second = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["runs"]
    assert first["sink_score"] == json.loads(table["sink_score"][0])
    assert [len(layer) for layer in first["sink_score"]] == [2]
    assert first["measure"] == ["heads"]
    assert first["accuracy"] == table["accuracy"][0]
    assert first["sentence"] == "finished"
    assert second["accuracy"] is None
    assert second["train_loss"][-1] is None, "which is not finite"


def test_words_that_look_like_lists_stay_words():
    import pandas

    from softmaxlab.training.table_overview import json_rows

    cells = {"key": "k", "sentence": "[1]", "name": "[seen", "score": "[[1e999, null], [-2e-09, 3]]", "x": float("inf")}
    (row,) = json_rows(pandas.DataFrame([cells]))
    assert row == {"key": "k", "sentence": "[1]", "name": "[seen", "score": [[None, None], [-2e-9, 3]], "x": None}


@pytest.mark.parametrize("change", [{"map": "mine"}, {"task": {"kind": "mymodule.Mine"}}])
def test_what_may_be_the_users_own_is_told_of_plugins(capsys, change):
    Path("mine.json").write_text(json.dumps([TINY.plain() | change]))
    code, out, err = call(capsys, "mine.json")
    assert (code, out) == (2, "")
    assert err.endswith("(if it is yours, name its module with --plugin)\n")
    assert err.count("\n") == 1
    Path("mine.json").write_text(json.dumps([TINY.plain() | {"heads": 3}]))
    assert "--plugin" not in call(capsys, "mine.json")[2]


def test_sweeps_are_listed_with_their_presets(capsys):
    with pytest.raises(SystemExit):
        main(("list", "sweeps", "--json"))
    rows = json.loads(capsys.readouterr().out)
    assert {(row["sweep"], row["preset"]) for row in rows} == {(t, name) for t in PRESETS for name in PRESETS[t]}
    assert {row["preset"]: row["runs"] for row in rows if row["sweep"] == "classification"}["figure6"] == 495
    assert all(row["about"].endswith(".") and "\n" not in row["about"] for row in rows)


def test_ray_that_runs_already_says_what_it_ignores():
    told = r"Ray runs in this process already and is used as it is: {} is ignored \(call ray.shutdown\(\) first"
    with pytest.warns(UserWarning, match=told.format("jobs=2")):
        executor_named("ray", jobs=2)._warn_of_ignored()
    with pytest.warns(UserWarning, match=told.format("address='auto'")):
        executor_named("ray", address="auto")._warn_of_ignored()
    executor_named("ray")._warn_of_ignored()  # nothing to warn of: a warning would fail this test


def test_a_ray_that_runs_already_is_used_and_left_running(monkeypatch):
    from types import SimpleNamespace

    from softmaxlab.training.executors import ray

    there = SimpleNamespace(is_initialized=lambda: True)  # no init, no shutdown
    monkeypatch.setattr(ray, "_imported", lambda: there)
    with pytest.warns(UserWarning, match="jobs=3 is ignored"), ray.Ray(jobs=3)._connected() as connected:
        assert connected is there
