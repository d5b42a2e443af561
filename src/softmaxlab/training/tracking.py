"""Track heads while a transformer trains.

`heads`: at log-spaced steps, on the first DRIVEN evaluation sequences, of each head and key j, averaged over the
queries that count and see the key:

    weight w_j, share s_j = w_j/Σw
    drive u_j    −∂L/∂w_j = −⟨∂L/∂o, v_j⟩, with o = Σ_j w_j v_j the head's output and L the loss of a sample
    rate         s_j(u_j − m), m = Σ_j s_j u_j: how fast the value-softmax flow would raise score j

the loss on those sequences, and the head measures of evaluate.py, `empty` among them. A row without any weight has no
shares: share and rate are averaged over the other rows, and NaN where there is none.

`cls`: at every step, the weights of query CLS in one sample of each label.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from softmaxlab.errors import SpecError
from softmaxlab.training.evaluate import patterns, through_time
from softmaxlab.training.loop import loss_of
from softmaxlab.training.model import Trace, Transformer
from softmaxlab.training.tasks import Data, Task

DRIVEN = 256  # sequences, as many as in a batch: a record then costs what a step does
POINTS = 64  # log-spaced; after rounding some coincide, and more than 40 are left of a run of 400 steps


def tracked_steps(steps: int) -> list[int]:
    """Return the tracked steps: 0, the start, then log-spaced ones up to the last."""
    return [0, *np.unique(np.geomspace(1, steps, POINTS).round().astype(int)).tolist()]


class HeadTrack:
    """The measures and drives of every head, at log-spaced steps."""

    def __init__(self, task: Task, model: Transformer, data: Data, steps: int):
        self.task, self.model, self.data = task, model, data
        self.due = set(tracked_steps(steps))
        self.steps: list[int] = []
        self.records: list[dict[str, Tensor]] = []

    def after(self, step: int) -> None:
        if step not in self.due:
            return
        self.steps.append(step)
        measures = through_time(self.task, patterns(self.model, self.data.tokens))
        few = Data(self.data.tokens[:DRIVEN], self.data.targets[:DRIVEN])
        self.records.append(measures | drives(self.task, self.model, few))

    def arrays(self) -> Iterator[tuple[str, Tensor | np.ndarray, tuple[str, ...]]]:
        """Name, values and axes of all that was recorded."""
        yield "track_step", np.array(self.steps), ("track_step",)
        for name in self.records[0]:
            values = torch.stack([record[name] for record in self.records])
            yield f"track_{name}", values, ("track_step", "layer", "head", "key")[: values.dim()]


class ClsTrack:
    """The weights of query CLS, in one evaluation sequence of each label, after every step."""

    def __init__(self, model: Transformer, data: Data):
        if data.targets.dim() != 1:
            raise SpecError("track 'cls' needs a task with one label for each sample, got one for each position")
        first = [int((data.targets == label).nonzero()[0]) for label in data.targets.unique()]
        self.model, self.tokens = model, data.tokens[first]
        self.weights: list[Tensor] = []

    def after(self, step: int) -> None:
        self.weights.append(patterns(self.model, self.tokens)[..., -1, :])

    def arrays(self) -> Iterator[tuple[str, Tensor | np.ndarray, tuple[str, ...]]]:
        yield "cls_step", np.arange(len(self.weights)), ("cls_step",)
        yield "cls_tokens", self.tokens, ("sample", "key")
        yield "cls_weights", torch.stack(self.weights), ("cls_step", "layer", "head", "sample", "key")


def drives(task: Task, model: Transformer, data: Data) -> dict[str, Tensor]:
    """weight, share, drive and rate, each [layer, head, key]; and the loss."""
    trace = Trace()
    loss = loss_of(model(data.tokens, trace=trace), data.targets, task.weight_elsewhere())
    gradients = torch.autograd.grad(loss * len(data.tokens), trace.weights)  # the loss is a mean over samples
    layers = [_averaged(task, w.detach().double(), -g.double()) for w, g in zip(trace.weights, gradients)]
    return {name: torch.stack([layer[name] for layer in layers]) for name in layers[0]} | {"loss": loss.detach()}


def _averaged(task: Task, weights: Tensor, u: Tensor) -> dict[str, Tensor]:
    """The averages over queries of one layer's weights and drives [B, H, query, key]."""
    seen = torch.from_numpy(task.seen()).to(weights)
    w, u = weights[:, :, task.queries()], u[:, :, task.queries()] * seen
    full = (w != 0).any(dim=-1)  # [B, H, query]
    s = torch.where(full.unsqueeze(-1), w / w.sum(dim=-1, keepdim=True), 0.0)
    rate = s * (u - (s * u).sum(dim=-1, keepdim=True))
    every, with_weight = (_rows_that_see(rows, seen) for rows in (torch.ones_like(full), full))
    sums = {"weight": (w, every), "share": (s, with_weight), "drive": (u, every), "rate": (rate, with_weight)}
    return {name: x.sum(dim=(0, 2)) / rows for name, (x, rows) in sums.items()}


def _rows_that_see(rows: Tensor, seen: Tensor) -> Tensor:
    """Count the rows, true in [B, H, query], that see each key: [H, key]. One where no query ever does: 0/1 is 0."""
    return torch.where(seen.any(dim=0), rows.to(seen).sum(dim=0) @ seen, 1.0)
