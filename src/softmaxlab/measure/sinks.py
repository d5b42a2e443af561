"""Attention sinks: how much of a head's weight lies on one token.

Polarization paper, E.1. Its pseudocode drops the first query (the sink token itself) and the last two (their
prediction is not random), averages, then clips to [0, 1], which matters for signed weights only.
"""

from typing import Literal

import torch
from torch import Tensor

from softmaxlab.errors import SpecError, unknown
from softmaxlab.measure.arrays import on_arrays
from softmaxlab.measure.thresholds import SINK
from softmaxlab.measure.weights import check_weights

DEFINITIONS = ("per_position", "pooled")


@on_arrays
def sink_score(
    weights: Tensor,
    definition: Literal["per_position", "pooled"] = "per_position",
    queries: slice = slice(1, -2),
    key: int = 0,
    samples: int | tuple[int, ...] = (),
) -> Tensor:
    """Share of the weight that the queries put on `key`, clipped to [0, 1]; weights [..., head, query, key].

    `per_position`: mean over queries of w_key/Σw. `pooled`: Σ_queries w_key / Σ_queries Σw, as in the authors'
    figures. Both agree for row-stochastic maps. NaN if a query has no weight at all, as with maps that may attend
    nowhere; for `pooled` only if all queries together have none. `samples` names the axes of independent samples (0 for
    [sample, head, query, key]): they are averaged, before the clipping, and leave the result.
    """
    check_weights(weights)
    if definition not in DEFINITIONS:
        raise unknown("definition", definition, DEFINITIONS)
    axes = tuple(_sample_axis(axis, weights.dim()) for axis in ((samples,) if isinstance(samples, int) else samples))
    on_key, total = weights[..., queries, key], weights[..., queries, :].sum(dim=-1)
    if total.shape[-1] == 0:
        raise SpecError(f"queries {queries} leave none of {weights.shape[-2]}: choose others, such as slice(None)")
    if definition == "pooled":
        on_key, total = on_key.sum(dim=-1, keepdim=True), total.sum(dim=-1, keepdim=True)
    score = (on_key / total.masked_fill(total == 0, torch.nan)).mean(dim=-1)  # without weight there is no share
    if axes:
        score = score.mean(dim=axes)
    return score.clamp(0.0, 1.0)


def _sample_axis(axis: int, dimensions: int) -> int:
    """An axis of the weights, counted from the front; not head, query or key."""
    front = axis % dimensions if -dimensions <= axis < dimensions else dimensions
    if front >= dimensions - 3:
        raise SpecError(f"samples must name axes before [head, query, key], got {axis} of {dimensions} axes")
    return front


@on_arrays
def sink_share(scores: Tensor, threshold: float = SINK) -> Tensor:
    """Share of heads whose sink score is above the threshold, over the last axis; NaN if a head has no score."""
    return (scores > threshold).to(scores.dtype).masked_fill(scores.isnan(), torch.nan).mean(dim=-1)
