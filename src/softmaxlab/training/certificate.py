"""Certify that the measures of a training run are stable: after 80 % of its steps against those at its end.

    minimum        no measure moved by more than STABLE, and the number of sink heads is the same
    moving         one did
    undersampled   there is nothing to compare: the run is one step long

Under AdamW weights never come to rest, and no Hessian is computed: here `minimum` says that what is measured is stable,
as far as one comparison tells. The evaluation draws from generators of its own and takes no gradient, so a run is the
same with it and without.
"""

from typing import Any

import torch
from torch import Tensor

from softmaxlab.measure.sinks import SINK
from softmaxlab.training.evaluate import accuracy, head_measures
from softmaxlab.training.model import Transformer
from softmaxlab.training.tasks import Data, Task

PART = 0.8  # of the steps, after which the measures are taken for the first time
# as in early_stopping.py; a rate over 500 pairs or 1000 sequences has a standard error of up to 0.022 or 0.016
STABLE = 0.02
# measures that are shares of 1: entropies and totals have other units and move with these
COMPARED = (
    "accuracy",
    "induction_accuracy",
    "sink_score",
    "sink_score_pooled",
    "sparsity",
    "empty",
    "previous_token",
    "flip_rate",
)
Measures = dict[str, Tensor]


def measures(task: Task, model: Transformer, data: Data, seed: int) -> Measures:
    """All that is measured of a model."""
    return accuracy(model, data) | head_measures(task, model, data, seed)


class Stability:
    """Watches a run of so many steps: `after(step)` measures the model when that step is due."""

    def __init__(self, task: Task, model: Transformer, data: Data, seed: int, steps: int):
        self.arguments = (task, model, data, seed)
        self.due = max(1, int(PART * steps))
        self.earlier: tuple[int, Measures] | None = None

    def after(self, step: int) -> None:
        if step == self.due:
            self.earlier = step, measures(*self.arguments)


def certificate(earlier: tuple[int, Measures] | None, steps: int, last: Measures) -> dict[str, Any]:
    """The certificate of a run of so many steps, from its measures at an earlier step and at its end."""
    if earlier is None or earlier[0] == steps:
        return _verdict("undersampled", "there is no earlier step to compare with") | {"steps": steps}
    since, before = earlier
    moved = {name: _moved(before[name], last[name]) for name in COMPARED if name in before}
    numbers: dict[str, Any] = {"steps": steps, "since": since, "moved": moved}
    if "sink_score" in before:
        numbers["sink_heads"] = [int((x["sink_score"] > SINK).sum()) for x in (before, last)]
    name = max(moved, key=lambda name: moved[name])
    if not moved[name] <= STABLE:
        return numbers | _verdict("moving", f"{name} moved by {moved[name]:.2g} since step {since} of {steps}")
    if len(set(numbers.get("sink_heads", ()))) > 1:
        one, other = numbers["sink_heads"]
        return numbers | _verdict("moving", f"{other} heads are sinks, {one} were at step {since} of {steps}")
    return numbers | _verdict(
        "minimum", f"no measure moved by more than {moved[name]:.2g} since step {since} of {steps}"
    )


def _moved(before: Tensor, last: Tensor) -> float:
    """The largest change; 1, the whole range, of a head that has the measure at one of the two steps only."""
    gaps = (last.double() - before.double()).abs()
    gaps = torch.where(before.isnan() & last.isnan(), 0.0, gaps)
    return float(torch.where(gaps.isnan(), 1.0, gaps).max())


def _verdict(kind: str, why: str) -> dict[str, str]:
    heads = {
        "moving": "still moving",
        "undersampled": "not to be judged",
        "minimum": "what is measured is stable",
    }
    return {"kind": kind, "sentence": f"{heads[kind]}: {why}"}
