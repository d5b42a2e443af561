"""The training loop: all data in one tensor, shuffled every epoch, no work that the loss does not need.

    loss = λ · mean cross-entropy at all positions but the last + cross-entropy at the last

With λ = 0 only the last position is asked of the model (model.py). Samples that the loss cannot tell apart are computed
once: a model without order reads sets of tokens, and in classification with groups of just `tokens` members all samples
of a group are one set. Deterministic for a seed on one device.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from softmaxlab.attention import MAPS
from softmaxlab.core.random import torch_generator
from softmaxlab.training.model import EVERYWHERE, LAST, Prefixes, Transformer, first_places
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
    """Of logits [B, wanted, outputs] and targets [B, wanted], or [B] at the last position.

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


def kinds_of(model: Transformer, data: Data, aux: float) -> Tensor | None:
    """Numbers [sample], equal where samples have the same loss in any model without order; None if there is order."""
    found = MAPS[model.shape.map]
    if model.position is not None or model.shape.causal or aux > 0 or (found.acts_on_rows and not found.source):
        return None  # without a source it is a user's own map of rows, which may read the order of the keys
    others = data.tokens[:, :-1].sort(dim=1).values
    whole = torch.cat([others, data.tokens[:, -1:], data.targets.view(len(others), -1)[:, -1:]], dim=1)
    return torch.unique(whole, dim=0, return_inverse=True)[1]


def one_of_each(part: Tensor, kinds: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Of a batch of samples one of each kind, and how many it stands for."""
    if kinds is None:
        return part, None
    _, index, counts = torch.unique(kinds[part], return_inverse=True, return_counts=True)
    return part[first_places(index, len(counts))], counts


def train(
    model: Transformer,
    data: Data,
    optimizer: torch.optim.Optimizer,
    order: Iterator[tuple[int, Tensor, bool]],
    aux: float,
    before_step: Callable[[int], None] | None = None,
) -> Iterator[Step]:
    """Make the steps of `order`, handing each out; `before_step` sees the model with its gradient."""
    wanted = EVERYWHERE if aux > 0 else LAST
    pairs, index = model.rows(data.tokens)  # this and the next two once for all data
    numbers, kinds = model.prefixes(data.tokens), kinds_of(model, data, aux)
    for number, (epoch, part, ends) in enumerate(order, start=1):
        optimizer.zero_grad(set_to_none=True)
        part, counts = one_of_each(part, kinds)
        prefixes = None if numbers is None else Prefixes.of(numbers[part])
        logits = model.logits(pairs, index[part], wanted, prefixes=prefixes)
        loss = loss_of(logits, data.targets[part], aux, counts)
        loss.backward()
        if before_step is not None:
            before_step(number)
        optimizer.step()
        yield Step(number, epoch, loss.detach(), ends)
