"""Bars over settings, with the number of runs behind each, failures marked, and what was not run left empty."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.plotting.journal import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 0.8  # of a group of bars, where groups stand 1 apart
COUNT_AT = 1.02  # where the numbers of runs stand, above the axes, which end at 1
ZERO = 0.012  # height at which a mean of 0 is drawn
HATCHES = ("", "//", "..", "xx")
GREY, RED = "0.5", "#CC0000"


@dataclass(frozen=True)
class Bars:
    """Mean values [group, bar] up to 1, NaN if there is none; the runs made ⊇ those in question ⊇ those behind a mean.

    Without a mean: a grey dash if nothing was run, a red cross if no run came into question, else a grey ?. `half` are
    the runs in bfloat16 and `other` means of another reading, drawn as black lines; either may be left out.
    """

    values: np.ndarray
    runs: np.ndarray
    eligible: np.ndarray
    behind: np.ndarray
    half: np.ndarray | None = None
    other: np.ndarray | None = None


def draw_bars(ax: "Axes", bars: Bars, groups: Sequence[str], names: Sequence[str], small: bool) -> None:
    number = bars.values.shape[1]
    each = WIDTH / number
    for j, name in enumerate(names):
        x = np.arange(len(groups)) + (j - (number - 1) / 2) * each
        style = {"color": COLOURS[j], "hatch": HATCHES[j % len(HATCHES)], "edgecolor": "white", "lw": 0.3}
        ax.bar(x, np.nan_to_num(bars.values[:, j]), each, label=name, **style)
        zero = bars.values[:, j] == 0
        ax.bar(x[zero], np.full(zero.sum(), ZERO), each, color=COLOURS[j])
        if bars.other is not None:
            ax.hlines(bars.other[:, j], x - each / 2, x + each / 2, color="k", lw=1.2)
        for i, at in enumerate(x):
            _mark(ax, at, bars, (i, j), {"fontsize": 5 if small else 6, "rotation": 90 if number > 1 else 0})
    ax.set_xticks(range(len(groups)), groups, rotation=60, ha="right", fontsize=6 if small else 8)
    ax.set_ylim(0, 1)
    ax.set_xlim(-0.6, len(groups) - 0.4)


def _mark(ax: "Axes", at: float, bars: Bars, which: tuple[int, int], style: dict[str, Any]) -> None:
    """Draw the mark that stands in place of a bar, and the number of runs behind it."""
    runs, behind = bars.runs[which], bars.behind[which]
    if runs == 0:
        ax.plot(at, 0.02, marker="_", color=GREY, ms=4)
        return
    if bars.eligible[which] == 0:
        ax.plot(at, 0.03, marker="x", color=RED, ms=5)
    elif behind == 0:
        ax.plot(at, 0.05, marker="$?$", color=GREY, ms=5)
    count = str(runs) if behind == runs else f"{behind}/{runs}"
    half = "b" if bars.half is not None and bars.half[which] else ""
    ax.text(at, COUNT_AT, count + half, ha="center", va="bottom", **style)


def draw_dots(ax: "Axes", at: float, values: np.ndarray, colour: str) -> None:
    """Every value as a dot, spread sideways by its rank so that none hides another."""
    spread = (np.arange(len(values)) + 0.5) / max(len(values), 1) - 0.5
    ax.plot(at + 0.7 * spread, np.sort(values), ".", ms=3, color=colour)


def legend(cross: str, unknown: str) -> str:
    """The marks in words: when a setting gets a cross, and when a ?."""
    numbers = "above: runs behind a bar, of those made (b: some in bfloat16)"
    return f"{numbers}; a stub is a mean of 0;\nred cross: {cross}; grey ?: {unknown}; grey dash: not run"
