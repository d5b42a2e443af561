"""Evaluate a trained transformer: its accuracy, and for each head where its weight goes.

Patterns are weights [layer, head, sample, query, key] on the evaluation sequences. Which queries count: those that
nothing informs (induction: not BOS, not the last two), or CLS (classification): `task.queries()`.

    sink_score      share of the weight on BOS, mean over queries (E.1); `sink_score_pooled` as in the authors' figures
    sparsity        share of the largest weight;   entropy of |w|/Σ|w|, nats;   total Σw
    previous_token  share of the weight on the token before;   similarity of heads' patterns in a layer, cosine
    flip_rate       how often one token, swapped between two samples, swaps their classes (E.3)
    empty           share of the queries that count but have no weight at all, as relu, softpick or a clipped softmax
                    may leave them: their rows have no shares, so the means above are over the other rows
    flip_pairs      how many pairs are behind the flip rate: both samples have weight on a token
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from softmaxlab import measure
from softmaxlab.core.random import generator
from softmaxlab.training.deduplicate import EVERYWHERE, LAST
from softmaxlab.training.model import Trace, Transformer
from softmaxlab.training.tasks import Data, Task

CHUNK = 1000  # samples at a time
PAIRS = 500  # of samples with different labels, for the flip rate
Measured = Callable[[Tensor], Tensor]  # weights [layer, sample, head, query, key] → [layer, head]


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
    """The accuracy of all predictions, and of those at the last position where there are others."""
    right = predictions(model, data.tokens) == data.targets.view(len(data.tokens), -1)
    last = right[:, -1].double().mean()
    if data.targets.dim() == 1:
        return {"accuracy": last}
    return {"accuracy": right.double().mean(), "induction_accuracy": last}


def head_measures(task: Task, model: Transformer, data: Data, seed: int) -> dict[str, Tensor]:
    """All measures of heads, [layer, head]; similarity [layer, head, other_head]."""
    weights = patterns(model, data.tokens)
    rows = _counted(task, weights)
    measures = through_time(task, weights) | {
        "total": measure.total(rows.transpose(1, 2)).mean(dim=1),
        "similarity": measure.head_similarity(weights.mean(dim=2)),
    }
    if data.targets.dim() == 1:
        measures["flip_rate"], measures["flip_pairs"] = flip_rates(model, data, weights, seed)
    if task.causal():
        measures["sink_score_pooled"] = _mean_over_samples(_pooled_sink_score, rows)
        measures["previous_token"] = _on_previous(weights)
    return measures


def through_time(task: Task, weights: Tensor) -> dict[str, Tensor]:
    """The measures that are also recorded in training, [layer, head]."""
    rows = _counted(task, weights)
    measures = {"sparsity": _mean_over_rows(_sparsity, rows), "entropy": _mean_over_rows(_entropy, rows)}
    if task.causal():  # only then all queries see the first token first
        measures["sink_score"] = _mean_over_rows(_sink_score, rows)
    return measures | {"empty": _empty(rows).double().mean(dim=(-2, -1))}


def _counted(task: Task, weights: Tensor) -> Tensor:
    """Return which queries count."""
    return weights[..., task.queries(), :]


def _empty(rows: Tensor) -> Tensor:
    """Return which rows have no weight at all."""
    return (rows == 0).all(dim=-1)


def _sparsity(rows: Tensor) -> Tensor:
    return measure.sparsity(rows).mean(dim=1)


def _entropy(rows: Tensor) -> Tensor:
    return measure.entropy(rows).mean(dim=1)


def _sink_score(rows: Tensor) -> Tensor:
    return measure.sink_score(rows, queries=EVERYWHERE, samples=1)


def _pooled_sink_score(rows: Tensor) -> Tensor:
    return measure.sink_score(rows, "pooled", EVERYWHERE, samples=1)


def _mean_over_rows(measured: Measured, rows: Tensor) -> Tensor:
    """[layer, head] of rows [layer, head, sample, query, key]: the mean over those that have weight, NaN of none."""
    if not _empty(rows).any():
        return measured(rows.transpose(1, 2))
    return _mean_over_samples(measured, rows.flatten(2, 3).unsqueeze(-2))  # each row as a sample of one query


def _mean_over_samples(measured: Measured, weights: Tensor) -> Tensor:
    """[layer, head] of weights [layer, head, sample, query, key]: over the samples that have weight, NaN of none."""
    counted = ~_empty(weights).all(dim=-1)
    if counted.all():
        return measured(weights.transpose(1, 2))
    values = weights.new_full(counted.shape[:2], torch.nan)
    for layer, head in _each(counted):
        samples = weights[layer, head][counted[layer, head]]
        if len(samples):
            values[layer, head] = measured(samples[None, :, None])[0, 0]
    return values


def _on_previous(weights: Tensor) -> Tensor:
    """Mean share of the weight on the key before the query, over all queries but the first that have weight."""
    rows = weights[..., 1:, :]
    total, counted = rows.sum(dim=-1), ~_empty(rows)
    # signed weights may cancel: without a total there is no share
    share = weights.diagonal(offset=-1, dim1=-2, dim2=-1) / total.masked_fill(total == 0, torch.nan)
    if counted.all():
        return share.mean(dim=(-2, -1))
    return share.where(counted, 0.0).sum(dim=(-2, -1)) / counted.sum(dim=(-2, -1))


def flip_rates(model: Transformer, data: Data, weights: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Each head's favourite tokens swapped between pairs of samples with different labels: rates, and numbers of pairs.

    Both [layer, head]. A sample has no favourite token if CLS gives all tokens no weight; its pairs are left out.
    """
    on_tokens = weights[..., -1, :-1]  # the query is CLS, keys without it
    top, liked = on_tokens.argmax(dim=-1), ~_empty(on_tokens)  # [layer, head, sample]
    rates, counts = torch.full(top.shape[:2], torch.nan, dtype=torch.float64), torch.zeros(top.shape[:2]).long()
    if len(data.targets.unique()) < 2:
        return rates, counts  # no two samples to swap between
    one, two = (torch.from_numpy(side).to(data.tokens.device) for side in _pairs(data, seed))
    for layer, head in _each(top):
        both = liked[layer, head][one] & liked[layer, head][two]
        counts[layer, head] = both.sum()
        if both.any():
            rates[layer, head] = _flip_rate(model, data, one[both], two[both], top[layer, head])
    return rates, counts


def _flip_rate(model: Transformer, data: Data, one: Tensor, two: Tensor, favourite: Tensor) -> Tensor:
    swapped = _swapped(data.tokens, one, two, favourite), _swapped(data.tokens, two, one, favourite)
    predicted = (predictions(model, tokens, LAST)[:, 0] for tokens in swapped)
    return measure.flip_rate(*predicted, data.targets[one], data.targets[two])


def _each(heads: Tensor) -> Iterator[tuple[int, int]]:
    return ((layer, head) for layer in range(heads.shape[0]) for head in range(heads.shape[1]))


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
