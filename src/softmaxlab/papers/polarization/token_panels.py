"""Figures 8 and 9: what a sample of the two tasks looks like, drawn from real samples."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


CELL = 0.9  # width of a token's box, where boxes stand 1 apart


def draw_tokens(ax: "Axes", names: list[str], weights: np.ndarray, y: float, framed: int | None = None) -> None:
    """A row of boxes; the more weight, the darker."""
    from matplotlib.patches import Rectangle

    from softmaxlab.plotting.journal import COLOURS

    for i, (name, weight) in enumerate(zip(names, weights)):
        frame = {"edgecolor": COLOURS[1], "lw": 2} if i == framed else {"edgecolor": "0.5", "lw": 0.8}
        corner = (i - CELL / 2, y - CELL / 2)
        shade = COLOURS[0], float(np.clip(weight, 0, 1))
        ax.add_patch(Rectangle(corner, CELL, CELL, facecolor=shade, **frame))
        ax.text(i, y, name, ha="center", va="center", fontsize=9, color="white" if weight > 0.6 else "black")


def frame(ax: "Axes", length: int, height: tuple[float, float], left: float = -1.0, right: float = 0.0) -> None:
    ax.set_xlim(left, length + right)
    ax.set_ylim(*height)
    ax.set_aspect("equal")
    ax.axis("off")
