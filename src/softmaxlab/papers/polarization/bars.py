"""Bars over settings, with the number of runs behind each, failures marked, and what was not run left empty."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.papers.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 0.8  # of a group of bars, where groups stand 1 apart
COUNT_AT = 1.06  # where the numbers of runs stand
HATCHES = ("", "//", "..", "xx")


def draw_bars(
    ax: "Axes", values: np.ndarray, runs: np.ndarray, groups: Sequence[str], names: Sequence[str], small: bool
) -> None:
    """Values [group, bar] up to 1. NaN: a red cross if there were runs, a grey dash if there were none."""
    bars = values.shape[1]
    each = WIDTH / bars
    for j, name in enumerate(names):
        x = np.arange(len(groups)) + (j - (bars - 1) / 2) * each
        style = {"color": COLOURS[j], "hatch": HATCHES[j % len(HATCHES)], "edgecolor": "white", "lw": 0.3}
        ax.bar(x, np.nan_to_num(values[:, j]), each, label=name, **style)
        for at, value, n in zip(x, values[:, j], runs[:, j]):
            if n == 0:
                ax.plot(at, 0.02, marker="_", color="0.5", ms=4)
            elif np.isnan(value):
                ax.plot(at, 0.03, marker="x", color="#CC0000", ms=5)
            ax.text(at, COUNT_AT, str(n) if n else "", ha="center", va="bottom", fontsize=5 if small else 6)
    ax.set_xticks(range(len(groups)), groups, rotation=60, ha="right", fontsize=6 if small else 8)
    ax.set_ylim(0, 1.14)
    ax.set_xlim(-0.6, len(groups) - 0.4)


LEGEND = "numbers: runs behind a bar; red cross: run, but none solved the task; grey dash: not run"
