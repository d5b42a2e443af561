"""The picture of the page Attention: the same scores under every map, side by side."""

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from softmaxlab.app.permalink import remembered
from softmaxlab.app.states import Attention
from softmaxlab.app.theme import TOKENS, figure
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate

COLUMNS = 6


@remembered
def solve(state: Attention) -> Result:
    return simulate(state.spec())


def pattern(state: Attention) -> go.Figure:
    """Return bars of the weights, one panel for each map, from 0 to 1 unless a weight is outside."""
    result = solve(state)
    weights = result["weights"][:, 0, 0]
    rows = -(-len(weights) // COLUMNS)
    titles = [f"<b>{name}</b><br>Σ {w.sum():.2f}" for name, w in zip(result["map"], weights)]
    drawn = make_subplots(rows, COLUMNS, subplot_titles=titles, vertical_spacing=0.42 / rows)
    colours = [TOKENS[i % len(TOKENS)] for i in range(len(state.scores))]
    keys = [str(i + 1) for i in range(len(state.scores))]
    for i, (name, w) in enumerate(zip(result["map"], weights)):
        bars = go.Bar(
            x=keys,
            y=w.tolist(),
            marker={"color": colours, "line_width": 0},
            name=str(name),
            hovertemplate="key %{x}: %{y:.4f}",
        )
        drawn.add_trace(bars, row=i // COLUMNS + 1, col=i % COLUMNS + 1)
    drawn.update_layout(figure().layout)
    drawn.update_layout(margin={"l": 34, "r": 8, "t": 42, "b": 28}, bargap=0.25)
    for i, w in enumerate(weights):
        drawn.update_yaxes(range=_range(w), row=i // COLUMNS + 1, col=i % COLUMNS + 1)
    drawn.update_yaxes(nticks=4, title="", zeroline=True)
    drawn.update_xaxes(title="", type="category")
    drawn.update_annotations(font_size=12)
    return drawn


def sentence(state: Attention) -> str:
    """Return a sentence on how far the maps disagree about the same scores."""
    result = solve(state)
    w = dict(zip(result["map"].tolist(), result["weights"][:, 0, 0]))
    top = int(np.argmax(state.scores))
    return (
        f"Key {top + 1} has the largest score: softmax gives it {w['softmax'][top]:.3f}, sparsemax "
        f"{w['sparsemax'][top]:.3f}, softmax1 {w['softmax1'][top]:.3f}, sigmoid {w['sigmoid'][top]:.3f}."
    )


def _range(w: np.ndarray) -> list[float]:
    """Return the range of the weight axis: 0 to 1 for maps that stay within, wider for the others."""
    low, high = min(float(w.min()), 0.0), max(float(w.max()), 1.0)
    room = 0.06 * (high - low)
    return [low - (room if low < 0 else 0.0), high + room]
