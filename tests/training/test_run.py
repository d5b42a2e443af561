"""One run: its early stop, its end when it diverges, its checkpoint, its seed, its bad inputs."""

import numpy as np
import pytest
import torch

import softmaxlab as sl
from softmaxlab.errors import SpecError, StoreError
from softmaxlab.training import Classification, Induction, Run, checkpoint, loop
from softmaxlab.training import early_stopping as settled
from softmaxlab.training.run import build, optimizer_of, train

EASY = Run(task=Classification(train=2048, evaluate=256), layers=1, heads=2, width=32, epochs=20, lr=3e-3, batch=64)
TINY = Run(task=Induction(vocab=8, tokens=4, train=256, evaluate=64), width=16, heads=2, epochs=2, batch=64)


def test_a_settled_run_is_the_beginning_of_the_full_one(monkeypatch):
    monkeypatch.setattr(settled, "WINDOW", 40)
    monkeypatch.setattr(settled, "EVERY", 10)
    model, result = train(EASY.replace(stop="settled"))
    stopped = result.notes["stopped_at"]
    assert stopped < 640, "it should settle long before the last step"
    assert stopped % 10 == 0
    assert result["accuracy"] > settled.SOLVED
    again, data = build(EASY), EASY.task.data(0, "train")
    for step in loop.train(again, data, optimizer_of(EASY, again), loop.batches(2048, 64, 20, 0, "cpu"), 0.0):
        if step.number == stopped:
            break
    for one, other in zip(model.parameters(), again.parameters()):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_heads_that_move_or_a_task_unsolved_do_not_settle(monkeypatch):
    monkeypatch.setattr(settled, "WINDOW", 40)
    monkeypatch.setattr(settled, "EVERY", 10)
    unsolved = EASY.replace(stop="settled", lr=1e-6, epochs=2)  # nothing moves, nothing is learned
    assert sl.simulate(unsolved).notes["stopped_at"] is None
    monkeypatch.setattr(settled, "REST", 1e-9)
    assert sl.simulate(EASY.replace(stop="settled", epochs=3)).notes["stopped_at"] is None


def test_a_run_that_diverges_says_so_and_keeps_what_it_recorded():
    result = sl.simulate(TINY.replace(optimizer="sgd", lr=1e20, layernorm=False))
    assert str(result.status) == "diverged: the loss is not finite in epoch 1; try a smaller lr than 1e+20"
    assert result["epoch"].tolist() == [1]
    assert "accuracy" not in result


def test_a_run_whose_last_step_blows_up_has_diverged():
    result = sl.simulate(TINY.replace(optimizer="sgd", lr=1e38, weight_decay=1e10, batch=256, epochs=1))
    assert "the weights are not finite after the last step" in result.status.sentence
    assert "accuracy" not in result


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    one, two, other = (sl.simulate(spec) for spec in (TINY, TINY, TINY.replace(seed=1)))
    np.testing.assert_array_equal(one["sink_score"], two["sink_score"])
    assert np.abs(one["sink_score"] - other["sink_score"]).max() > 0


def test_the_same_seed_gives_the_same_numbers_whatever_torch_drew_before():
    torch.manual_seed(1)
    one = sl.simulate(TINY)["train_loss"]
    torch.manual_seed(2)
    np.testing.assert_array_equal(one, sl.simulate(TINY)["train_loss"])


def test_measure_nothing_gives_accuracy_alone():
    result = sl.simulate(TINY.replace(measure=()))
    assert set(result) == {"epoch", "train_loss", "accuracy", "induction_accuracy"}


@pytest.mark.parametrize("map", ["softmax", "mlp_norm", "bayes_softmax"])
def test_a_checkpoint_comes_back_with_its_spec(tmp_path, map):
    spec = TINY.replace(map=map)
    model, _ = train(spec)
    path = checkpoint.save(model, spec, tmp_path / "deep" / "model.safetensors")
    again, read = checkpoint.load(path)
    assert read == spec
    tokens = spec.task.data(3, "evaluate").tokens
    torch.testing.assert_close(again(tokens), model(tokens), rtol=0, atol=0)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path):
    from safetensors.torch import save_file

    (tmp_path / "text").write_text("hello")
    with pytest.raises(StoreError, match="cannot read the checkpoint"):
        checkpoint.load(tmp_path / "text")
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(StoreError, match="is no checkpoint of a training run"):
        checkpoint.load(tmp_path / "other.safetensors")
    model, _ = train(TINY)
    checkpoint.save(model, TINY.replace(width=32), tmp_path / "wrong.safetensors")
    with pytest.raises(StoreError, match="do not fit its spec"):
        checkpoint.load(tmp_path / "wrong.safetensors")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"heads": 3}, "heads must divide width = 128, got 3"),
        ({"map": "sofmax"}, "unknown map 'sofmax', did you mean 'softmax'"),
        ({"epochs": 0}, "epochs must be"),
        ({"lr": -1.0}, "lr must be"),
        ({"stop": "setled"}, "stop must be"),
        ({"positions": "concat", "width": 127, "heads": 1}, "width must be even"),
        ({"track": ("everything",)}, "track"),
        ({"track": ("heads", "heads")}, "track must name each thing once"),
    ],
)
def test_bad_runs_are_refused_in_one_line(fields, message):
    with pytest.raises(SpecError, match=message) as caught:
        Run(task=Induction(), **fields)
    assert "\n" not in str(caught.value)


def test_bad_tasks_are_refused_in_one_line():
    with pytest.raises(SpecError, match="vocab must be at least 11, for BOS and 10 distinct tokens, got 10"):
        Induction(vocab=10)
    with pytest.raises(SpecError, match="vocab must be CLS and 4 equal groups of at least 10 tokens, got 42"):
        Classification(vocab=42)
    with pytest.raises(SpecError, match=r"Run\.task"):
        Run(task="induction")
