"""One way to call every map, on scores or on queries and keys, so that each law is written once."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from softmaxlab.attention import MAPS, attend, feature_mlp, weights

WIDTH = 6  # of a head, for maps of queries and keys


@dataclass(frozen=True)
class Case:
    """A map with its inputs: the scores, or queries and keys."""

    name: str
    inputs: tuple[Tensor, ...]
    mlp: torch.nn.Module | None = None

    def weights(self, mask: Tensor | None = None, inputs: tuple[Tensor, ...] | None = None) -> Tensor:
        given = self.inputs if inputs is None else inputs
        if MAPS[self.name].features is None:
            return weights(self.name, given[0], mask=mask)
        q, k = given
        return attend(self.name, q, k, torch.zeros_like(k), mask=mask, mlp=self.mlp)[1]

    def with_keys(self, index: Tensor) -> tuple[Tensor, ...]:
        """The inputs with the keys taken in another order, or only some of them."""
        if MAPS[self.name].features is None:
            return (self.inputs[0][..., index],)
        return self.inputs[0], self.inputs[1][..., index, :]

    def cast(self, dtype: torch.dtype) -> "Case":
        mlp = None if self.mlp is None else copy.deepcopy(self.mlp).to(dtype)
        return Case(self.name, tuple(x.to(dtype) for x in self.inputs), mlp)


def case(name: str, shape: tuple[int, ...], seed: int = 0, scale: float = 1.0) -> Case:
    """Random inputs for weights of `shape` [..., head, query, key], in float64."""
    draw = torch.Generator().manual_seed(seed)
    *lead, queries, keys = shape
    if MAPS[name].features is None:
        return Case(name, (scale * torch.randn(shape, generator=draw, dtype=torch.float64),))
    q = scale * torch.randn((*lead, queries, WIDTH), generator=draw, dtype=torch.float64)
    k = scale * torch.randn((*lead, keys, WIDTH), generator=draw, dtype=torch.float64)
    if "mlp" not in MAPS[name].parameters:
        return Case(name, (q, k))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Case(name, (q, k), feature_mlp(WIDTH).double().requires_grad_(False))


def random_mask(shape: tuple[int, ...], seed: int = 1) -> Tensor:
    """A mask with about a third of the keys hidden, and one row hidden whole if there are two."""
    draw = torch.Generator().manual_seed(seed)
    mask = torch.rand(shape, generator=draw) > 0.35
    if shape[-2] > 1:
        mask[..., 0, :] = False
    return mask
