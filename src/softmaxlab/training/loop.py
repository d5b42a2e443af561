"""The training loop: all data in one tensor, shuffled every epoch, no work that the loss does not need.

    loss = λ · mean cross-entropy at all positions but the last + cross-entropy at the last

With λ = 0 only the last position is asked of the model, and what is equal is computed once (deduplicate.py).
Deterministic for a seed on one device.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from softmaxlab.core.kernels import keep_memory
from softmaxlab.core.random import torch_generator
from softmaxlab.training.deduplicate import (
    EVERYWHERE,
    LAST,
    Prefixes,
    one_of_each,
    prefix_numbers,
    reads_sets,
    set_numbers,
)
from softmaxlab.training.model import Transformer
from softmaxlab.training.tasks import Data


@dataclass(frozen=True)
class Step:
    """A step that was made: its number from 1, its epoch from 0, its loss."""

    number: int
    epoch: int
    loss: Tensor
    ends_epoch: bool


def batches(samples: int, size: int, epochs: int, seed: int, device: str) -> Iterator[tuple[int, Tensor, bool]]:
    """Epoch, sample numbers, and whether the epoch ends; every sample once an epoch, the last batch smaller."""
    draw = torch_generator(seed, "training/order")
    for epoch in range(epochs):
        parts = torch.randperm(samples, generator=draw).to(device).split(size)
        for i, part in enumerate(parts):
            yield epoch, part, i == len(parts) - 1


def loss_of(logits: Tensor, targets: Tensor, aux: float, counts: Tensor | None = None) -> Tensor:
    """The loss of logits [B, wanted, outputs] with targets [B, wanted], or [B] at the last position.

    `counts` [B] says how many samples each stands for, one if not given; only for aux = 0.
    """
    last = targets if targets.dim() == 1 else targets[:, -1]
    if counts is not None:
        each = cross_entropy(logits[:, -1], last, reduction="none")
        return counts.to(each.dtype) @ each / counts.sum()
    loss = cross_entropy(logits[:, -1], last)
    if aux > 0:
        loss = loss + aux * cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, :-1].flatten())
    return loss


def train(
    model: Transformer,
    data: Data,
    optimizer: torch.optim.Optimizer,
    order: Iterator[tuple[int, Tensor, bool]],
    aux: float,
) -> Iterator[Step]:
    """Make the steps of `order`, handing each out; the model still has its gradient then."""
    keep_memory()
    wanted, shape = EVERYWHERE if aux > 0 else LAST, model.shape
    pairs, index = model.rows(data.tokens)  # this and the next two once for all data
    beginnings = prefix_numbers(data.tokens, shape.symbols) if shape.causal else None
    alike = aux == 0 and reads_sets(shape.map, model.position is not None, shape.causal)
    sets = set_numbers(data.tokens, data.targets) if alike else None
    for number, (epoch, part, ends) in enumerate(order, start=1):
        optimizer.zero_grad(set_to_none=True)
        part, counts = (part, None) if sets is None else one_of_each(part, sets)
        prefixes = None if beginnings is None else Prefixes.of(beginnings[part])
        logits = model.logits(pairs, index[part], wanted, prefixes=prefixes)
        loss = loss_of(logits, data.targets[part], aux, counts)
        loss.backward()
        optimizer.step()
        yield Step(number, epoch, loss.detach(), ends)
