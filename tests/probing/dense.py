"""A reference that keeps every weight: eager attention recorded call by call, and statistics by their definitions.

All in numpy float64, one head at a time, with loops over sequences instead of running sums.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

EPS, ABOVE, ENOUGH = 0.3, 0.01, 0.25
STACKED = ("w", "v", "queries", "keys", "visible", "ids")  # fields of `Layer` with an axis of sequences


@dataclass(frozen=True)
class Layer:
    """One call of attention: w [B, H, Tq, Tk] and v [B, H_kv, Tk, D]; which queries, keys and pairs are real."""

    module: str
    w: np.ndarray
    v: np.ndarray
    queries: np.ndarray  # [B, Tq]
    keys: np.ndarray  # [B, Tk]
    visible: np.ndarray  # [B, Tq, Tk]
    ids: np.ndarray | None = None
    learned_sink: bool = False


@contextmanager
def recorded(model: Any) -> Iterator[list[tuple[str, torch.Tensor, torch.Tensor]]]:
    """Name of the module, weights and values of every call of the model's own eager attention, in order."""
    calls: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    names = {id(module): name for name, module in model.named_modules()}

    def attend(module, query, key, value, *args, **options):
        eager = sys.modules[type(module).__module__].eager_attention_forward
        out, w = eager(module, query, key, value, *args, **options)
        calls.append((names[id(module)], w, value))
        return out, w

    own = model.config._attn_implementation
    AttentionInterface.register("recorded", attend)
    AttentionMaskInterface.register("recorded", eager_mask)
    model.set_attn_implementation("recorded")
    try:
        yield calls
    finally:
        model.set_attn_implementation(own)


def visibility(queries: np.ndarray, keys: np.ndarray, causal: bool, window: int | None) -> np.ndarray:
    """Which key each query sees [B, Tq, Tk], by position and padding."""
    i, j = np.arange(queries.shape[1])[:, None], np.arange(keys.shape[1])
    near = np.ones((len(i), len(j)), dtype=bool)
    if causal:
        near &= j <= i
    if window is not None:
        near &= i - j < window
    return near & keys[:, None, :]


def head_statistics(layer: Layer, head: int) -> dict[str, float]:
    """Every column of a report for one head."""
    sequences = [_sequence(layer, head, sample) for sample in range(len(layer.w))]
    found: dict[str, float] = {"sequences": len(sequences)}
    found["queries"] = sum(len(rows["total"]) for rows in sequences)
    for name in sequences[0]:
        sums, counts = np.array([[rows[name].sum(), rows[name].size] for rows in sequences]).T
        mean = sums.sum() / counts.sum()
        spread = len(sums) / (len(sums) - 1) * ((sums - mean * counts) ** 2).sum()
        found |= {name: mean, f"{name}_se": np.sqrt(spread) / counts.sum()}
    return found


def _sequence(layer: Layer, head: int, sample: int) -> dict[str, np.ndarray]:
    """Each statistic of one sequence: a number per query, or one for the whole sequence."""
    real, visible = layer.queries[sample], layer.visible[sample]
    first = int(np.argmax(layer.keys[sample]))
    w = np.where(visible, layer.w[sample, head].astype(np.float64), 0.0)[real]
    v = layer.v[sample, head * layer.v.shape[1] // layer.w.shape[1]].astype(np.float64)
    seen, total = visible[real].sum(axis=1), w.sum(axis=1)
    p, size = w / total[:, None], np.linalg.norm(v, axis=1)
    entropy = _entropy(w).sum(axis=1) + (_entropy(1 - total) if layer.learned_sink else 0.0)
    sees_first = visible[real][:, first]
    return {
        "sparsity": p.max(axis=1),
        "sink": p[:, first],
        "entropy": entropy,
        "entropy_normalised": entropy / np.log(np.maximum(seen, 2)),
        "effective_keys": 1 / (p**2).sum(axis=1),
        "keys_above": (p > ABOVE).sum(axis=1).astype(float),
        "total": total,
        "empty": (total == 0).astype(float),
        "sink_value": np.array([size[first] / size[layer.keys[sample]].mean()]),
        "sink_output": w[:, first] * size[first] / np.linalg.norm(w @ v, axis=1),
        "sink_sequences": np.array([float(w[sees_first, first].mean() > EPS)]),
    }


def _entropy(w: np.ndarray) -> np.ndarray:
    return -w * np.log(np.where(w > 0, w, 1.0))


def column_means(layer: Layer, head: int, sample: int) -> tuple[np.ndarray, np.ndarray]:
    """α_k and how many real queries see key k, from the sequence's first token on."""
    real, first = layer.queries[sample], int(np.argmax(layer.keys[sample]))
    seen = layer.visible[sample][real].sum(axis=0)
    weight = np.where(layer.visible[sample], layer.w[sample, head].astype(np.float64), 0.0)[real].sum(axis=0)
    return np.where(seen > 0, weight / np.maximum(seen, 1), 0)[first:], seen[first:]


def profile(layer: Layer, head: int) -> np.ndarray:
    """Mean over sequences of α_k, for each position that some query of the sequence sees."""
    means = [column_means(layer, head, sample) for sample in range(len(layer.w))]
    total, count = np.zeros((2, max(len(α) for α, _ in means)))
    for α, seen in means:
        total[: len(α)] += α
        count[: len(α)] += seen > 0
    return total[count > 0] / count[count > 0]


def sinks(layer: Layer, head: int, eps: float) -> dict[tuple[int, int], float]:
    """(position, token) → share of the sequences in which it is a sink."""
    found: dict[tuple[int, int], float] = {}
    for sample in range(len(layer.w)):
        α, seen = column_means(layer, head, sample)
        first = int(np.argmax(layer.keys[sample]))
        for k in np.flatnonzero((α > eps) & (seen >= ENOUGH * layer.queries[sample].sum())):
            key = int(k), -1 if layer.ids is None else int(layer.ids[sample, first + k])
            found[key] = found.get(key, 0) + 1 / len(layer.w)
    return found
