"""Spec: the same scores under many maps."""

from typing import Annotated

import torch
from pydantic import AfterValidator, Field, field_validator

from softmaxlab.attention.attend import weights
from softmaxlab.attention.registry import MAPS, names
from softmaxlab.core.arrays import Array
from softmaxlab.core.registry import Named
from softmaxlab.core.result import Result
from softmaxlab.core.spec import Spec


def score_maps() -> tuple[str, ...]:
    """The maps that act on scores."""
    return tuple(name for name in names() if MAPS[name].features is None)


def _on_scores(maps: tuple[str, ...]) -> tuple[str, ...]:
    if not maps:
        raise ValueError("must name at least one map")
    for name in maps:
        if MAPS[name].features is not None:
            raise ValueError(f"map {name!r} acts on queries and keys, not on scores")
    return maps


ScoreMaps = Annotated[tuple[Annotated[str, Named(MAPS)], ...], AfterValidator(_on_scores)]


class Compare(Spec):
    """Weights of `scores` [head, query, key] under each of `maps`; `causal` hides later keys from a query."""

    scores: Array
    maps: ScoreMaps = Field(default_factory=score_maps)
    causal: bool = False
    bias: float = 0.0

    @field_validator("scores")
    @classmethod
    def _three_axes(cls, scores):
        if scores.ndim != 3 or 0 in scores.shape:
            raise ValueError("must have the axes [head, query, key], none of them empty")
        return scores

    def _run(self, device: str) -> Result:
        scores = torch.tensor(self.scores, device=device)
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=device).tril() if self.causal else None
        rows = [
            weights(name, scores, mask=mask, bias=self.bias if MAPS[name].takes_bias else None).cpu().numpy()
            for name in self.maps
        ]
        pattern = ("head", "query", "key")
        return Result(
            {"map": list(self.maps), "scores": self.scores, "weights": rows},
            {"map": ("map",), "scores": pattern, "weights": ("map", *pattern)},
        )
