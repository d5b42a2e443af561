"""Pure functions on arrays or tensors with known axes, blind to where they came from."""

from softmaxlab.measure.heads import flip_rate as flip_rate
from softmaxlab.measure.heads import head_similarity as head_similarity
from softmaxlab.measure.heads import total_variation as total_variation
from softmaxlab.measure.sinks import sink_score as sink_score
from softmaxlab.measure.sinks import sink_share as sink_share
from softmaxlab.measure.weights import effective_keys as effective_keys
from softmaxlab.measure.weights import entropy as entropy
from softmaxlab.measure.weights import sparsity as sparsity
from softmaxlab.measure.weights import total as total

__all__ = [
    "effective_keys",
    "entropy",
    "flip_rate",
    "head_similarity",
    "sink_score",
    "sink_share",
    "sparsity",
    "total",
    "total_variation",
]
