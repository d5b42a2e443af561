"""One training run: a task, a transformer, an optimizer, a seed."""

import json
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.attention import MAPS
from softmaxlab.core.cost import Cost
from softmaxlab.core.progress import Progress
from softmaxlab.core.registry import Named
from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.core.spec import Seed, Spec, added_later
from softmaxlab.training.tasks import Positions, Task

Count = Annotated[int, Field(ge=1, le=10**6)]
Positive = Annotated[float, Field(gt=0)]
OPERATIONS_A_SECOND = 5e10  # of one core, within a factor of ten; 4e10 to 1.5e11 were measured
# bytes of a token in the data and of a symbol among which a sample's tokens are drawn; numbers that a layer keeps of a
# row: its norms, queries, keys, values, the MLP's inner values and their derivative
OF_A_TOKEN, OF_A_SYMBOL, OF_A_ROW = 32, 12, 20
FIELDS_OF_SHAPE = ("width", "heads", "layers", "map", "mlp", "layernorm", "gate", "precision")


class Run(Spec):
    """Train a transformer and measure it. The defaults are the polarization paper's.

    `positions` are the task's own if not given. `stop="settled"` ends the run early (early_stopping.py).
    `measure=()` leaves out all measures but accuracy, and the certificate in the notes (certificate.py); `track` adds
    what happens in training: "heads" and "cls" (tracking.py). `precision="bfloat16"` computes the products of linear
    layers in bfloat16; weights and all else stay float32.
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
    stop: Literal["settled"] | None = None
    gate: bool = False
    measure: tuple[Literal["heads"], ...] = ("heads",)
    track: tuple[Literal["heads", "cls"], ...] = ()
    seed: Seed = 0
    precision: Literal["float32", "bfloat16"] = added_later("float32")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"heads must divide width = {self.width}, got {self.heads}")
        if self.positions == "concat" and self.width % 2:
            raise ValueError(f"width must be even for positions='concat', got {self.width}")
        if not range(self.task.length())[self.task.queries()]:
            raise ValueError(f"task must have a query to measure, got none of {self.task.length()} positions")
        if len(set(self.track)) < len(self.track):
            raise ValueError(f"track must name each thing once, got {self.track}")
        if "heads" in self.track and self.map == "uniform":
            raise ValueError("track 'heads' needs a map whose weights depend on scores, got 'uniform'")
        if "cls" in self.track and self.task.causal():
            raise ValueError(f"track 'cls' needs a task with CLS at its end, got {type(self.task).__name__}")
        return self

    def steps(self) -> int:
        """The number of steps of all epochs, the last batch of each being smaller."""
        return self.epochs * -(-self.task.train // self.batch)

    def cost(self) -> float:
        """Floating-point operations of the run, roughly: what tells long runs from short ones."""
        task, width, length = self.task, self.width, self.task.length()
        mix = 4 * length * width + 10 * length * self.heads  # of a query: scores, sums of values, and the map itself
        query = (4 + 16 * self.mlp) * width**2 + mix  # its projection and the output's, the MLP
        keys = 4 * width**2  # and values
        if self.map.startswith("mlp"):
            keys += 32 * width**2 // self.heads  # the map's own network, on queries and keys
        asked = length if task.weight_elsewhere() else 1  # the last layer works only where the loss is
        forward = self.layers * length * keys + ((self.layers - 1) * length + asked) * query
        forward += asked * 2 * width * task.outputs()
        return 3.0 * forward * self.epochs * task.train  # the way back is two more

    def estimate(self) -> Cost:
        """Data, weights with their gradients and AdamW's moments, and what a batch leaves for the way back."""
        task, length = self.task, self.task.length()
        data = (task.train + task.evaluate) * (OF_A_TOKEN * length + OF_A_SYMBOL * task.drawn_among())
        weights = self.layers * (4 + 8 * self.mlp) * self.width**2
        weights += (task.symbols() + task.outputs() + length) * self.width
        rows = min(self.batch, task.train) * length
        left = rows * (self.layers * (OF_A_ROW * self.width + 2 * self.heads * length) + 2 * task.outputs())
        return Cost(float(data + 4 * (4 * weights + left)), self.cost() / OPERATIONS_A_SECOND)

    def alike(self) -> str:
        """Everything of the run but `track`, `measure` and `stop`, which figures of many runs do not tell apart."""
        untold = dict.fromkeys(("track", "measure", "stop"))
        plain = self.plain() | untold | {"positions": self.chosen_positions()}
        return json.dumps(plain, sort_keys=True)

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
        causal=task.causal(),
        **{name: getattr(spec, name) for name in FIELDS_OF_SHAPE},
    )
    with torch.random.fork_rng(devices=[]):
        # layers draw from torch's global generator, which is put back afterwards
        torch.manual_seed(torch_generator(spec.seed, "training/initialisation").initial_seed())
        return Transformer(shape).to(device)


def prepare() -> None:
    """Import all that a run needs, so that the seconds of a worker's first run are its own."""
    import torch

    # the others import the rest
    from softmaxlab.training import certificate, early_stopping, prefix_attention, recorder  # noqa: F401

    prefix_attention.load()
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # the first optimizer imports a good part of torch


def train(spec: Run, device: str = "cpu"):
    """The trained transformer and its result."""
    from softmaxlab.training import loop
    from softmaxlab.training.certificate import Stability, certificate
    from softmaxlab.training.early_stopping import EarlyStopping
    from softmaxlab.training.recorder import Recorder
    from softmaxlab.training.trackers import tracker

    model = build(spec, device)
    data, held_out = (spec.task.data(spec.seed, split, device) for split in ("train", "evaluate"))
    order = loop.batches(len(data.tokens), spec.batch, spec.epochs, spec.seed, device)
    early = EarlyStopping(spec.task, model, held_out) if spec.stop == "settled" else None
    stability = Stability(spec.task, model, held_out, spec.seed, spec.steps()) if spec.measure else None
    stopped_at = None
    steps = spec.steps()
    recorder = Recorder(spec.task, model, held_out, steps, spec.track, tracker(spec))
    with Progress(steps, "training") as progress, recorder:
        for step in loop.train(model, data, optimizer_of(spec, model), order, spec.task.weight_elsewhere()):
            recorder.after(step)
            progress.advance()
            if stability is not None:
                stability.after(step.number)
            if recorder.diverged or (early is not None and early.reached(step.number)):
                stopped_at = step.number
                break
    labelled, status = [*recorder.arrays()], _status(spec, model, recorder)
    measured = _measured(spec, model, held_out) if status.ok else {}
    labelled += [(name, x, ("layer", "head", "other_head")[: x.dim()]) for name, x in measured.items()]
    arrays = {name: np.asarray(value.cpu() if hasattr(value, "cpu") else value) for name, value, _ in labelled}
    notes: dict[str, Any] = {"steps": recorder.steps, "stopped_at": stopped_at}
    if not status.ok:
        notes["certificate"] = {"kind": "moving", "sentence": status.sentence}
    elif stability is not None:
        settled = early.earlier() if early is not None and stopped_at is not None else None
        notes["certificate"] = certificate(settled or stability.earlier, recorder.steps, measured)
    return model, Result(arrays, {name: axes for name, _, axes in labelled}, status, notes, spec)


def _status(spec: Run, model, recorder) -> Status:
    if recorder.diverged:
        sentence = f"the loss is not finite at step {recorder.steps}; try a smaller lr than {spec.lr:g}"
    elif not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        sentence = f"the weights are not finite after the last step; try a smaller lr than {spec.lr:g}"
    else:
        return Status()
    return Status(Outcome.DIVERGED, sentence)


def _measured(spec: Run, model, held_out) -> dict:
    """The final measures by name."""
    from softmaxlab.training.certificate import measures
    from softmaxlab.training.evaluate import accuracy

    return measures(spec.task, model, held_out, spec.seed) if spec.measure else accuracy(model, held_out)


def optimizer_of(spec: Run, model):
    """AdamW, fused where torch can, or plain SGD."""
    import torch

    if spec.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=spec.lr, weight_decay=spec.weight_decay)
    return torch.optim.AdamW(model.parameters(), lr=spec.lr, weight_decay=spec.weight_decay, fused=True)
