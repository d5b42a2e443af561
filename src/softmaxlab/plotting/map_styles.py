"""The three maps that the paper compares: their names, and one look in every picture."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from softmaxlab.plotting.journal import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MapName = Literal["softmax", "softmax1", "bayes_softmax"]
THREE: tuple[MapName, ...] = ("softmax", "softmax1", "bayes_softmax")
CALLED = {"softmax": "softmax", "softmax1": "softmax-1", "bayes_softmax": "Bayes-softmax"}
LOOK: dict[str, dict[str, Any]] = {
    "softmax": {"color": COLOURS[0], "marker": "o", "ls": "-"},
    "softmax1": {"color": COLOURS[1], "marker": "s", "ls": "--"},
    "bayes_softmax": {"color": COLOURS[2], "marker": "D", "ls": "-."},
}
BAYES: dict[str, Any] = {"color": "k", "ls": ":", "lw": 1.8, "label": "Bayes risk"}


def draw_losses(
    ax: "Axes", x: np.ndarray, loss: np.ndarray, moving: np.ndarray, map: str, error: np.ndarray | float = 0.0
) -> None:
    """Every run as a mark with two standard errors, hollow if it is not at rest; a line through the medians."""
    look = LOOK[map]
    ax.plot(x, np.median(loss, axis=1), color=look["color"], ls=look["ls"], lw=1.3)
    spread = np.repeat(x[:, None], loss.shape[1], axis=1)
    bars = np.broadcast_to(2 * np.asarray(error), loss.shape).ravel()
    ax.errorbar(spread.ravel(), loss.ravel(), bars, fmt="none", ecolor=look["color"], elinewidth=0.9, capsize=1.5)
    for hollow in (False, True):
        face = {"facecolor": "none" if hollow else look["color"], "edgecolor": look["color"]}
        chosen = moving == hollow
        ax.scatter(spread[chosen], loss[chosen], s=28, marker=look["marker"], **face, lw=1.1)
    ax.plot([], [], **look, label=CALLED[map])
