"""Figure 20: one row per run, one column per feature: m_hf through time."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.figures.fig04 import SequentialRuns
from softmaxlab.papers.specialization.head_paths import (
    LEARNT,
    NOTHING,
    count,
    finite_times,
    learnt_at,
    listed,
    split_evenly,
)
from softmaxlab.papers.specialization.sequential_maps import COST, PRESETS, grid, look, sequential_paths, title
from softmaxlab.plotting.lines import label

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


class Fig20(SequentialRuns):
    """One row per run, one column per feature: m_hf through time."""

    id: ClassVar[str] = "specialization/fig20"
    title: ClassVar[str] = "Gaussian signal: m through time, four runs"
    place: ClassVar[str] = "Figure 20"
    reports: ClassVar[str] = (
        "The runs of Figure 19: the features are learnt in the same order and split the heads evenly"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    cost: ClassVar[dict[str, str]] = COST

    runs: Annotated[int, Field(ge=1, le=8)] = 4

    @staticmethod
    def seen(result: Result) -> str:
        paths = sequential_paths(result)
        if not paths:
            return NOTHING
        times = np.array([learnt_at(tau, path) for tau, path in paths])
        even = np.array([split_evenly(path[-1]) for _, path in paths])
        ordered = count(_in_order(of_run, result["nu"]) for of_run in times)
        learnt, split = (listed(column.sum() for column in of_runs.T) for of_runs in (np.isfinite(times), even))
        return (
            f"Features {listed(range(1, times.shape[1] + 1))} are learnt (mean |m_hf| > {LEARNT:g}) in {learnt} of "
            f"{len(paths)} runs, the stronger first in {ordered}, and split the heads evenly in {split}."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        figure, axes = grid(result, result["m"].shape[-1], Fig20.title, height=2.0, sharex=True)
        for row, *run in zip(axes, result["tau"][0], result["m"][0]):
            tau, m = finite_times(*run)
            for f, ax in enumerate(row):
                for h in range(m.shape[1]):
                    ax.plot(tau[1:], m[1:, h, f], **look(h), lw=1.3)
                ax.set_xscale("log")
                ax.set_xlim(tau[1], tau[-1])
                label(ax, "time τ", f"$m_{{h{f + 1}}}$", title(result, f))
        return figure


def _in_order(times: np.ndarray, nu: np.ndarray) -> bool:
    """Whether two features or more are learnt, none before a stronger one."""
    earlier = times[:, None] < times
    ranked = (nu[:, None] > nu) & np.isfinite(times)
    return bool(ranked.any() and earlier[ranked].all() and np.isfinite(times).sum() > 1)
