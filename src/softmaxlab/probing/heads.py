"""The heads of a model on batches of text: `measure_heads` runs the model once and returns every table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas
import torch
from torch import Tensor, nn

from softmaxlab.core.progress import Progress
from softmaxlab.errors import SpecError
from softmaxlab.measure.thresholds import SINK_EPS
from softmaxlab.probing.inference import Batch, as_batches, evaluating, forward, longest
from softmaxlab.probing.next_token_loss import Loss, sequence_sums
from softmaxlab.probing.text import batches as padded_batches
from softmaxlab.probing.watch import Statistics, watch


@dataclass(frozen=True)
class HeadTables:
    """The tables of one pass over some batches, and the loss of the same pass if it was computed."""

    heads: pandas.DataFrame
    cross: pandas.DataFrame
    activations: pandas.DataFrame
    profile: pandas.DataFrame
    sinks: pandas.DataFrame
    eps: float
    tokens: int  # that went into the model, padding not counted
    interrupted: bool = False
    loss: Loss | None = None
    tokens_by_layer: pandas.DataFrame = field(default_factory=pandas.DataFrame)  # sinks and massive ones
    sequences: int = 0
    logits: dict[str, Any] | None = None  # how far measuring moved the output of the first batch, if it was compared


def probe(
    model: nn.Module,
    tokenizer: Any,
    texts: str | Sequence[str],
    max_length: int = 256,
    batch_size: int = 8,
    statistics: Statistics = "full",
    eps: float = SINK_EPS,
    eager: bool = False,
) -> pandas.DataFrame:
    """Return one row per layer and head: sparsity, sink, entropy, total, effective_keys and more, with standard errors.

    Each text is one sequence, cut at `max_length` tokens. What the columns mean is in `.attrs["definitions"]`.
    `ProbeSession` does the same for a model given by name, with losses, changes of the model, pictures and files.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not callable(tokenizer):
        raise SpecError(f"tokenizer must be one of transformers, got {type(tokenizer).__name__}")
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise SpecError(f"texts must be strings, got {type(wrong[0]).__name__}")
    batches = padded_batches(tokenizer, texts, max_length, batch_size)
    limit, most = longest(model), max(batch["input_ids"].shape[1] for batch in batches)
    if limit is not None and most > limit:
        raise SpecError(f"a text has {most} tokens or more, the model has {limit} positions: give max_length={limit}")
    return measure_heads(model, batches, statistics, eps, eager).heads


def measure_heads(
    model: nn.Module,
    batches: Iterable[Batch],
    statistics: Statistics = "full",
    eps: float = SINK_EPS,
    eager: bool = False,
    with_loss: bool = False,
    compare_logits: bool = True,
    queries: int | None = None,
) -> HeadTables:
    """Return all tables over batches of model inputs. Ctrl-C ends it early with what there is, and without a loss."""
    batches = as_batches(batches)
    interrupted, tokens, sums = False, 0, []
    keeps_tokens = statistics == "full" and not eager
    watcher = watch(
        model,
        statistics=statistics,
        eps=eps,
        eager=eager,
        queries=queries,
        tokens=keeps_tokens,
        compare_logits=compare_logits,
    )
    try:
        with evaluating(model), torch.no_grad(), watcher, Progress(len(batches), "batches") as progress:
            for batch in batches:
                if with_loss:
                    sums.append(sequence_sums(model, batch))
                else:
                    forward(model, batch)
                tokens += _tokens(batch)
                progress.advance()
    except KeyboardInterrupt:
        interrupted = True
    if interrupted and not tokens:
        raise KeyboardInterrupt  # there is nothing to show yet
    if not watcher.tallies:
        raise SpecError("no attention was measured: the model called none of its attention modules")
    empty = pandas.DataFrame()
    profile, sinks = (watcher.profile(), watcher.sinks()) if statistics == "full" else (empty, empty)
    tables = (watcher.report(), watcher.report("cross"), watcher.activations(), profile, sinks)
    loss = Loss.from_sums(sums) if with_loss and not interrupted else None
    extra: Any = {"logits": watcher.logits}
    extra["sequences"] = max(tally.closed().sequences for tally in watcher.tallies.values())
    if keeps_tokens:
        extra["tokens_by_layer"] = watcher.tokens()
    return HeadTables(*tables, eps=eps, tokens=tokens, interrupted=interrupted, loss=loss, **extra)


def _tokens(batch: Batch) -> int:
    mask = batch.get("attention_mask")
    if isinstance(mask, Tensor):
        return int(mask.sum())
    ids = batch.get("input_ids")
    return ids.numel() if isinstance(ids, Tensor) else 0
