"""Figures 19 and 20: four runs of Figure 4, as heads in feature space and as m_hf through time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.head_paths import (
    finite_path,
)
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.map_styles import CALLED

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


PRESETS: dict[str, dict[str, Any]] = {
    "quick": {"points": 41, "runs": 2},
    "paper": {"samples": 2**15},
}


COST = {"quick": "15 s", "paper": "about 80 s"}


HEAD_DASHES = ("-", "--", "-.", ":")


def sequential_paths(result: Result) -> list[np.ndarray]:
    """The paths of the runs that are drawn, those of the first map."""
    paths = [finite_path(m) for of_map in result["m"][:1] for m in of_map]
    return [path for path in paths if path.size]


def grid(
    result: Result, columns: int, title: str, height: float, **shared: Any
) -> "tuple[matplotlib.figure.Figure, np.ndarray]":
    from matplotlib.figure import Figure

    runs, H = result["m"].shape[1], result["m"].shape[-2]
    figure = Figure(figsize=(3.0 * columns + 0.6, height * runs + 0.6), layout="constrained")
    axes = figure.subplots(runs, columns, squeeze=False, **shared)
    map, end = CALLED[str(result["map"][0])], result["tau"][-1]
    figure.suptitle(f"{title}\n(flow to τ = {end:g}, {map}, H = {H}, a colour per head, a row per run)", fontsize=11)
    return figure, axes


def look(h: int) -> dict[str, Any]:
    return {"color": COLOURS[h % len(COLOURS)], "ls": HEAD_DASHES[h % len(HEAD_DASHES)]}


def title(result: Result, *features: int) -> str:
    return ", ".join(f"feature {f + 1}: ν = {result['nu'][f]:g}" for f in features)
