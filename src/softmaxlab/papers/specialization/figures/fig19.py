"""Figures 19 and 20: four runs of Figure 4, as heads in feature space and as m_hf through time."""

from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.figures.fig04 import SequentialRuns
from softmaxlab.papers.specialization.head_paths import (
    NOTHING,
    count,
    finite_times,
    sign_patterns,
    span,
)
from softmaxlab.papers.specialization.sequential_maps import COST, PRESETS, grid, look, sequential_paths, title
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


class Fig19(SequentialRuns):
    """One row per run, one column per pair of features: the paths of the heads."""

    id: ClassVar[str] = "specialization/fig19"
    title: ClassVar[str] = "Gaussian signal: heads in feature space, four runs"
    place: ClassVar[str] = "Figure 19"
    reports: ClassVar[str] = "Four starts end alike: the heads spread over the combinations ±s_1 ± s_2 ± s_3"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    cost: ClassVar[dict[str, str]] = COST

    runs: Annotated[int, Field(ge=1, le=8)] = 4

    @staticmethod
    def seen(result: Result) -> str:
        paths = sequential_paths(result)
        if not paths:
            return NOTHING
        ends = [path[-1] for _, path in paths]
        patterns = [sign_patterns(end) for end in ends]
        weakest, losses = int(np.argmin(result["nu"])), [loss[np.isfinite(loss)][-1:] for loss in result["loss"][0]]
        every = 2 ** len(result["nu"])
        whole = count(n == every for n in patterns)
        return (
            f"All {every} combinations of signs are there in {whole} runs, which "
            f"have {span(patterns)}; the weakest feature's mean |m_hf| is "
            f"{span((np.abs(end[:, weakest]).mean() for end in ends), '.2f')}, losses are "
            f"{span(np.concatenate(losses), '.3f')}."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        pairs = list(combinations(range(result["m"].shape[-1]), 2))
        figure, axes = grid(result, len(pairs), Fig19.title, height=2.7)
        for row, *run in zip(axes, result["tau"][0], result["m"][0]):
            _, m = finite_times(*run)
            reach = 1.1 * np.abs(m).max()
            for ax, (f, g) in zip(row, pairs):
                for h in range(m.shape[1]):
                    ax.plot(m[:, h, f], m[:, h, g], **look(h), lw=1.2)
                    ax.plot(m[-1, h, f], m[-1, h, g], "o", color=COLOURS[h % len(COLOURS)], ms=6, mec="k", mew=0.5)
                if (f, g) == (0, 1):  # weaker features need a scale of their own to be seen
                    ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
                label(ax, f"$m_{{h{f + 1}}}$", f"$m_{{h{g + 1}}}$", title(result, f, g))
        return figure
