"""Lines and labels that the pictures of all papers share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.plotting.journal import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))  # one per colour but the last, grey


def draw_lines(ax: "Axes", x: np.ndarray, values: np.ndarray, labels: Sequence[str]) -> None:
    """One line per row of `values` [line, x], all of the same rank."""
    for i, (row, name) in enumerate(zip(values, labels)):
        ax.plot(x, row, color=COLOURS[i % len(COLOURS)], ls=DASHES[i % len(DASHES)], lw=1.5, label=name)


def label(ax: "Axes", x: str, y: str, title: str = "") -> None:
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)
    ax.set_title(title, fontsize=9)
    ax.tick_params(labelsize=8)
