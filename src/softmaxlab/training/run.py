"""One training run: a task, a transformer, an optimizer, a seed."""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.attention import MAPS
from softmaxlab.core.progress import Progress
from softmaxlab.core.registry import Named
from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.core.spec import Spec
from softmaxlab.training.tasks import Positions, Task

Count = Annotated[int, Field(ge=1, le=10**6)]
Positive = Annotated[float, Field(gt=0)]


class Run(Spec):
    """Train a transformer and measure it. The defaults are the polarization paper's.

    `positions` are the task's own if not given. `measure=()` leaves out all measures but accuracy.
    """

    task: Task
    heads: Count = 4
    layers: Annotated[int, Field(ge=1, le=100)] = 2
    map: Annotated[str, Named(MAPS)] = "softmax"
    positions: Positions | None = None
    mlp: bool = True
    layernorm: bool = True
    width: Count = 128
    optimizer: Literal["adamw", "sgd"] = "adamw"
    weight_decay: float = Field(default=0.01, ge=0.0)
    lr: Positive = 1e-3
    batch: Count = 256
    epochs: Count = 10
    gate: bool = False
    measure: tuple[Literal["heads"], ...] = ("heads",)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"heads must divide width = {self.width}, got {self.heads}")
        if self.positions == "concat" and self.width % 2:
            raise ValueError(f"width must be even for positions='concat', got {self.width}")
        return self

    def chosen_positions(self) -> Positions:
        return self.positions or self.task.own_positions()

    def _run(self, device: str) -> Result:
        return train(self, device)[1]


def build(spec: Run, device: str = "cpu"):
    """The transformer of a run before its first step, with torch's default initialisation from the seed."""
    import torch

    from softmaxlab.core.random import torch_generator
    from softmaxlab.training.model import Shape, Transformer

    task = spec.task
    shape = Shape(
        symbols=task.symbols(),
        outputs=task.outputs(),
        length=task.length(),
        positions=spec.chosen_positions(),
        causal=task.causal,
        **{name: getattr(spec, name) for name in ("width", "heads", "layers", "map", "mlp", "layernorm", "gate")},
    )
    with torch.random.fork_rng(devices=[]):
        # layers draw from torch's global generator, which is put back afterwards
        torch.manual_seed(torch_generator(spec.seed, "training/initialisation").initial_seed())
        return Transformer(shape).to(device)


def train(spec: Run, device: str = "cpu"):
    """The trained transformer and its result."""
    from softmaxlab.training import loop
    from softmaxlab.training.evaluate import accuracy, head_measures

    model = build(spec, device)
    data, held_out = (spec.task.data(spec.seed, split, device) for split in ("train", "evaluate"))
    order = loop.batches(len(data.tokens), spec.batch, spec.epochs, spec.seed, device)
    steps = -(-len(data.tokens) // spec.batch) * spec.epochs
    losses, status = np.full((spec.epochs,), np.nan), Status()
    with Progress(steps, "training") as progress:
        total, count = 0.0, 0
        for step in loop.train(model, data, optimizer_of(spec, model), order, spec.task.weight_elsewhere()):
            total, count = total + step.loss, count + 1
            progress.advance()
            if step.ends_epoch:
                losses[step.epoch], total, count = float(total) / count, 0.0, 0
                if not np.isfinite(losses[step.epoch]):
                    sentence = f"the loss is not finite in epoch {step.epoch + 1}; try a smaller lr than {spec.lr:g}"
                    status = Status(Outcome.DIVERGED, sentence)
                    break
    arrays = {"epoch": np.arange(1, spec.epochs + 1), "train_loss": losses}
    axes = {"epoch": ("epoch",), "train_loss": ("epoch",)}
    if status.ok:
        arrays |= accuracy(model, held_out)
        if spec.measure:
            heads = head_measures(spec.task, model, held_out, spec.seed)
            arrays |= heads
            axes |= {name: ("layer", "head", "other_head")[: value.dim()] for name, value in heads.items()}
    arrays = {name: np.asarray(value.cpu() if hasattr(value, "cpu") else value) for name, value in arrays.items()}
    return model, Result(arrays, axes, status, {"steps": steps})


def optimizer_of(spec: Run, model):
    """AdamW, fused where torch can, or plain SGD."""
    import torch

    if spec.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=spec.lr, weight_decay=spec.weight_decay)
    return torch.optim.AdamW(model.parameters(), lr=spec.lr, weight_decay=spec.weight_decay, fused=True)
