"""The hook for those who watch a run."""

import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.training import Induction, Run, trackers

SUMMED = 1e-6  # relative: an epoch's mean loss is summed in float32, over 32 steps
TINY = Run(task=Induction(vocab=8, tokens=4, train=256, evaluate=16), width=8, heads=1, layers=1, batch=8, epochs=2)


@pytest.fixture(autouse=True)
def _off_again(monkeypatch):
    monkeypatch.delenv(trackers.VARIABLE, raising=False)
    monkeypatch.setenv(trackers.VARIABLE, "")  # so that what a test chooses is undone


def lines_in(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / f"{TINY.key}.jsonl").read_text().splitlines()]


def test_off_unless_chosen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sl.simulate(TINY)
    assert list(tmp_path.iterdir()) == []


def test_jsonl_holds_the_spec_and_the_losses(tmp_path):
    trackers.choose("jsonl", tmp_path)
    sl.simulate(TINY)
    first, *readings = lines_in(tmp_path)
    assert first == {"step": 0, "spec": TINY.plain()}
    assert [reading["step"] for reading in readings] == [20, 40, 60, 64]  # every 20, and the last


def test_readings_are_the_losses_of_their_steps(tmp_path, monkeypatch):
    trackers.choose("jsonl", tmp_path / "few")
    sl.simulate(TINY)
    monkeypatch.setattr(trackers, "EVERY", 1)
    trackers.choose("jsonl", tmp_path / "all")
    result = sl.simulate(TINY)
    few, every = lines_in(tmp_path / "few")[1:], lines_in(tmp_path / "all")[1:]
    assert [reading["step"] for reading in every] == [*range(1, 65)]
    assert few == [every[19], every[39], every[59], every[63]]
    losses = np.array([reading["loss"] for reading in every])
    assert len(set(losses)) == 64, "any step could be taken for another"
    np.testing.assert_allclose(losses.reshape(2, 32).mean(axis=1), result["train_loss"], rtol=SUMMED)


def test_tensorboard_gets_every_reading(tmp_path):
    pytest.importorskip("tensorboardX")
    trackers.choose("tensorboard", tmp_path)
    sl.simulate(TINY)
    (events,) = (tmp_path / TINY.key).iterdir()
    assert events.stat().st_size > 100
    assert events.read_bytes().count(b"loss") >= 4


def test_wandb_runs_offline(tmp_path, monkeypatch):
    seen = []

    def init(**given):
        seen.append(given)
        return SimpleNamespace(log=lambda values, step: seen.append(step), finish=lambda: seen.append("closed"))

    fake = ModuleType("wandb")
    fake.init, fake.Settings = init, dict
    fake.__spec__ = SimpleNamespace(name="wandb")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    trackers.choose("wandb", tmp_path)
    sl.simulate(TINY)
    assert seen[0]["mode"] == "offline"
    assert seen[0]["config"] == TINY.plain()
    assert seen[1:] == [20, 40, 60, 64, "closed"]


def test_a_last_step_that_is_due_is_logged_once(tmp_path):
    trackers.choose("jsonl", tmp_path)
    spec = TINY.replace(epochs=5)  # 160 steps
    sl.simulate(spec)
    steps = [json.loads(line)["step"] for line in (tmp_path / f"{spec.key}.jsonl").read_text().splitlines()]
    assert steps == [*range(0, 161, 20)]


def test_an_unknown_or_missing_tracker_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SpecError, match="unknown tracker 'tensorbord', did you mean 'tensorboard'"):
        trackers.choose("tensorbord", tmp_path)
    monkeypatch.setitem(trackers.PACKAGES, "wandb", "no_such_package")
    with pytest.raises(SpecError, match=r"tracker 'wandb' needs the package no_such_package: pip install"):
        trackers.choose("wandb", tmp_path)


def test_a_loss_that_is_no_number_is_null(tmp_path):
    log = trackers.Jsonl(tmp_path, TINY)
    log.log(20, {"loss": float("nan")})
    log.close()
    assert lines_in(tmp_path)[-1] == {"step": 20, "loss": None}
