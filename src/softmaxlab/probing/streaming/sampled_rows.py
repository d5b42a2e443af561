"""A sample of the queries of a long call, and the standard error that it brings.

The first quarter of the sample are the first queries, all of them: what a head does with few keys to choose from
changes fast. The rest are one query from each of so many equal parts of the remaining sequence, drawn at random and
counted a times, with a the size of its part:

    Σ_i x_i ≈ Σ_r a_r x_r        s.e.² = Σ over neighbouring parts (e_r − e_r')²,   e_r = a_r (x_r − mean)

Differences of neighbours overestimate the variance within parts rather than underestimate it. All sequences of a call
share the sample, so e is summed over them first.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

CENSUS = 4  # one over the share of the sample that are first queries
FEWEST = 16  # queries of a sample
RARE = ("keys_above",)  # 0 in most rows of a long sequence: a sample misses the others, and no error shows it; so NaN


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Queries `index` [n], in order, that stand for `weight` [n] queries each; `variance` [H] of sums, by name."""

    index: Tensor
    weight: Tensor
    first: int  # how many of them are the first queries, with weight 1
    variance: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def draw(cls, rows: int, count: int, generator: torch.Generator, device: torch.device) -> "SampledRows":
        """Draw `count` of `rows` queries, or one fewer: parts come in pairs."""
        first = count // CENSUS
        parts = (count - first) // 2 * 2
        edges = torch.linspace(first, rows, parts + 1, dtype=torch.float64).round().long()
        sizes = edges.diff()
        drawn = edges[:-1] + (torch.rand(parts, generator=generator, dtype=torch.float64) * sizes).long()
        index = torch.cat([torch.arange(first), drawn])
        weight = torch.cat([torch.ones(first, dtype=torch.float64), sizes.double()])
        return cls(index.to(device), weight.to(device), first)

    def sum(self, name: str, rows: Tensor, counts: Tensor) -> Tensor:
        """Σ_i x_i [B, H] from the sampled rows [B, H, n], of those that `counts`; the variance of Σ is kept."""
        if name in RARE:
            return torch.full(rows.shape[:2], torch.nan, dtype=torch.float64, device=rows.device)
        x = torch.where(counts, rows, 0).double()
        total = (x * self.weight).sum(dim=-1)
        mean = total.sum(dim=0) / (counts * self.weight).sum(dim=(0, -1))
        e = (torch.where(counts, x - mean[:, None], 0) * self.weight).sum(dim=0)[:, self.first :]
        self.variance[name] = (e[:, ::2] - e[:, 1::2]).square().sum(dim=-1)
        return total


def row_sum(name: str, rows: Tensor, counts: Tensor, sample: SampledRows | None) -> Tensor:
    """Σ over the queries that count [B, H], of all or estimated from a sample."""
    if sample is None:
        return torch.where(counts, rows, 0).sum(dim=-1, dtype=torch.float64)
    return sample.sum(name, rows, counts)
