"""Norms of the gradients through a run, as Figures 10 and 12 of the paper draw them."""

from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.plotting import lines
from softmaxlab.polarization import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = ("gradient_V", "gradient_a")


def with_gradients(run: Result) -> Result:
    """A run of the value model with ‖∇_V L‖ and ‖∇_a L‖ at its times, NaN where V is too large to be kept."""
    norms = np.full((len(run["a"]), 2), np.nan)
    if len(run["V"]) == len(norms):
        norms = np.array([_norms(run.spec, V, a) for V, a in zip(run["V"], run["a"])])
    axes = dict.fromkeys(NAMES, run.axes["loss"])
    return Result({**run.arrays, **dict(zip(NAMES, norms.T))}, {**run.axes, **axes}, run.status, run.notes)


def draw_gradients(ax: "Axes", t: np.ndarray, norms: np.ndarray, title: str) -> None:
    """Both norms [V or a, t] against time."""
    lines.draw_lines(ax, t, norms, ["‖∇V L‖", "‖∇a L‖"])
    ax.set_yscale("log")
    ax.legend(fontsize=8, frameon=False)
    lines.label(ax, "t = lr · step", "norm of the gradient", title)


def _norms(problem: object, V: np.ndarray, a: np.ndarray) -> list[float]:
    assert isinstance(problem, Problem)
    velocity = problem.model_of().velocity(problem.loss_of(), problem.map_of(), {"V": V, "a": a})
    return [float(np.linalg.norm(velocity[name])) for name in ("V", "a")]
