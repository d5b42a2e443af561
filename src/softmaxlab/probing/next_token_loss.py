"""The loss of a language model on token sequences, and how much a change of the model costs.

    loss = Σ_i S_i / Σ_i n_i,   S_i = Σ −log p(token | tokens before it) over the n_i predicted tokens of sequence i

in nats per token. Padding is neither predicted nor used to predict. A change is paired, the same sequences before and
after, so its standard error is that of Σ(S'_i − S_i)/Σn_i over sequences:

    s.e. = √( n/(n−1) · Σ(S_i − mean·n_i)² ) / Σn_i,   NaN for one sequence.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softmaxlab.core.progress import Progress
from softmaxlab.errors import SpecError
from softmaxlab.probing.inference import Batch, as_batches, evaluating, forward
from softmaxlab.probing.streaming.sites import root, sites, text_sites

UNCOUNTED = -100  # a label that is not predicted, as everywhere in transformers
ROWS = 512  # predictions whose log-probabilities are in memory at once, in float32


@dataclass(frozen=True, eq=False)
class Loss:
    """Sums S [sequence] in nats and the numbers n [sequence] of tokens they are over."""

    S: np.ndarray
    n: np.ndarray

    @classmethod
    def from_sums(cls, parts: Iterable[tuple[Tensor, Tensor]]) -> "Loss":
        """The loss of several batches from the S and n of each."""
        S, n = (torch.cat(part).double().cpu().numpy() for part in zip(*parts))
        return cls(S, n)

    @property
    def mean(self) -> float:
        return float(self.S.sum() / self.n.sum())

    @property
    def se(self) -> float:
        return _ratio_error(self.S, self.n)

    @property
    def perplexity(self) -> float:
        return math.exp(self.mean)

    @property
    def per_sequence(self) -> np.ndarray:
        return self.S / self.n

    def __str__(self) -> str:
        count = "1 sequence, so no standard error" if len(self.n) == 1 else f"{len(self.n)} sequences"
        return f"loss {self.mean:.4f}{plus_minus(self.se)} nats per token ({count})"


@dataclass(frozen=True)
class Change:
    """Δloss in nats per token, with its standard error over sequences."""

    mean: float
    se: float
    sequences: int

    def __str__(self) -> str:
        percent = 100 * math.expm1(self.mean)
        return f"Δloss {self.mean:+.4f}{plus_minus(self.se)} nats per token, perplexity {percent:+.2f} %"


def plus_minus(se: float | None, digits: int = 4) -> str:
    """Return " ± " and a standard error; nothing if it is not known, as of a single sequence."""
    return "" if se is None or math.isnan(se) else f" ± {se:.{digits}f}"


def change(before: Loss, after: Loss) -> Change:
    """Return by how much a change of the model moved the loss of the same sequences."""
    if not np.array_equal(before.n, after.n):
        raise SpecError("before and after must be losses of the same sequences; they predict different tokens")
    S = after.S - before.S
    return Change(float(S.sum() / before.n.sum()), _ratio_error(S, before.n), len(S))


def loss(model: nn.Module, batches: Iterable[Any]) -> Loss:
    """The loss on batches of model inputs, or on plain token sequences [T]; without dropout."""
    if reason := lacks_loss(model):
        raise SpecError(reason)
    inputs = as_batches(batches)
    with evaluating(model), torch.no_grad(), Progress(len(inputs), "loss") as progress:
        parts = []
        for batch in inputs:
            parts.append(sequence_sums(model, batch))
            progress.advance()
    return Loss.from_sums(parts)


def lacks_loss(model: nn.Module) -> str:
    """Return why a model has no next-token loss; empty if it has one."""
    top = root(model)
    name = type(top).__name__
    if not top.can_generate():
        return f"model {name} does not predict the next token, so it has no loss here; masked models have none either"
    inner = text_sites(sites(top))
    if not top.config.is_encoder_decoder and any(getattr(site.module, "is_causal", True) is False for site in inner):
        return f"model {name} sees the token it predicts (its attention is not causal), so it has no next-token loss"
    return ""


def sequence_sums(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """S and n [sequence] of one batch; gradient flows."""
    top = root(model)
    seq2seq = bool(top.config.is_encoder_decoder)
    needed = "labels" if seq2seq else "input_ids"
    if batch.get(needed) is None:
        raise SpecError(f"the loss of {type(top).__name__} needs {needed} in every batch, got {sorted(batch)}")
    logits = forward(model, _without_labels(batch, seq2seq)).logits
    logits = logits if seq2seq else logits[:, :-1]
    targets = _targets(batch, seq2seq).to(logits.device)
    pairs = zip(logits.flatten(0, 1).split(ROWS), targets.flatten().split(ROWS))
    entropy = torch.nn.functional.cross_entropy
    nats = [entropy(rows.float(), right, ignore_index=UNCOUNTED, reduction="none") for rows, right in pairs]
    n = (targets != UNCOUNTED).sum(dim=1)
    return torch.cat(nats).view(targets.shape).double().sum(dim=1), n


def _targets(batch: Batch, seq2seq: bool) -> Tensor:
    """The tokens to predict [B, T or T − 1], UNCOUNTED where none is."""
    if seq2seq:
        return batch["labels"]
    targets = batch["input_ids"] if batch.get("labels") is None else batch["labels"]
    mask = batch.get("attention_mask")
    if mask is not None:
        real = mask.bool()
        return targets[:, 1:].masked_fill(~(real[:, 1:] & real[:, :-1]), UNCOUNTED)
    return targets[:, 1:]


def _without_labels(batch: Batch, seq2seq: bool) -> dict[str, Any]:
    """An encoder–decoder makes its decoder's input from the labels; others would only compute the loss twice."""
    return {name: value for name, value in batch.items() if seq2seq or name != "labels"}


def _ratio_error(S: np.ndarray, n: np.ndarray) -> float:
    count = len(S)
    if count < 2:
        return math.nan
    spread = S - S.sum() / n.sum() * n
    return float(np.sqrt(count / (count - 1) * np.square(spread).sum()) / n.sum())
