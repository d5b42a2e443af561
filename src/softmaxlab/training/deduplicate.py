"""Compute once what is equal: the bookkeeping behind the model's and the loop's exact savings.

Rows       x depends on the token and its position alone: one row for each different pair.
Prefixes   in a causal model x depends on what came before: one row for each different beginning of a sequence. In
           induction, where all begin with BOS and then one of 50 tokens, that is a seventh less than all places.
Sets       without positions and causal mask a sample is a set of tokens: of a batch one sample of each kind, counted.
           In classification with 41 symbols all samples of a label are one set.

Shapes: B samples, T positions, R rows, P prefixes, d width.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from softmaxlab.attention import MAPS

EVERYWHERE, LAST = slice(None), slice(-1, None)


@dataclass(frozen=True)
class Prefixes:
    """The P different prefixes of a batch: which of them ends where, [B, T], and for each a place of the B·T, [P]."""

    index: Tensor
    place: Tensor

    @classmethod
    def of(cls, numbers: Tensor) -> "Prefixes":
        """Return the prefixes of numbers [B, T] that are equal where prefixes are (`prefix_numbers`)."""
        different, index = torch.unique(numbers, return_inverse=True)
        return cls(index, first_places(index, len(different)))


@dataclass(frozen=True)
class Places:
    """The places where a block reads and writes: its rows stand at index [B, T], and it computes the queries `wanted`.

    Without an index every place has a row of its own, [B, T, d]. With `kept`, only these of the B·T results are needed.
    """

    index: Tensor | None
    wanted: slice
    kept: Tensor | None = None

    def keys(self, f: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
        """f(rows) at all places."""
        return f(rows) if self.index is None else spread(f(rows), self.index)

    def queries(self, f: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
        """f(rows) at the wanted places, computed for the rows or for the places, whichever are fewer."""
        if self.index is None:
            return f(rows[:, self.wanted])
        index = self.index[:, self.wanted]
        return f(spread(rows, index)) if index.numel() < len(rows) else spread(f(rows), index)

    def rows_of_results(self, rows: Tensor) -> Tensor:
        """The rows that stand where the results are needed."""
        if self.index is None:
            return rows[:, self.wanted]
        index = self.index[:, self.wanted]
        return spread(rows, index if self.kept is None else index.flatten()[self.kept])

    def keep(self, results: Tensor) -> Tensor:
        """The needed ones of results [B, wanted, d]: all of them, or [P, d]."""
        return results if self.kept is None else results.flatten(0, 1).index_select(0, self.kept)


def prefix_numbers(tokens: Tensor, symbols: int) -> Tensor:
    """Numbers [B, T], equal where the sequences up to there are."""
    numbers, length = [tokens[:, 0]], tokens.shape[1]
    for t in range(1, length):
        numbers.append(torch.unique(numbers[-1] * symbols + tokens[:, t], return_inverse=True)[1])
    return torch.stack(numbers, dim=1) * length + torch.arange(length, device=tokens.device)


def reads_sets(map: str, positions: bool, causal: bool) -> bool:
    """Whether the order of the tokens before the last makes no difference to a model's last output."""
    # a user's own map of whole rows may read the order of the keys
    return not positions and not causal and not (MAPS[map].acts_on_rows and MAPS.fingerprint(map))


def set_numbers(tokens: Tensor, targets: Tensor) -> Tensor:
    """Numbers [B], equal where the last token, the set of the others and the last target are."""
    others = tokens[:, :-1].sort(dim=1).values
    whole = torch.cat([others, tokens[:, -1:], targets.view(len(tokens), -1)[:, -1:]], dim=1)
    return torch.unique(whole, dim=0, return_inverse=True)[1]


def one_of_each(part: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """One of the samples for each number, and how many it stands for."""
    _, index, counts = torch.unique(numbers[part], return_inverse=True, return_counts=True)
    return part[first_places(index, len(counts))], counts


def first_places(index: Tensor, count: int) -> Tensor:
    """Return where each of the numbers below `count` first stands in index, flattened."""
    places = torch.arange(index.numel(), device=index.device)
    return places.new_full((count,), index.numel()).scatter_reduce(0, index.flatten(), places, "amin")


def spread(x: Tensor, index: Tensor) -> Tensor:
    """Rows [R, ...] at the places where they stand."""
    return functional.embedding(index, x)
