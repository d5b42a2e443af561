"""Measures take NumPy arrays or torch tensors and give back the same kind."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def on_arrays(measure: Callable) -> Callable:
    """Let a function of tensors take NumPy arrays too; then its result is a NumPy array or a number."""

    signature = inspect.signature(measure)
    first = next(iter(signature.parameters))

    @functools.wraps(measure)
    def wrapped(*values: Any, **options: Any) -> Any:
        given = signature.bind(*values, **options).arguments
        result = measure(**{name: _tensor(value) for name, value in given.items()})
        if isinstance(given[first], torch.Tensor):
            return result
        return result.numpy() if result.dim() else result.item()

    return wrapped


def _tensor(value: Any) -> Any:
    """Arrays and nested lists as tensors; anything else unchanged."""
    if isinstance(value, (np.ndarray, list)):
        # a copy: torch refuses read-only arrays, and results hold those; and in this machine's byte order
        array = np.array(value)
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    return value
