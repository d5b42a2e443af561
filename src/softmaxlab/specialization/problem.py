"""The prior, the number of tokens, the heads and their map: the fields of the single-location model."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from softmaxlab.attention import MAPS
from softmaxlab.core.registry import Named
from softmaxlab.core.spec import Record
from softmaxlab.specialization.heads import CLOSED_FORM
from softmaxlab.specialization.priors import Prior, require_usable


class Problem(Record):
    """A prior, the sequence length L, the number of heads H and their map."""

    prior: Prior
    length: Annotated[int, Field(ge=2, le=10_000)]
    heads: Annotated[int, Field(ge=1, le=1000)]
    map: Annotated[str, Named(MAPS)] = "softmax"

    @model_validator(mode="after")
    def _of_scores(self) -> Self:
        if MAPS[self.map].features is not None:
            raise ValueError(f"map {self.map!r} acts on queries and keys; a map of scores is needed, such as 'softmax'")
        if MAPS[self.map].normalise == "sum" and not MAPS[self.map].non_negative:
            raise ValueError(
                f"map {self.map!r} divides by a sum that is 0 for some Gaussian scores: its weights have no second "
                "moment, and the loss no value; take one with non-negative weights, such as 'softmax'"
            )
        require_usable(self.prior)
        return self

    @property
    def features(self) -> int:
        """F."""
        return self.prior.features

    @property
    def closed_form(self) -> bool:
        """Whether the gradient is known in closed form; autograd serves the other maps."""
        return self.map in CLOSED_FORM
