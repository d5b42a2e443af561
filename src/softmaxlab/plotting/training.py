"""The natural picture of one training run: its loss, its heads, and their way if it was tracked.

Layers and heads are numbered from 0, as in the result's arrays.
"""

from typing import TYPE_CHECKING

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import draw_lines, label

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

MEASURES = {"sink_score": "sink score", "flip_rate": "flip rate", "sparsity": "sparsity"}


def draw_run(result: Result) -> "matplotlib.figure.Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    tracked = "track_step" in result
    picture = Figure(figsize=(12 if tracked else 8, 3.6), layout="constrained")
    loss, heads, *rest = picture.subplots(1, 3 if tracked else 2)
    loss.plot(result["epoch"], result["train_loss"], "o-", color=COLOURS[0])
    loss.xaxis.set_major_locator(MaxNLocator(integer=True))
    label(loss, "epoch", "training loss, mean of an epoch", _accuracy(result))
    _draw_heads(heads, result)
    for ax in rest:
        _draw_track(ax, result)
    return picture


def _accuracy(result: Result) -> str:
    name = "induction_accuracy" if "induction_accuracy" in result else "accuracy"
    return f"{name.replace('_', ' ')} {float(result[name]):.3f}" if name in result else str(result.status.outcome)


def _draw_heads(ax: "Axes", result: Result) -> None:
    """Measures of every head, layer by layer."""
    shown = [name for name in MEASURES if name in result]
    for i, name in enumerate(shown):
        values = result[name]
        place = np.arange(values.size) + 0.2 * (i - (len(shown) - 1) / 2)
        ax.plot(place, values.ravel(), "os^"[i], color=COLOURS[i], label=MEASURES[name])
    if shown:
        layers, count = result[shown[0]].shape
        names = [f"{layer}.{head}" for layer in range(layers) for head in range(count)]
        ax.set_xticks(range(len(names)), names)
        ax.legend(fontsize=7)
        ax.set_ylim(-0.05, 1.05)
    label(ax, "layer.head, from 0", "at the end", "heads")


def _draw_track(ax: "Axes", result: Result) -> None:
    name = "track_sink_score" if "track_sink_score" in result else "track_sparsity"
    last = result[name][:, -1]
    draw_lines(ax, result["track_step"], last.T, [f"head {h}" for h in range(last.shape[1])])
    ax.set_xscale("symlog", linthresh=1)
    ax.legend(fontsize=7)
    title = f"heads of layer {result[name].shape[1] - 1} in training"
    label(ax, "step", name.removeprefix("track_").replace("_", " "), title)
