"""The arrays of a result, from parameters over time: weights, loss, u = Vᵀβ*. Flow and Descent share it.

Values that would take too much memory are kept at the first and the last time only, on an axis called "end":
`result["V"][-1]` is the last one either way, and `notes["V"]` says so.
"""

from collections.abc import Mapping

import numpy as np

from softmaxlab.polarization.losses import LOSSES
from softmaxlab.polarization.models import Parameters
from softmaxlab.polarization.problem import Problem, too_large


def observe(problem: Problem, at: Parameters) -> dict[str, np.ndarray]:
    """The arrays of a result from the parameters over time, each [t, …]."""
    model = problem.model_of()
    s, output = model.forward(problem.map_of(), at)
    arrays = {**at, "weights": s, "loss": model.loss(problem.loss_of(), output)}
    direction = direction_of(problem)
    if direction is not None:
        values = at[model.valued]
        arrays["u"] = values @ direction if problem.model == "matrix" else direction @ values
    return arrays


def axes_of(problem: Problem, arrays: Mapping[str, np.ndarray], time: str = "t") -> dict[str, tuple[str, ...]]:
    """The axes of a result's arrays; `time` is the name of the first one."""
    model = problem.model_of()
    inner = {**model.axes, "weights": model.weight_axes, "u": ("token",)}
    axes = {name: (time, *inner.get(name, ())) for name in arrays}
    if len(arrays[model.valued]) != len(arrays["loss"]):
        axes[model.valued] = ("end", *model.axes[model.valued])
    return axes


class History:
    """Collects the arrays of a result, a batch of times after another."""

    def __init__(self, problem: Problem, points: int):
        self.problem = problem
        self.valued = problem.model_of().valued
        self.thin = too_large(problem.start()[self.valued], points)
        self._batches: dict[str, list[np.ndarray]] = {}

    def add(self, at: Parameters, **more: np.ndarray) -> None:
        """Record parameters [t, …] at the next times; `more` are further arrays of the same times."""
        for name, batch in {**observe(self.problem, at), **more}.items():
            kept = self._batches.setdefault(name, [])
            if name == self.valued and self.thin:
                self._batches[name] = [kept[0] if kept else batch[:1].copy(), batch[-1:].copy()]
            else:
                kept.append(batch)

    def keep_every(self, step: int) -> None:
        """Leave out all times but every `step`-th; values kept at the two ends stay."""
        for name, array in self.arrays().items():
            self._batches[name] = [array if name == self.valued and self.thin else array[::step]]

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.concatenate(batches) for name, batches in self._batches.items()}


def direction_of(problem: Problem) -> np.ndarray | None:
    """The vector that u projects on: β*, or Xᵀβ* for regression; None where the loss has no direction of its own."""
    if problem.loss == "square" or LOSSES[problem.loss].along_beta:
        return problem.beta
    return problem.given("beta") @ problem.given("X") if problem.loss == "regression" else None
