"""What a trained transformer does: accuracy, and for each head where its weight goes.

Patterns are weights [layer, head, sample, query, key] on the evaluation sequences. Which queries count: those that
nothing informs (induction: not BOS, not the last two), or CLS (classification): `task.queries()`.

    sink_score      share of the weight on BOS, mean over queries (E.1); `sink_score_pooled` as in the authors' figures
    sparsity        share of the largest weight;   entropy of |w|/Σ|w|, nats;   total Σw
    previous_token  share of the weight on the token before;   similarity of heads' patterns in a layer, cosine
    flip_rate       how often one token, swapped between two samples, swaps their classes (E.3)
"""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from softmaxlab import measure
from softmaxlab.core.random import generator
from softmaxlab.training.model import Trace, Transformer
from softmaxlab.training.sharing import LAST
from softmaxlab.training.tasks import Data, Task

CHUNK = 1000  # samples at a time
PAIRS = 500  # of samples with different labels, for the flip rate


@torch.no_grad()
def patterns(model: Transformer, tokens: Tensor) -> Tensor:
    """Weights [layer, head, sample, query, key], in double precision."""
    parts = []
    for part in tokens.split(CHUNK):
        trace = Trace()
        model(part, trace=trace)
        parts.append(torch.stack(trace.weights).transpose(1, 2))
    return torch.cat(parts, dim=2).double()


@torch.no_grad()
def predictions(model: Transformer, tokens: Tensor, wanted: slice = slice(None)) -> Tensor:
    """The likeliest class [sample, wanted]."""
    return torch.cat([model(part, wanted).argmax(dim=-1) for part in tokens.split(CHUNK)])


def accuracy(model: Transformer, data: Data) -> dict[str, Tensor]:
    """Of all predictions, and of those at the last position where there are others."""
    right = predictions(model, data.tokens) == data.targets.view(len(data.tokens), -1)
    last = right[:, -1].double().mean()
    if data.targets.dim() == 1:
        return {"accuracy": last}
    return {"accuracy": right.double().mean(), "induction_accuracy": last}


def head_measures(task: Task, model: Transformer, data: Data, seed: int) -> dict[str, Tensor]:
    """All measures of heads, [layer, head]; similarity [layer, head, other_head]."""
    weights = patterns(model, data.tokens)
    found = through_time(task, weights) | {
        "total": _mean_of("total", _counted(task, weights)),
        "similarity": measure.head_similarity(weights.mean(dim=2)),
    }
    if data.targets.dim() == 1:
        found["flip_rate"] = flip_rates(model, data, weights, seed)
    if task.causal():
        found |= {"sink_score_pooled": _sinks(task, weights, "pooled"), "previous_token": _on_previous(weights)}
    return found


def through_time(task: Task, weights: Tensor) -> dict[str, Tensor]:
    """The measures that are also recorded in training, [layer, head]."""
    rows = _counted(task, weights)
    found = {"sparsity": _mean_of("sparsity", rows), "entropy": _mean_of("entropy", rows)}
    return found | {"sink_score": _sinks(task, weights, "per_position")} if task.causal() else found


def _sinks(task: Task, weights: Tensor, definition: Literal["per_position", "pooled"]) -> Tensor:
    """Sink scores [layer, head]: only a causal mask lets all queries see the first token first."""
    return measure.sink_score(weights.transpose(1, 2), definition, task.queries(), samples=1)


def _counted(task: Task, weights: Tensor) -> Tensor:
    """The queries that count."""
    return weights[..., task.queries(), :]


def _mean_of(name: str, rows: Tensor) -> Tensor:
    """A measure of rows [layer, head, sample, query, key], averaged over samples: [layer, head]."""
    return getattr(measure, name)(rows.transpose(1, 2)).mean(dim=1)


def _on_previous(weights: Tensor) -> Tensor:
    """Mean share of the weight on the key before the query."""
    share = weights.diagonal(offset=-1, dim1=-2, dim2=-1) / weights[..., 1:, :].sum(dim=-1)
    return share.mean(dim=(-2, -1))


def flip_rates(model: Transformer, data: Data, weights: Tensor, seed: int) -> Tensor:
    """[layer, head]: each head's favourite tokens swapped between pairs of samples with different labels."""
    if len(data.targets.unique()) < 2:
        return torch.full(weights.shape[:2], torch.nan, dtype=torch.float64)  # no two samples to swap between
    one, two = (torch.from_numpy(side).to(data.tokens.device) for side in _pairs(data, seed))
    top = weights[..., -1, :-1].argmax(dim=-1)  # [layer, head, sample], the query is CLS, keys without it
    rates = torch.empty(top.shape[:2], dtype=torch.float64)
    for layer, head in _each(top):
        favourite = top[layer, head]
        swapped = _swapped(data.tokens, one, two, favourite), _swapped(data.tokens, two, one, favourite)
        predicted = (predictions(model, tokens, LAST)[:, 0] for tokens in swapped)
        rates[layer, head] = measure.flip_rate(*predicted, data.targets[one], data.targets[two])
    return rates


def _each(top: Tensor) -> Iterator[tuple[int, int]]:
    return ((layer, head) for layer in range(top.shape[0]) for head in range(top.shape[1]))


def _swapped(tokens: Tensor, into: Tensor, other: Tensor, favourite: Tensor) -> Tensor:
    """The samples `into` with their favourite token replaced by that of `other`."""
    changed = tokens[into].clone()
    rows = torch.arange(len(into), device=tokens.device)
    changed[rows, favourite[into]] = tokens[other, favourite[other]]
    return changed


def _pairs(data: Data, seed: int):
    """Sample numbers of PAIRS random pairs with different labels."""
    import numpy as np

    draw, label = generator(seed, "training/pairs"), data.targets.cpu().numpy()
    chosen = np.empty((0, 2), dtype=np.int64)
    while len(chosen) < PAIRS:
        drawn = draw.integers(len(label), size=(4 * PAIRS, 2))
        chosen = np.concatenate([chosen, drawn[label[drawn[:, 0]] != label[drawn[:, 1]]]])
    return chosen[:PAIRS, 0], chosen[:PAIRS, 1]
