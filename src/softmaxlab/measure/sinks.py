"""Attention sinks: how much of a head's weight lies on one token.

Polarization paper, E.1. Its pseudocode drops the first query (the sink token itself) and the last two (their
prediction is not random), averages, then clips to [0, 1], which matters for signed weights only.
"""

from typing import Literal

from torch import Tensor

from softmaxlab.errors import unknown
from softmaxlab.measure.arrays import on_arrays
from softmaxlab.measure.weights import check_weights

SINK = 0.9  # the paper's threshold for a sink head
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
    figures. Both agree for row-stochastic maps. `samples` names the axes of independent samples (0 for
    [sample, head, query, key]): they are averaged, before the clipping, and leave the result.
    """
    check_weights(weights)
    if definition not in DEFINITIONS:
        raise unknown("definition", definition, DEFINITIONS)
    on_key, total = weights[..., queries, key], weights[..., queries, :].sum(dim=-1)
    if definition == "per_position":
        score = (on_key / total).mean(dim=-1)
    else:
        score = on_key.sum(dim=-1) / total.sum(dim=-1)
    if samples != ():
        # the two axes that are gone stood last, so only counting from the end must be shifted
        axes = (samples,) if isinstance(samples, int) else samples
        score = score.mean(dim=tuple(axis if axis >= 0 else axis + 2 for axis in axes))
    return score.clamp(0.0, 1.0)


@on_arrays
def sink_share(scores: Tensor, threshold: float = SINK) -> Tensor:
    """Share of heads whose sink score is above the threshold, over the last axis."""
    return (scores > threshold).to(scores.dtype).mean(dim=-1)
