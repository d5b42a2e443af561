"""The default picture of several maps on the same scores."""

from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.core.result import Result

if TYPE_CHECKING:
    import matplotlib.figure

COLUMNS = 7


def draw_patterns(result: Result) -> "matplotlib.figure.Figure":
    """The scores and then the pattern of head 0 under each map. Blue is positive, red negative, per panel."""
    from matplotlib.figure import Figure

    panels = {"scores": result["scores"][0]} | {
        str(name): pattern[0] for name, pattern in zip(result["map"], result["weights"])
    }
    columns = min(len(panels), COLUMNS)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(1.6 * columns, 1.85 * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (name, pattern) in zip(axes, panels.items()):
        reach = np.abs(pattern).max() or 1.0
        ax.imshow(pattern, cmap="RdBu", vmin=-reach, vmax=reach)
        ax.set_title(f"{name}\nmax {pattern.max():.2g}", fontsize=8)
        ax.set_xticks([])
        ax.set_yticks([])
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    figure.supxlabel("key", fontsize=8)
    figure.supylabel("query", fontsize=8)
    return figure
