"""Run a model over texts and report on its heads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas
import torch
from torch import Tensor, nn

from softmaxlab.core.progress import Progress
from softmaxlab.errors import SpecError
from softmaxlab.probing.definitions import EPS
from softmaxlab.probing.models.corpora import batches as padded_batches
from softmaxlab.probing.running import Batch, evaluating, forward, longest
from softmaxlab.probing.watch import Statistics, watch


@dataclass(frozen=True)
class Findings:
    """Tables of one pass over some batches."""

    heads: pandas.DataFrame
    cross: pandas.DataFrame
    activations: pandas.DataFrame
    profile: pandas.DataFrame
    sinks: pandas.DataFrame
    eps: float
    tokens: int  # that went into the model, padding not counted
    interrupted: bool = False


def probe(
    model: nn.Module,
    tokenizer: Any,
    texts: str | Sequence[str],
    max_length: int = 256,
    batch_size: int = 8,
    statistics: Statistics = "full",
    eps: float = EPS,
    eager: bool = False,
) -> pandas.DataFrame:
    """One row per layer and head: sparsity, sink, entropy, total, effective_keys and more, with standard errors.

    Each text is one sequence, cut at `max_length` tokens. What the columns mean is in `.attrs["definitions"]`.
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
    return examine(model, batches, statistics, eps, eager).heads


def examine(
    model: nn.Module,
    batches: Iterable[Batch],
    statistics: Statistics = "full",
    eps: float = EPS,
    eager: bool = False,
) -> Findings:
    """All tables over batches of model inputs. Ctrl-C ends it early, with what there is."""
    batches = list(batches)
    if not batches:
        raise SpecError("batches must hold at least one batch, got none")
    interrupted, tokens = False, 0
    w = watch(model, statistics=statistics, eps=eps, eager=eager)
    try:
        with evaluating(model), torch.no_grad(), w, Progress(len(batches), "batches") as progress:
            for batch in batches:
                forward(model, batch)
                tokens += _tokens(batch)
                progress.advance()
    except KeyboardInterrupt:
        interrupted = True
    if interrupted and not tokens:
        raise KeyboardInterrupt  # there is nothing to show yet
    if not w.tallies:
        raise SpecError("no attention was measured: the model called none of its attention modules")
    profile, sinks = (w.profile(), w.sinks()) if statistics == "full" else (pandas.DataFrame(), pandas.DataFrame())
    return Findings(w.report(), w.report("cross"), w.activations(), profile, sinks, eps, tokens, interrupted)


def _tokens(batch: Batch) -> int:
    mask = batch.get("attention_mask")
    if isinstance(mask, Tensor):
        return int(mask.sum())
    ids = batch.get("input_ids")
    return ids.numel() if isinstance(ids, Tensor) else 0
