"""Bars over settings, with the number of runs behind each, failures marked, and what was not run left empty."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.papers.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 0.8  # of a group of bars, where groups stand 1 apart
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
                ax.plot(at, 0.0, marker="_", color="0.6", ms=5, clip_on=False)
            elif np.isnan(value):
                ax.plot(at, 0.03, marker="x", color="#CC0000", ms=5)
            ax.text(at, np.nan_to_num(value) + 0.02, str(n) if n else "", ha="center", va="bottom",
                    fontsize=4 if small else 6, rotation=90 if small else 0)  # fmt: skip
    ax.set_xticks(range(len(groups)), groups, rotation=60, ha="right", fontsize=6 if small else 8)
    ax.set_ylim(0, 1.14)
    ax.margins(x=0.01)


LEGEND = "number on a bar: its runs; red cross: run, but none solved the task; grey dash: not run"
