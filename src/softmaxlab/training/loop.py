"""The training loop: all data in one tensor, shuffled every epoch, no work that the loss does not need.

    loss = λ · mean cross-entropy at all positions but the last + cross-entropy at the last

With λ = 0 only the last position is asked of the model (model.py). Deterministic for a seed on one device.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from softmaxlab.core.random import torch_generator
from softmaxlab.training.model import Transformer
from softmaxlab.training.tasks import Data

LAST = slice(-1, None)


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


def loss_of(logits: Tensor, targets: Tensor, aux: float) -> Tensor:
    """Of logits [B, wanted, outputs] and targets [B, wanted], or [B] at the last position."""
    last = targets if targets.dim() == 1 else targets[:, -1]
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
    before_step: Callable[[int], None] | None = None,
) -> Iterator[Step]:
    """Make the steps of `order`, handing each out; `before_step` sees the model with its gradient."""
    wanted = slice(None) if aux > 0 else LAST
    pairs, index = model.rows(data.tokens)  # once for all data
    for number, (epoch, part, ends) in enumerate(order, start=1):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model.logits(pairs, index[part], wanted), data.targets[part], aux)
        loss.backward()
        if before_step is not None:
            before_step(number)
        optimizer.step()
        yield Step(number, epoch, loss.detach(), ends)
