"""Figures 19 and 20: four runs of Figure 4, as heads in feature space and as m_hf through time."""

from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.lines import label
from softmaxlab.papers.specialization.compared import CALLED
from softmaxlab.papers.specialization.fig04 import SequentialRuns
from softmaxlab.papers.specialization.paths import (
    LEARNT,
    NOTHING,
    count,
    finite_path,
    learnt_at,
    listed,
    sign_patterns,
    span,
    split_evenly,
)
from softmaxlab.papers.style import COLOURS

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

PRESETS: dict[str, dict[str, Any]] = {
    "quick": {"points": 41, "runs": 2},
    "paper": {"samples": 2**15},
}
COST = {"quick": "15 s", "paper": "about 80 s"}
HEAD_DASHES = ("-", "--", "-.", ":")


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
        paths = _paths(result)
        if not paths:
            return NOTHING
        ends = [path[-1] for path in paths]
        found = [sign_patterns(end) for end in ends]
        weakest, losses = int(np.argmin(result["nu"])), [loss[np.isfinite(loss)][-1:] for loss in result["loss"][0]]
        every = 2 ** len(result["nu"])
        whole = count(n == every for n in found)
        return (
            f"All {every} combinations of signs are there in {whole} runs, which "
            f"have {span(found)}; the weakest feature's mean |m_hf| is "
            f"{span((np.abs(end[:, weakest]).mean() for end in ends), '.2f')}, losses are "
            f"{span(np.concatenate(losses), '.3f')}."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        pairs = list(combinations(range(result["m"].shape[-1]), 2))
        figure, axes = _grid(result, len(pairs), Fig19.title, height=2.7)
        for row, m in zip(axes, result["m"][0]):
            reach = 1.1 * np.nanmax(np.abs(m))
            for ax, (f, g) in zip(row, pairs):
                for h in range(m.shape[1]):
                    ax.plot(m[:, h, f], m[:, h, g], **_look(h), lw=1.2)
                    ax.plot(m[-1, h, f], m[-1, h, g], "o", color=COLOURS[h % len(COLOURS)], ms=6, mec="k", mew=0.5)
                if (f, g) == (0, 1):  # weaker features need a scale of their own to be seen
                    ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
                label(ax, f"$m_{{h{f + 1}}}$", f"$m_{{h{g + 1}}}$", _title(result, f, g))
        return figure


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
        paths = _paths(result)
        if not paths:
            return NOTHING
        times = np.array([learnt_at(result["tau"], path) for path in paths])
        even = np.array([split_evenly(path[-1]) for path in paths])
        ordered = count(_in_order(of_run, result["nu"]) for of_run in times)
        learnt, split = (listed(column.sum() for column in of_runs.T) for of_runs in (np.isfinite(times), even))
        return (
            f"Features {listed(range(1, times.shape[1] + 1))} are learnt (mean |m_hf| > {LEARNT:g}) in {learnt} of "
            f"{len(paths)} runs, the stronger first in {ordered}, and split the heads evenly in {split}."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        figure, axes = _grid(result, result["m"].shape[-1], Fig20.title, height=2.0, sharex=True)
        tau = result["tau"]
        for row, m in zip(axes, result["m"][0]):
            for f, ax in enumerate(row):
                for h in range(m.shape[1]):
                    ax.plot(tau[1:], m[1:, h, f], **_look(h), lw=1.3)
                ax.set_xscale("log")
                ax.set_xlim(tau[1], tau[-1])
                label(ax, "time τ", f"$m_{{h{f + 1}}}$", _title(result, f))
        return figure


def _paths(result: Result) -> list[np.ndarray]:
    """The paths of the runs that are drawn, those of the first map."""
    paths = [finite_path(m) for of_map in result["m"][:1] for m in of_map]
    return [path for path in paths if path.size]


def _in_order(times: np.ndarray, nu: np.ndarray) -> bool:
    """Whether two features or more are learnt, none before a stronger one."""
    earlier = times[:, None] < times
    ranked = (nu[:, None] > nu) & np.isfinite(times)
    return bool(ranked.any() and earlier[ranked].all() and np.isfinite(times).sum() > 1)


def _grid(
    result: Result, columns: int, title: str, height: float, **shared: Any
) -> "tuple[matplotlib.figure.Figure, np.ndarray]":
    from matplotlib.figure import Figure

    runs, H = result["m"].shape[1], result["m"].shape[-2]
    figure = Figure(figsize=(3.0 * columns + 0.6, height * runs + 0.6), layout="constrained")
    axes = figure.subplots(runs, columns, squeeze=False, **shared)
    map, end = CALLED[str(result["map"][0])], result["tau"][-1]
    figure.suptitle(f"{title}\n(flow to τ = {end:g}, {map}, H = {H}, a colour per head, a row per run)", fontsize=11)
    return figure, axes


def _look(h: int) -> dict[str, Any]:
    return {"color": COLOURS[h % len(COLOURS)], "ls": HEAD_DASHES[h % len(HEAD_DASHES)]}


def _title(result: Result, *features: int) -> str:
    return ", ".join(f"feature {f + 1}: ν = {result['nu'][f]:g}" for f in features)
