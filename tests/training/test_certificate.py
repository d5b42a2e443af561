"""The certificate of a run: is what is measured stable over the last fifth of training?"""

import time

import numpy as np
import pytest
import torch

import softmaxlab as sl
from softmaxlab.core.store import Store
from softmaxlab.training import Classification, Induction, Run, certificate, evaluate, loop, train
from softmaxlab.training import early_stopping as settled
from softmaxlab.training.run import build, optimizer_of
from softmaxlab.training.table import row

LEARNING = Run(task=Induction(vocab=12, tokens=5, train=2_000, evaluate=200), width=32, heads=2, batch=64, epochs=1)
LEARNT = Run(task=Classification(vocab=9, labels=2, tokens=4, train=512, evaluate=64), width=16, heads=2, epochs=60,
             batch=64, lr=3e-3)  # fmt: skip
COST = 0.02  # of a run of the default length may go into its certificate


def test_a_task_that_is_being_learnt_is_moving():
    found = sl.simulate(LEARNING).notes["certificate"]
    assert found["kind"] == "moving"
    assert found["since"] == int(0.8 * found["steps"])
    assert max(found["moved"].values()) > certificate.STABLE


def test_a_long_run_of_an_easy_task_is_stable_and_its_beginning_is_not():
    found = sl.simulate(LEARNT).notes["certificate"]
    assert found["kind"] == "minimum", found
    assert max(found["moved"].values()) <= certificate.STABLE
    assert "flip_rate" in found["moved"]
    assert sl.simulate(LEARNT.replace(epochs=2)).notes["certificate"]["kind"] == "moving"


def test_the_numbers_are_the_differences_of_two_readings():
    found = sl.simulate(LEARNING).notes["certificate"]
    model = build(LEARNING)
    task = LEARNING.task
    data, held_out = (task.data(0, split) for split in ("train", "evaluate"))
    order = loop.batches(2_000, 64, 1, 0, "cpu")
    scores = {}
    for step in loop.train(model, data, optimizer_of(LEARNING, model), order, task.aux):
        if step.number in (found["since"], found["steps"]):
            scores[step.number] = evaluate.through_time(task, evaluate.patterns(model, held_out.tokens))["sink_score"]
    moved = (scores[found["steps"]] - scores[found["since"]]).abs().max()
    assert found["moved"]["sink_score"] == pytest.approx(float(moved), abs=1e-6)


def test_training_is_the_same_to_the_last_bit_without_it(monkeypatch):
    first, with_it = train(LEARNING)
    monkeypatch.setattr(certificate.Stability, "after", lambda self, step: None)
    second, without = train(LEARNING)
    assert without.notes["certificate"]["kind"] == "undersampled"
    assert all(torch.equal(x, y) for x, y in zip(first.parameters(), second.parameters(), strict=True))
    assert all(np.array_equal(with_it[name], without[name], equal_nan=True) for name in without)


def test_no_measures_no_certificate_and_no_evaluation(monkeypatch):
    monkeypatch.setattr(certificate, "measures", None)
    assert "certificate" not in sl.simulate(LEARNING.replace(measure=())).notes


def test_a_run_that_diverged_or_is_one_step_long_is_not_stable():
    assert sl.simulate(LEARNING.replace(lr=1e30)).notes["certificate"]["kind"] == "moving"
    one = LEARNING.replace(task=Induction(vocab=12, tokens=5, train=64, evaluate=32))
    assert sl.simulate(one).notes["certificate"]["kind"] == "undersampled"


def test_a_settled_run_is_compared_over_its_window(monkeypatch):
    for name, value in {"WINDOW": 8, "EVERY": 4, "REST": np.inf, "SOLVED": -1}.items():
        monkeypatch.setattr(settled, name, value)
    result = sl.simulate(LEARNING.replace(stop="settled"))
    found = result.notes["certificate"]
    assert (result.notes["stopped_at"], found["steps"], found["since"]) == (12, 12, 4)
    assert set(found["moved"]) == {"sink_score"}


def test_a_head_that_becomes_a_sink_counts_however_little_it_moved():
    before, last = ({"accuracy": torch.tensor(1.0), "sink_score": torch.tensor([[0.2, x]])} for x in (0.899, 0.901))
    assert certificate.certificate((8, before), 10, before)["kind"] == "minimum"
    found = certificate.certificate((8, before), 10, last)
    assert (found["kind"], found["sink_heads"]) == ("moving", [0, 1])


def test_a_head_without_a_measure():
    nan = {"accuracy": torch.tensor(1.0), "flip_rate": torch.tensor([[0.5, torch.nan]])}
    number = nan | {"flip_rate": torch.tensor([[0.5, 0.5]])}
    assert certificate.certificate((8, nan), 10, nan)["kind"] == "minimum"
    assert certificate.certificate((8, nan), 10, number)["moved"]["flip_rate"] == 1.0


def test_tables_keep_their_columns(tmp_path):
    store = Store(tmp_path)
    result = sl.simulate(LEARNING, store)
    assert result.notes["certificate"]["kind"] == store.load(LEARNING.key).notes["certificate"]["kind"]
    cells = row(LEARNING, LEARNING.key, store)
    assert "certificate" not in cells
    assert cells["steps"] == result.notes["steps"]


def test_it_costs_little_of_a_default_run():
    spec = Run(task=Induction())
    model, held_out = build(spec), spec.task.data(0, "evaluate")
    few = Induction(train=8 * spec.batch).data(0, "train")
    steps = loop.train(model, few, optimizer_of(spec, model), loop.batches(8 * 256, 256, 1, 0, "cpu"), spec.task.aux)
    next(steps)
    began = time.process_time()
    made = sum(1 for _ in steps)
    a_step = (time.process_time() - began) / made
    began = time.process_time()
    certificate.measures(spec.task, model, held_out, 0)
    assert time.process_time() - began < COST * a_step * spec.steps()
