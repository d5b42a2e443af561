"""The same report for weights from anywhere: NumPy, torch or JAX arrays, a layer at a time if they are large.

from_weights(weights)                      weights [layer, head, sample, query, key]
from_weights(layer for layer in …)         an iterator of [head, sample, query, key], one in memory at a time
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas
import torch
from torch import Tensor

from softmaxlab.errors import SpecError
from softmaxlab.measure.thresholds import SINK_EPS
from softmaxlab.probing.streaming.pattern import pattern_sums
from softmaxlab.probing.streaming.tables import heads_table
from softmaxlab.probing.streaming.tally import Tally
from softmaxlab.probing.streaming.tracker import SequenceLayout

AXES = "[head, sample, query, key]"


def from_weights(
    weights: Any, mask: Any = None, values: Any = None, eps: float = SINK_EPS, leaks_weight: bool = False
) -> pandas.DataFrame:
    """One row per layer and head, the columns of `watch(…).report()`.

    `weights` [layer, head, sample, query, key], or an iterable of layers; `mask` [sample, token] is True for tokens
    that are not padding; `values` [layer, head, sample, key, dimension] (or fewer heads that divide them), without
    which `sink_value` and `sink_output` are NaN. `leaks_weight`: what a row's weights lack to 1 is weight on no key, as
    with softmax-1 or a learned sink, and enters the entropy. Fewer queries than keys are the last ones.
    """
    if not 0 < eps < 1:
        raise SpecError(f"eps must lie between 0 and 1, got {eps!r}")
    layers = _layers(weights, "weights")
    all_values = None if values is None else _layers(values, "values")
    measured = []
    for number, w in enumerate(layers):
        v = None if all_values is None else next(all_values, None)
        if all_values is not None and v is None:
            raise SpecError(f"values must have as many layers as weights, got {number}")
        _refuse_unfit(number, w, v)
        layout = _layout(w, mask)
        tally = Tally(eps)
        tally.add(pattern_sums(w, layout, leaks_weight, v), layout)
        tally.close()
        measured.append((number, "", tally))
    if not measured:
        raise SpecError("weights must hold at least one layer, got none")
    return heads_table(measured)


def _layers(array: Any, name: str) -> Iterator[Tensor]:
    """Layers [sample, head, …] of an array with five axes, or of an iterable of arrays with four."""
    if not isinstance(array, Iterable):
        raise SpecError(f"{name} must be an array with five axes or an iterable of layers, got {type(array).__name__}")
    axes = getattr(array, "ndim", 5)
    if axes != 5:
        raise SpecError(f"{name} must have five axes, the first one layers, got {axes}")
    return (_tensor(layer, name).transpose(0, 1) for layer in array)


def _tensor(layer: Any, name: str) -> Tensor:
    tensor = layer.detach() if isinstance(layer, Tensor) else torch.from_numpy(_floats(layer, name))
    if tensor.dim() != 4 or not tensor.is_floating_point() or 0 in tensor.shape:
        raise SpecError(f"a layer of {name} must be numbers {AXES}, got {tensor.dtype} of shape {tuple(tensor.shape)}")
    return tensor


def _floats(layer: Any, name: str) -> np.ndarray:
    """A copy in a type that torch knows: JAX has some of its own, and its arrays cannot be written to."""
    array = np.asarray(layer)
    try:
        return np.array(array, dtype=np.float64 if array.dtype == np.float64 else np.float32)
    except (TypeError, ValueError):
        raise SpecError(f"a layer of {name} must be numbers {AXES}, got {array.dtype}") from None


def _refuse_unfit(number: int, w: Tensor, v: Tensor | None) -> None:
    B, H, rows, keys = w.shape
    if rows > keys:
        raise SpecError(f"weights of layer {number} must have at least as many keys as queries, got {rows} and {keys}")
    if not torch.isfinite(w).all():
        raise SpecError(f"weights of layer {number} must be finite numbers")
    if v is not None and (v.shape[0] != B or v.shape[2] != keys or H % v.shape[1]):
        shape = (v.shape[1], B, v.shape[2], v.shape[3])
        raise SpecError(f"values of layer {number} must be [{H}, {B}, {keys}, dimension], got {list(shape)}")


def _layout(w: Tensor, mask: Any) -> SequenceLayout:
    B, _, rows, keys = w.shape
    real = torch.ones(B, keys, dtype=torch.bool) if mask is None else torch.as_tensor(np.asarray(mask)).bool()
    if real.shape != (B, keys):
        raise SpecError(f"mask must be [sample, token] = [{B}, {keys}], got {list(real.shape)}")
    if not real.any(dim=-1).all():
        raise SpecError("mask must leave at least one token of every sample")
    real = real.to(w.device)
    start = keys - rows
    return SequenceLayout(real[:, start:], real.int().argmax(dim=-1), real, real, 0, start, None)
