"""Running means and standard errors over sequences.

A mean over all queries of all sequences is a ratio, ΣS_i/Σn_i, of per-sequence sums and counts. Its standard error
over n sequences treats sequences, not queries, as independent:

    s.e. = √( n/(n−1) · Σ(S_i − mean·n_i)² ) / Σn_i,

which five running sums give without keeping any S_i. A sequence is pending while a cache goes on with it.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from softmaxlab.measure.thresholds import SINK_VISIBILITY
from softmaxlab.probing.streaming.sums import Sums
from softmaxlab.probing.streaming.tracker import SequenceLayout

PER_ROW = ("sparsity", "sink", "entropy", "entropy_normalised", "effective_keys", "keys_above", "sink_output")
LARGEST = ("max_logit",)  # not a sum: of several calls the larger one
CACHED = ("values", "valued")  # sums over all keys in a cache; a call that goes on adds the new ones


@dataclass
class Ratio:
    """ΣS/Σn over sequences, for every head."""

    S: Tensor
    n: Tensor
    SS: Tensor
    Sn: Tensor
    nn: Tensor

    @classmethod
    def of(cls, S: Tensor, n: Tensor) -> "Ratio":
        """Return the ratio of sums and counts [sequence, head]."""
        return cls(*(x.sum(dim=0) for x in (S, n, S * S, S * n, n * n)))

    def __add__(self, other: "Ratio") -> "Ratio":
        return Ratio(*(getattr(self, x) + getattr(other, x) for x in ("S", "n", "SS", "Sn", "nn")))

    def mean(self) -> Tensor:
        return self.S / self.n

    def error(self, sequences: int) -> Tensor:
        """Standard error over sequences; NaN for one sequence."""
        mean = self.mean()
        square = (self.SS - 2 * mean * self.Sn + mean * mean * self.nn).clamp(min=0.0)
        factor = sequences / (sequences - 1) if sequences > 1 else torch.nan
        return (factor * square).sqrt() / self.n


@dataclass(frozen=True)
class PendingSequences:
    """Sequences that a cache may go on with: sums so far, position of the first token [B], tokens so far."""

    sums: Sums
    start: Tensor
    length: int  # position that the next query would have
    ids: Tensor | None


@dataclass
class Tally:
    """Everything measured at one site."""

    eps: float
    sequences: int = 0
    ratios: dict[str, Ratio] = field(default_factory=dict)
    max_logit: Tensor | None = None  # [H]
    profile: Tensor | None = None  # Σ over sequences of α_k [H, position from the first token]
    profiled: Tensor | None = None  # how many sequences have that position [position]
    sinks: Counter = field(default_factory=Counter)  # (head, position, token) → sequences in which it is a sink
    sink_tokens: list[Tensor] | None = None  # rows (sequence, position, token, heads, weight); None if not asked for
    variance: dict[str, Tensor] = field(default_factory=dict)  # [H] of ΣS, from sampling queries
    _pending: PendingSequences | None = None

    def add_variance(self, variance: dict[str, Tensor]) -> None:
        """Add what one sampled call brought; calls are sampled independently of each other."""
        for name, part in variance.items():
            self.variance[name] = self.variance[name] + part if name in self.variance else part

    def sampling_error(self, name: str) -> Tensor | None:
        """Standard error of a mean from sampling queries; None if all were measured."""
        return self.variance[name].sqrt() / self.ratios[name].n if name in self.variance else None

    def add(self, sums: Sums, layout: SequenceLayout) -> None:
        """Sums of one call: of new sequences, or of more queries of the pending ones."""
        sums = {**sums, **_shifted(sums, layout.offset)}
        was, length = self._pending, layout.start + layout.counted.shape[1]
        if was is not None and was.length == layout.start and _batch(was.sums) == _batch(sums):
            self._pending = PendingSequences(_joined(was.sums, sums), was.start, length, _appended(was.ids, layout))
        else:
            self.close()
            self._pending = PendingSequences(sums, layout.origin, length, _appended(None, layout))

    def close(self) -> None:
        """Count the pending sequences."""
        if self._pending is None:
            return
        pending = _real(self._pending)
        sums = pending.sums
        self.sequences += _batch(sums)
        for name, ratio in _ratios(sums, self.eps).items():
            self.ratios[name] = self.ratios[name] + ratio if name in self.ratios else ratio
        if "max_logit" in sums and len(sums["max_logit"]):
            largest = sums["max_logit"].amax(dim=0)
            self.max_logit = largest if self.max_logit is None else torch.maximum(self.max_logit, largest)
        if "columns" in sums:
            self._close_columns(pending)
        self._pending = None

    def closed(self) -> "Tally":
        """A copy that counts the pending sequences as they are now; this one may go on with them."""
        copy = replace(self, ratios=dict(self.ratios), sinks=Counter(self.sinks))
        copy.sink_tokens = None if self.sink_tokens is None else list(self.sink_tokens)
        copy.close()
        return copy

    def _close_columns(self, pending: PendingSequences) -> None:
        α, queries_of_key = (_from_first(pending.sums[name], pending.start) for name in ("columns", "seen"))
        enough = queries_of_key >= SINK_VISIBILITY * pending.sums["queries"][:, :1]
        α = torch.where(queries_of_key[:, None] > 0, α / queries_of_key[:, None], 0)
        self.profile = _added(self.profile, α.sum(dim=0))
        self.profiled = _added(self.profiled, (queries_of_key > 0).double().sum(dim=0))
        is_sink = (α > self.eps) & enough[:, None]
        if self.sink_tokens is not None:
            self._add_tokens(α, is_sink, pending)
        sample, head, position = is_sink.nonzero(as_tuple=True)
        tokens = _tokens(pending.ids, sample, pending.start[sample] + position)
        self.sinks.update(zip(head.tolist(), position.tolist(), tokens.tolist()))

    def _add_tokens(self, α: Tensor, is_sink: Tensor, pending: PendingSequences) -> None:
        """Keep which tokens of the sequences that are being closed are sinks of how many heads."""
        heads = is_sink.sum(dim=1)
        sample, position = heads.nonzero(as_tuple=True)
        tokens = _tokens(pending.ids, sample, pending.start[sample] + position)
        weight = torch.where(is_sink, α, 0).amax(dim=1)
        first = self.sequences - len(heads)  # they are counted already
        parts = (first + sample, position, tokens, heads[sample, position], weight[sample, position])
        self.sink_tokens = [*(self.sink_tokens or ()), torch.stack([part.double().cpu() for part in parts], dim=1)]


def _real(pending: PendingSequences) -> PendingSequences:
    """Leave out rows of a batch that are padding alone."""
    real = pending.sums["queries"][:, 0] > 0
    sums = {name: x[real.to(x.device)] for name, x in pending.sums.items()}
    return PendingSequences(
        sums,
        pending.start[real],
        pending.length,
        None if pending.ids is None else pending.ids[real.to(pending.ids.device)],
    )


def _tokens(ids: Tensor | None, sample: Tensor, index: Tensor) -> Tensor:
    """Token ids at the given indices; −1 where the model did not read tokens."""
    if ids is None:
        return torch.full_like(index, -1)
    tokens = ids.to(index.device)[sample, index.clamp(max=ids.shape[1] - 1)]
    return torch.where(index < ids.shape[1], tokens, -1)


def _ratios(sums: Sums, eps: float) -> dict[str, Ratio]:
    rows, queries = sums["rows"], sums["queries"]
    ratios = {name: Ratio.of(sums[name], rows) for name in PER_ROW if name in sums}
    ratios["total"] = Ratio.of(sums["total"], queries)
    ratios["empty"] = Ratio.of(queries - rows, queries)
    α_0 = sums["sink_weight"] / sums["seen_first"]
    ratios["sink_sequences"] = Ratio.of((α_0 > eps).double(), torch.ones_like(rows))
    if "values" in sums:
        value = sums["first_value"] * sums["valued"] / sums["values"]
        ratios["sink_value"] = Ratio.of(value, torch.ones_like(rows))
    return ratios


def _batch(sums: Sums) -> int:
    return len(sums["rows"])


def _shifted(sums: Sums, offset: int) -> Sums:
    """Columns counted from the first position of the sequence instead of the first key of the call."""
    pad = torch.nn.functional.pad
    return {name: pad(sums[name], (offset, 0)) for name in ("columns", "seen") if name in sums}


def _joined(past: Sums, sums: Sums) -> Sums:
    """Sums that both have: the fast way may serve for one call and not for the next."""
    new = sums | {name: sums[f"new_{name}"] for name in CACHED if name in sums}
    joined = {name: _added(past[name], new[name]) for name in past if name in new and name not in LARGEST}
    joined |= {name: torch.maximum(past[name], new[name]) for name in LARGEST if name in past and name in new}
    if "first_value" in past:
        joined["first_value"] = past["first_value"]
    return joined


def _appended(past: Tensor | None, layout: SequenceLayout) -> Tensor | None:
    """The tokens from position 0 on, as far as they are known."""
    if layout.start == 0:
        return layout.ids
    if past is None or layout.ids is None or past.shape[1] != layout.start:
        return past
    return torch.cat([past, layout.ids], dim=1)


def _added(a: Tensor | None, b: Tensor) -> Tensor:
    """Sum over the last axis's common part, as long as the longer."""
    if a is None:
        return b
    longer, shorter = (a, b) if a.shape[-1] >= b.shape[-1] else (b, a)
    return longer + torch.nn.functional.pad(shorter, (0, longer.shape[-1] - shorter.shape[-1]))


def _from_first(columns: Tensor, start: Tensor) -> Tensor:
    """Columns [B, (H,) T] moved so that entry 0 is the sequence's first token; 0 beyond the end."""
    T = columns.shape[-1]
    index = start[:, None] + torch.arange(T, device=start.device)
    inside = index < T
    index = index.clamp(max=T - 1)
    while index.dim() < columns.dim():
        index, inside = index.unsqueeze(1), inside.unsqueeze(1)
    return columns.gather(-1, index.expand(columns.shape)) * inside
