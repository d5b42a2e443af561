"""The look of the explorer's figures: Okabe and Ito's colours on a clear ground, text and grid coloured by the page."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from softmaxlab.plotting.journal import COLOURS

MOST_POINTS = 500  # of a curve
# black is unreadable on the dark page
TOKENS = tuple(colour for colour in COLOURS if colour not in ("#000000", "#999999"))
DASHES = ("solid", "dash")  # colours come round after six tokens
NEUTRAL = "#8a8a8a"  # bounds and limits: readable on both grounds
HEAT = "Viridis"
BLANK: Any = {  # before the first answer
    "data": [],
    "layout": {
        "xaxis": {"visible": False},
        "yaxis": {"visible": False},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    },
}
CONFIG: Any = {"displaylogo": False, "displayModeBar": False, "responsive": True}


def figure(x: str = "", y: str = "", **layout: Any) -> go.Figure:
    """An empty figure with named axes. Colours of text, lines and grid come from the style sheet."""
    empty = go.Figure()
    empty.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        autosize=True,
        margin={"l": 56, "r": 14, "t": 12, "b": 44},
        font={"family": "system-ui, sans-serif", "size": 13},
        hovermode="closest",
        showlegend=False,
        uirevision="kept",
        **layout,
    )
    empty.update_xaxes(title={"text": x, "standoff": 8}, zeroline=False, automargin=False, exponentformat="power")
    empty.update_yaxes(title={"text": y, "standoff": 6}, zeroline=False, automargin=False, exponentformat="power")
    return empty


def token_line(i: int, width: float = 2.5) -> dict[str, Any]:
    """Colour and dash of token (or head) i."""
    return {
        "color": TOKENS[i % len(TOKENS)],
        "dash": DASHES[i // len(TOKENS) % len(DASHES)],
        "width": width,
        "simplify": False,
    }


def thinned(*arrays: np.ndarray) -> list[np.ndarray]:
    """At most MOST_POINTS entries of arrays of one length, the first and the last among them."""
    length = len(arrays[0])
    if length <= MOST_POINTS:
        return list(arrays)
    kept = np.linspace(0, length - 1, MOST_POINTS).round().astype(int)
    return [array[kept] for array in arrays]


def curve(x: np.ndarray, y: np.ndarray, name: str, line: dict[str, Any], **more: Any) -> go.Scatter:
    """A line through finite points."""
    x, y = thinned(np.asarray(x), np.asarray(y))
    return go.Scatter(x=x.tolist(), y=_plain(y), name=name, mode="lines", line=line, **more)


def limit(x: np.ndarray, y: np.ndarray, name: str, place: str = "bottom center") -> go.Scatter:
    """A dotted line with its name on it: a bound, or what is approached."""
    x, y = thinned(np.asarray(x), np.asarray(y))
    text = [""] * len(x)
    text[int(0.65 * len(x))] = name
    line = {"color": NEUTRAL, "dash": "dot", "width": 2}
    options: dict[str, Any] = {"mode": "lines+text", "text": text, "textposition": place, "textfont": {"size": 12}}
    return go.Scatter(x=x.tolist(), y=_plain(y), name=name, line=line, **options)


def _plain(y: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in y]
