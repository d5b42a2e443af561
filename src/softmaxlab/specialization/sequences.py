"""Attention weights of the heads on a few sequences drawn from the model."""

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.cost import Cost
from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed, Spec
from softmaxlab.specialization.bayes import posterior
from softmaxlab.specialization.heads import forward
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.priors import checked_theta
from softmaxlab.specialization.quasi_random import opened
from softmaxlab.specialization.start import Trained


class Sequences(Spec):
    """`count` sequences, the relevant token at a random place, and each head's weights at given order
    parameters, or where a result ended.

    The result has sigma [sequence, head, token] (σ of each head), weights [sequence, token] (their mean), posterior
    [sequence, token] (the Bayes estimator's weights), relevant [sequence] (ε) and theta [sequence, feature].
    The same seed gives the same sequences for every map.
    """

    model: SingleLocation
    order: Trained
    count: Annotated[int, Field(ge=1, le=10_000)] = 5
    seed: Seed = 0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.order.of(self.model)
        return self

    def estimate(self) -> Cost:
        return Cost(2 * self.model.sample_memory(self.count))

    def _run(self, device: str) -> Result:
        L, F, n = self.model.length, self.model.features, self.model.features + self.model.heads
        draw = generator(self.seed, "specialization/sequences")
        theta = checked_theta(self.model.prior, opened(draw.random((self.count, F))))
        relevant = draw.integers(L, size=self.count)
        X = draw.standard_normal((n, L, self.count))
        X[:F, relevant, np.arange(self.count)] += (theta @ self.order.L_p).T
        heads = forward(self.model.map, np.tensordot(self.order.K, X, axes=1), self.order.b, self.order.v)
        arrays = {
            "sigma": np.moveaxis(heads.sigma, -1, 0),
            "weights": heads.w.T,
            "posterior": posterior(self.model.prior, X[:F], self.order.L_p).T,
            "relevant": relevant,
            "theta": theta,
        }
        axes = {
            "sigma": ("sequence", "head", "token"),
            "weights": ("sequence", "token"),
            "posterior": ("sequence", "token"),
            "relevant": ("sequence",),
            "theta": ("sequence", "feature"),
        }
        return Result(arrays, axes)
