"""Run a model on batches: what a batch may be, where its tensors belong, and dropout off."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.sites import root

Batch = Mapping[str, Any]  # what the model's forward takes: input_ids, attention_mask, and labels if it needs them


def as_batches(inputs: Iterable[Any]) -> list[Batch]:
    """Batches as they are; a sequence of tokens [T] or [B, T] as one batch without padding."""
    if isinstance(inputs, (Mapping, Tensor)):
        inputs = [inputs]
    batches = [_batch(part) for part in inputs]
    if not batches:
        raise SpecError("batches must hold at least one, got none")
    return batches


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model without dropout; every module's mode is put back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def device_of(model: nn.Module) -> torch.device:
    """Return where a model takes its inputs; for an offloaded model the first hook that knows its device decides."""
    top = root(model)
    for module in top.modules():
        place = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
        if place is not None:
            return torch.device(place)
    return top.device


def moved(batch: Batch, model: nn.Module) -> dict[str, Any]:
    """A batch whose tensors are where the model takes them."""
    device = device_of(model)
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in batch.items()}


def forward(model: nn.Module, batch: Batch, **options: Any) -> Any:
    """The model's output for a batch, wherever that is; keys and values are not kept unless `options` say so."""
    _check_ids(model, batch)
    caches = "use_cache" in inspect.signature(root(model).forward).parameters
    return model(**({"use_cache": False} if caches else {}) | moved(batch, model) | options)


def _check_ids(model: nn.Module, batch: Batch) -> None:
    ids, table = batch.get("input_ids"), root(model).get_input_embeddings()
    known = getattr(table, "num_embeddings", None)
    if known is not None and isinstance(ids, Tensor) and ids.numel() and int(ids.max()) >= known:
        raise SpecError(f"input_ids must be below {known}, the size of the model's vocabulary, got {int(ids.max())}")


def longest(model: nn.Module) -> int | None:
    """Return how many tokens a model can run; None if nothing in it says so."""
    top = root(model)
    limit = getattr(top.config.get_text_config(), "max_position_embeddings", None)
    for name, module in top.named_modules():  # RoBERTa counts positions from behind its padding index
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            limit = module.num_embeddings - module.padding_idx - 1
    return limit if limit is None or limit > 0 else None  # XLNet's −1 stands for no limit


def _batch(part: Any) -> Batch:
    if isinstance(part, Mapping):
        return part
    if isinstance(part, (Tensor, Sequence)) and not isinstance(part, str):
        ids = torch.as_tensor(part)
        if ids.dim() in (1, 2) and not ids.is_floating_point() and ids.shape[-1] > 1:
            return {"input_ids": ids if ids.dim() == 2 else ids[None]}
    raise SpecError(f"a batch must be a dict of model inputs or at least two token ids, got {type(part).__name__}")
