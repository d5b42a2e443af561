"""Check that measuring leaves the model as it is: compare its output on one batch with and without measuring."""

from typing import Any

import torch
from torch import nn

from softmaxlab.probing.inference import Batch, evaluating, forward
from softmaxlab.probing.watch import watch


def compare_logits(model: nn.Module, batch: Batch, eager: bool = False) -> dict[str, Any] | None:
    """Run a batch with and without `watch`: relative difference and what is allowed; raise a SpecError if it is more.

    The outputs are the logits, or the last hidden state of a model without a head; those of padding do not count.
    None if the model gives nothing to compare.
    """
    with evaluating(model), torch.no_grad(), watch(model, statistics="fast", eager=eager) as watcher:
        forward(model, batch)
    return watcher.logits
