"""The early stop of induction: by its sink scores and its accuracy, and never with rows that have no weight."""

import numpy as np

import softmaxlab as sl
from softmaxlab.training import Induction, Run, evaluate, loop
from softmaxlab.training import early_stopping as settled
from softmaxlab.training.run import build, optimizer_of

SHORT = Run(
    task=Induction(vocab=8, tokens=4, shifted=False, train=512, evaluate=32),
    width=16, heads=4, batch=64, epochs=2, lr=1e-2,
)  # fmt: skip
LONGER = SHORT.replace(heads=2, epochs=12)  # 96 steps


def first_rest(paths, rest: float, solved: float) -> int | None:
    """The first step at which the last four readings lie within `rest` and the accuracy is above `solved`."""
    for i in range(3, len(paths)):
        recent = [scores for _, scores, _ in paths[i - 3 : i + 1]]
        step, _, accuracy = paths[i]
        if np.ptp(recent, axis=0).max() < rest and accuracy > solved:
            return step
    return None


def test_induction_settles_when_its_sink_scores_rest(monkeypatch):
    rest, solved = 0.1, 0.4  # first met at different steps, and together at a third
    for name, value in {"WINDOW": 12, "EVERY": 4, "REST": rest, "SOLVED": solved}.items():
        monkeypatch.setattr(settled, name, value)
    task, model = LONGER.task, build(LONGER)
    data, held_out = (task.data(0, split) for split in ("train", "evaluate"))
    paths = {"sink_score": [], "sparsity": []}
    order = loop.batches(512, 64, 12, 0, "cpu")
    for step in loop.train(model, data, optimizer_of(LONGER, model), order, task.aux):
        if step.number % 4 == 0:
            scores = evaluate.through_time(task, evaluate.patterns(model, held_out.tokens))
            accuracy = evaluate.accuracy(model, held_out)["induction_accuracy"].item()
            for name, path in paths.items():
                path.append((step.number, scores[name].numpy(), accuracy))
    stopped = sl.simulate(LONGER.replace(stop="settled")).notes["stopped_at"]
    assert stopped == first_rest(paths["sink_score"], rest, solved)
    assert stopped < 96
    others = {
        "sparsity": first_rest(paths["sparsity"], rest, solved),
        "accuracy alone": first_rest(paths["sink_score"], np.inf, solved),
        "rest alone": first_rest(paths["sink_score"], rest, 0),
    }
    assert stopped not in others.values(), others


def test_a_head_with_empty_rows_never_rests(monkeypatch):
    for name, value in {"WINDOW": 8, "EVERY": 4, "REST": np.inf, "SOLVED": -1}.items():
        monkeypatch.setattr(settled, name, value)
    assert sl.simulate(SHORT.replace(stop="settled")).notes["stopped_at"] == 12
    without_weight = sl.simulate(SHORT.replace(stop="settled", map="relu"))
    assert (without_weight["empty"] > 0).any()
    assert without_weight.notes["stopped_at"] is None
