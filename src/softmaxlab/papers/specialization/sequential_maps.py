"""Figures 19 and 20: four runs of Figure 4, as heads in feature space and as m_hf through time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.head_paths import count, finite_path, listed
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.map_styles import CALLED

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


PRESETS: dict[str, dict[str, Any]] = {
    "quick": {"points": 41, "runs": 2},
    "paper": {"samples": 2**15},
}
COST = {"quick": "30 s", "paper": "about 2 min"}
HEAD_DASHES = ("-", "--", "-.", ":")
FEW = 4  # runs whose ends have room in a title


def sequential_paths(result: Result) -> list[tuple[np.ndarray, np.ndarray]]:
    """The times and paths of the runs that are drawn, those of the first map."""
    paths = [(tau, finite_path(m)) for taus, ms in zip(result["tau"][:1], result["m"][:1]) for tau, m in zip(taus, ms)]
    return [(tau[: len(path)], path) for tau, path in paths if path.size]


def grid(
    result: Result, columns: int, title: str, height: float, **shared: Any
) -> "tuple[matplotlib.figure.Figure, np.ndarray]":
    from matplotlib.figure import Figure

    runs, H = result["m"].shape[1], result["m"].shape[-2]
    figure = Figure(figsize=(3.0 * columns + 0.6, height * runs + 0.6), layout="constrained")
    axes = figure.subplots(runs, columns, squeeze=False, **shared)
    map, ends = CALLED[str(result["map"][0])], np.nanmax(result["tau"][0], axis=-1)
    rested = listed(f"τ = {end:.3g} ({kind})" for end, kind in zip(ends, result["certificate"][0]))
    at_rest = count(result["certificate"][0] == "minimum")
    until = f"flow to {rested}" if runs <= FEW else f"at rest in {at_rest} runs"
    figure.suptitle(f"{title}\n({map}, H = {H}, a colour per head, a row per run; {until})", fontsize=11)
    return figure, axes


def look(h: int) -> dict[str, Any]:
    return {"color": COLOURS[h % len(COLOURS)], "ls": HEAD_DASHES[h % len(HEAD_DASHES)]}


def title(result: Result, *features: int) -> str:
    return ", ".join(f"feature {f + 1}: ν = {result['nu'][f]:g}" for f in features)
