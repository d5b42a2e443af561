"""Descents of the regression problem ‖β* − XVs‖² at several condition numbers κ of X: behind Figures 3 and 12."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.gradients import NAMES, with_gradients
from softmaxlab.polarization import Descent, descend_many

SHOWN = 1e-3  # part of the time before which nothing moves
Kappas = Annotated[tuple[Annotated[float, Field(ge=1)], ...], Field(min_length=1, max_length=11)]


class ConditionFigure(FigureSpec):
    """Base of figures of descents of ‖β* − XVs‖² for each of `kappas`, with the same β* and singular vectors."""

    kappas: Kappas
    p: Annotated[int, Field(ge=2, le=500)] = 20
    seed: problems.Seed = None
    lr: Annotated[float, Field(gt=0)] = 1e-3
    steps: Annotated[int, Field(ge=1)] = 300_000

    def _run(self, device: str) -> Result:
        return condition_numbers(self.p, self.seed, self.kappas, self.lr, self.steps)


def condition_numbers(p: int, seed: int | None, kappas: Sequence[float], lr: float, steps: int) -> Result:
    """a, weights, loss and gradient norms for each κ, and the size ‖X⁻¹β*‖² of the solution, which grows with κ too."""
    starts = [problems.regression(p, seed, kappa) for kappa in kappas]
    runs = [with_gradients(run) for run in descend_many(Descent(**start, lr=lr, steps=steps) for start in starts)]
    family = gather(runs, kappas, "kappa", ("a", "weights", "loss", *NAMES))
    sizes = [np.square(np.linalg.solve(start["X"], start["beta"])).sum() for start in starts]
    return Result(
        {**family.arrays, "solution_size": sizes},
        {**family.axes, "solution_size": ("kappa",)},
        family.status,
        {"instance": problems.instance(seed)},
    )
