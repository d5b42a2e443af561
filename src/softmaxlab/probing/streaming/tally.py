"""Running means and standard errors over sequences.

A mean over all queries of all sequences is a ratio, ΣS_i/Σn_i, of per-sequence sums and counts. Its standard error
over n sequences treats sequences, not queries, as independent:

    s.e. = √( n/(n−1) · Σ(S_i − mean·n_i)² ) / Σn_i,

which five running sums give without keeping any S_i. A sequence stays open while a cache goes on with it.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from softmaxlab.probing.streaming.passes import Place
from softmaxlab.probing.streaming.sums import Sums

ENOUGH = 0.25  # a key is called a sink of a sequence only if this share of its queries see it: no mere neighbour
PER_ROW = ("sparsity", "sink", "entropy", "entropy_normalised", "effective_keys", "keys_above", "sink_output")
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
        """From sums and counts [sequence, head]."""
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
class Open:
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
    profile: Tensor | None = None  # Σ over sequences of α_k [H, position from the first token]
    profiled: Tensor | None = None  # how many sequences have that position [position]
    sinks: Counter = field(default_factory=Counter)  # (head, position, token) → sequences in which it is a sink
    _open: Open | None = None

    def add(self, sums: Sums, place: Place) -> None:
        """Sums of one call: of new sequences, or of more queries of the open ones."""
        sums = {**sums, **_shifted(sums, place.offset)}
        was, length = self._open, place.start + place.counted.shape[1]
        if was is not None and was.length == place.start and _batch(was.sums) == _batch(sums):
            self._open = Open(_joined(was.sums, sums), was.start, length, _appended(was.ids, place))
        else:
            self.close()
            self._open = Open(sums, place.origin, length, _appended(None, place))

    def close(self) -> None:
        """Count the open sequences."""
        if self._open is None:
            return
        open = _real(self._open)
        sums = open.sums
        self.sequences += _batch(sums)
        for name, ratio in _ratios(sums, self.eps).items():
            self.ratios[name] = self.ratios[name] + ratio if name in self.ratios else ratio
        if "columns" in sums:
            self._close_columns(open)
        self._open = None

    def closed(self) -> "Tally":
        """A copy that counts the open sequences as they are now; this one may go on with them."""
        copy = replace(self, ratios=dict(self.ratios), sinks=Counter(self.sinks))
        copy.close()
        return copy

    def _close_columns(self, open: Open) -> None:
        α, seen = (_from_first(open.sums[name], open.start) for name in ("columns", "seen"))
        enough = seen >= ENOUGH * open.sums["queries"][:, :1]
        α = torch.where(seen[:, None] > 0, α / seen[:, None], 0)
        self.profile = _added(self.profile, α.sum(dim=0))
        self.profiled = _added(self.profiled, (seen > 0).double().sum(dim=0))
        sample, head, position = ((α > self.eps) & enough[:, None]).nonzero(as_tuple=True)
        tokens = _tokens(open.ids, sample, open.start[sample] + position)
        self.sinks.update(zip(head.tolist(), position.tolist(), tokens.tolist()))


def _real(open: Open) -> Open:
    """Without rows of a batch that are padding alone."""
    real = open.sums["queries"][:, 0] > 0
    sums = {name: x[real.to(x.device)] for name, x in open.sums.items()}
    return Open(sums, open.start[real], open.length, None if open.ids is None else open.ids[real.to(open.ids.device)])


def _tokens(ids: Tensor | None, sample: Tensor, index: Tensor) -> Tensor:
    """Token ids at the places found; −1 where the model was not given tokens."""
    if ids is None:
        return torch.full_like(index, -1)
    found = ids.to(index.device)[sample, index.clamp(max=ids.shape[1] - 1)]
    return torch.where(index < ids.shape[1], found, -1)


def _ratios(sums: Sums, eps: float) -> dict[str, Ratio]:
    rows, queries = sums["rows"], sums["queries"]
    found = {name: Ratio.of(sums[name], rows) for name in PER_ROW if name in sums}
    found["total"] = Ratio.of(sums["total"], queries)
    found["empty"] = Ratio.of(queries - rows, queries)
    α_0 = sums["sink_weight"] / sums["seen_first"]
    found["sink_sequences"] = Ratio.of((α_0 > eps).double(), torch.ones_like(rows))
    if "values" in sums:
        value = sums["first_value"] * sums["valued"] / sums["values"]
        found["sink_value"] = Ratio.of(value, torch.ones_like(rows))
    return found


def _batch(sums: Sums) -> int:
    return len(sums["rows"])


def _shifted(sums: Sums, offset: int) -> Sums:
    """Columns counted from the first position of the sequence instead of the first key of the call."""
    pad = torch.nn.functional.pad
    return {name: pad(sums[name], (offset, 0)) for name in ("columns", "seen") if name in sums}


def _joined(past: Sums, sums: Sums) -> Sums:
    """Sums that both have: the fast way may serve for one call and not for the next."""
    new = sums | {name: sums[f"new_{name}"] for name in CACHED if name in sums}
    joined = {name: _added(past[name], new[name]) for name in past if name in new}
    if "first_value" in past:
        joined["first_value"] = past["first_value"]
    return joined


def _appended(past: Tensor | None, place: Place) -> Tensor | None:
    """The tokens from position 0 on, as far as they are known."""
    if place.start == 0:
        return place.ids
    if past is None or place.ids is None or past.shape[1] != place.start:
        return past
    return torch.cat([past, place.ids], dim=1)


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
