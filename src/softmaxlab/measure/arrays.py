"""Measures take NumPy arrays or torch tensors and give back the same kind."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def on_arrays(measure: Callable) -> Callable:
    """Let a function of tensors take NumPy arrays too; then its result is a NumPy array or a number."""

    @functools.wraps(measure)
    def wrapped(first: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(first, torch.Tensor):
            return measure(first, *rest, **options)
        result = measure(_tensor(first), *map(_tensor, rest), **{k: _tensor(v) for k, v in options.items()})
        return result.numpy() if result.dim() else result.item()

    return wrapped


def _tensor(value: Any) -> Any:
    """Arrays and nested lists as tensors; anything else unchanged."""
    if isinstance(value, (np.ndarray, list)):
        # a copy: torch refuses read-only arrays, and results hold those
        return torch.from_numpy(np.array(value))
    return value
