"""The hook for those who watch a run."""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.training import Induction, Run, trackers

TINY = Run(task=Induction(vocab=8, tokens=4, train=256, evaluate=16), width=8, heads=1, layers=1, batch=8, epochs=2)


@pytest.fixture(autouse=True)
def _off_again(monkeypatch):
    monkeypatch.delenv(trackers.VARIABLE, raising=False)
    monkeypatch.setenv(trackers.VARIABLE, "")  # so that what a test chooses is undone


def test_off_unless_chosen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sl.simulate(TINY)
    assert list(tmp_path.iterdir()) == []


def test_jsonl_holds_the_spec_and_the_losses(tmp_path):
    trackers.choose("jsonl", tmp_path)
    result = sl.simulate(TINY)
    first, *readings = map(json.loads, (tmp_path / f"{TINY.key}.jsonl").read_text().splitlines())
    assert first == {"step": 0, "spec": TINY.plain()}
    assert [reading["step"] for reading in readings] == [20, 40, 60]
    assert abs(readings[-1]["loss"] - result["train_loss"][-1]) < 1  # near the last epoch's mean


def test_tensorboard_gets_every_reading(tmp_path):
    pytest.importorskip("tensorboardX")
    trackers.choose("tensorboard", tmp_path)
    sl.simulate(TINY)
    (events,) = (tmp_path / TINY.key).iterdir()
    assert events.stat().st_size > 100
    assert events.read_bytes().count(b"loss") >= 3


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
    assert seen[1:] == [20, 40, 60, "closed"]


def test_an_unknown_or_missing_tracker_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SpecError, match="unknown tracker 'tensorbord', did you mean 'tensorboard'"):
        trackers.choose("tensorbord", tmp_path)
    monkeypatch.setitem(trackers.PACKAGES, "wandb", "no_such_package")
    with pytest.raises(SpecError, match=r"tracker 'wandb' needs the package no_such_package: pip install"):
        trackers.choose("wandb", tmp_path)
