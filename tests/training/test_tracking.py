"""What is recorded in training: the drive against its definition, when it is recorded, and what it costs nothing."""

import numpy as np
import pytest
import torch

import softmaxlab as sl
from softmaxlab.errors import SpecError
from softmaxlab.training import Classification, Induction, Run
from softmaxlab.training.loop import loss_of
from softmaxlab.training.run import build
from softmaxlab.training.tracking import drives, tracked_steps

SAME = 1e-5  # relative: float32 gradients, summed in another order
SMALL = Induction(vocab=9, tokens=5, train=512, evaluate=64)
LITTLE = {"width": 16, "heads": 2, "epochs": 2, "batch": 64}


def plain_drive(spec: Run, model, data) -> np.ndarray:
    """−⟨∂L/∂o, v_j⟩ of the last layer from hooks, one sample and query at a time: [head, key]."""
    seen = {}
    last = model.blocks[-1].attention
    handles = [
        last.v.register_forward_hook(lambda _, __, out: seen.update(v=out.detach())),
        last.o.register_forward_pre_hook(lambda _, given: seen.update(o=given[0])),
    ]
    loss = loss_of(model(data.tokens), data.targets, spec.task.weight_elsewhere())
    (gradient,) = torch.autograd.grad(loss, seen["o"])
    for handle in handles:
        handle.remove()
    samples, length = data.tokens.shape
    heads, part = spec.heads, spec.width // spec.heads
    total, count = np.zeros((heads, length)), np.zeros(length)
    for i in range(samples):
        for query in range(1, length - 2):
            for key in range(query + 1):
                count[key] += 1
                for h in range(heads):
                    g, v = (x[i, at, h * part : (h + 1) * part] for x, at in ((gradient, query), (seen["v"], key)))
                    total[h, key] -= samples * float(g @ v)
    return total / np.maximum(count, 1)


@pytest.mark.parametrize("map", ["softmax", "sigmoid", "linear_norm", "softmax1"])
def test_drive_is_minus_the_gradient_along_each_value(map):
    spec = Run(task=SMALL, map=map, **LITTLE)
    model, data = build(spec), SMALL.data(0, "evaluate")
    found = drives(spec.task, model, data)["drive"][-1].numpy()
    expected = plain_drive(spec, model, data)
    np.testing.assert_allclose(found, expected, rtol=SAME, atol=SAME * np.abs(expected).max())


def test_rates_sum_to_zero_and_shares_to_one_where_all_keys_are_seen():
    spec = Run(task=Classification(train=64, evaluate=32), **LITTLE)
    found = drives(spec.task, build(spec), spec.task.data(0, "evaluate"))
    np.testing.assert_allclose(found["share"].sum(dim=-1), 1.0, rtol=SAME)
    np.testing.assert_allclose(found["rate"].sum(dim=-1), 0.0, atol=SAME)


def test_enough_steps_are_tracked_and_early_ones_most():
    steps = tracked_steps(3910)
    assert len(steps) >= 40
    assert sum(step < 400 for step in steps) >= 25
    assert steps[0] == 0
    assert steps[-1] == 3910
    assert len(set(steps)) == len(steps)


def test_tracking_changes_nothing_else():
    plain = sl.simulate(Run(task=SMALL, **LITTLE))
    tracked = sl.simulate(Run(task=SMALL, track=("heads",), **LITTLE))
    for name in plain:
        np.testing.assert_array_equal(plain[name], tracked[name])
    assert tracked["track_step"][-1] == tracked.notes["steps"] == 16
    np.testing.assert_array_equal(tracked["track_sink_score"][-1], tracked["sink_score"])


def test_cls_weights_are_recorded_at_every_step_of_one_sample_of_each_label():
    spec = Run(task=Classification(train=256, evaluate=64), track=("cls",), **LITTLE)
    result = sl.simulate(spec)
    assert result["cls_weights"].shape == (9, 2, 2, 4, 11)
    np.testing.assert_allclose(result["cls_weights"].sum(axis=-1), 1.0, rtol=SAME)
    groups = (result["cls_tokens"][:, 0] - 1) // 10
    assert sorted(groups) == [0, 1, 2, 3]


def test_cls_needs_a_task_with_cls():
    with pytest.raises(SpecError, match="track 'cls' needs a task with CLS at its end, got Induction"):
        Run(task=SMALL, track=("cls",))


def test_heads_without_scores_have_no_drive():
    with pytest.raises(SpecError, match="track 'heads' needs a map whose weights depend on scores, got 'uniform'"):
        Run(task=SMALL, map="uniform", track=("heads",))
