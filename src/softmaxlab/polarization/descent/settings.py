"""The settings of a descent, which its engines read."""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.polarization.losses import LOSSES
from softmaxlab.polarization.problem import Problem
from softmaxlab.polarization.reduction import is_aligned

MOST_STEPS = 10**15  # step numbers up to here are exact in float64
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]


class DescentSettings(Problem):
    """A problem, the optimizer with its numbers, and the steps to record."""

    lr: float = Field(gt=0.0)
    steps: int = Field(ge=1, le=MOST_STEPS)
    optimizer: Literal["gd", "momentum", "adam", "adamw"] = "gd"
    weight_decay: float = Field(default=0.0, ge=0.0)
    momentum: Fraction = 0.9
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0.0)
    points: int = Field(default=400, ge=2, le=1_000_000)
    record: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _recordable(self) -> Self:
        for step in self.record or ():
            if not 0 <= step <= self.steps:
                raise ValueError(f"record must list steps from 0 to {self.steps}, got {step}")
        return self

    def recorded_steps(self) -> list[int]:
        """The steps that the result of a run without accident holds, in order."""
        steps = np.geomspace(self.steps, 1, self.points - 1).round().astype(int).tolist()
        return sorted({0, self.steps, *(steps if self.record is None else self.record)})

    def has_strength(self) -> bool:
        """Whether Γ is defined: the gradient stays along β*. For the square loss Adam's V leaves that line."""
        along = self.model == "value" and is_aligned(self)
        return along and (LOSSES[self.loss].along_beta or self.optimizer in ("gd", "momentum"))
