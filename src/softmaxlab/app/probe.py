"""Pictures of the page Probe: a statistic of all heads, and one head's pattern or profile on its first tokens."""

import html

import numpy as np
import plotly.graph_objects as go

from softmaxlab.app.results import Saved
from softmaxlab.app.states import Probe
from softmaxlab.app.theme import HEAT, TOKENS, figure
from softmaxlab.errors import SpecError

SHARES = ("sink", "sparsity")  # statistics from 0 to 1
LABEL = 12  # characters of a token


def check(state: Probe, saved: Saved) -> None:
    """Refuse a subject, statistic or head that the result does not have."""
    if state.subject >= len(saved.subjects):
        raise SpecError(f"Probe.subject must be less than {len(saved.subjects)} here, got {state.subject}")
    rows = saved.heads(state.subject)
    if state.statistic not in rows[0]:
        raise SpecError(f"Probe.statistic {state.statistic!r} was not measured in result {saved.name!r}")
    if not any((row["layer"], row["head"]) == (state.layer, state.head) for row in rows):
        raise SpecError(f"Probe.head: result {saved.name!r} has no head {state.layer}.{state.head} (layer.head)")


def fitted(state: Probe, saved: Saved) -> Probe:
    """The state with what the result does not have replaced: by its first subject, the sink score, its first head."""
    subject = state.subject if state.subject < len(saved.subjects) else 0
    rows = saved.heads(subject)
    places = [(row["layer"], row["head"]) for row in rows]
    layer, head = (state.layer, state.head) if (state.layer, state.head) in places else places[0]
    statistic = state.statistic if state.statistic in rows[0] else "sink"
    return state.replace(subject=subject, statistic=statistic, layer=layer, head=head)


def heads(state: Probe, saved: Saved) -> go.Figure:
    """Layers × heads in the colour of a statistic; the head that is looked at is framed."""
    z = _table(saved, state)
    drawn = figure("head", "layer")
    limits = {"zmin": 0, "zmax": 1} if state.statistic in SHARES else {}
    hover = "layer %{y}, head %{x}: %{z:.3f}<extra></extra>"
    drawn.add_heatmap(z=z, colorscale=HEAT, hovertemplate=hover, xgap=1, ygap=1, colorbar=_bar(), **limits)
    at = {"x0": state.head - 0.5, "x1": state.head + 0.5, "y0": state.layer - 0.5, "y1": state.layer + 0.5}
    drawn.add_shape(type="rect", **at, line={"color": TOKENS[1], "width": 3})
    drawn.update_yaxes(autorange="reversed")
    return drawn


def one_head(state: Probe, saved: Saved) -> go.Figure:
    """The head's weights [query, key] if they were saved, its mean weight by position if not."""
    weights = saved.patterns.get(f"{state.layer}.{state.head}") if state.subject == 0 else None
    return _profile(state, saved) if weights is None else _pattern(state, saved, weights)


def sentence(state: Probe, saved: Saved) -> str:
    """Return a sentence on the chosen head."""
    rows = saved.heads(state.subject)
    row = next(row for row in rows if (row["layer"], row["head"]) == (state.layer, state.head))
    value = row[state.statistic]
    shown = "unknown" if value is None else f"{value:.3f}"
    others = [other[state.statistic] for other in rows if other[state.statistic] is not None]
    middle = f"; the median head has {np.median(others):.3f}" if others else ""
    return f"Layer {state.layer}, head {state.head}: {state.statistic.replace('_', ' ')} {shown}{middle}."


def head_title(state: Probe, saved: Saved) -> str:
    """Return the title of the second picture; without a saved pattern it says how to save one."""
    name = f"{state.layer}.{state.head}"
    if state.subject == 0 and name in saved.patterns:
        return f"Pattern of head {name} on the first {min(state.tokens, len(saved.tokens))} tokens"
    if saved.profile_of(state.subject, state.layer, state.head):
        return f"Mean weight of head {name} by position (its pattern was not saved)"
    return f"Neither pattern nor profile of head {name} was saved"


def _table(saved: Saved, state: Probe) -> list[list[float | None]]:
    rows = saved.heads(state.subject)
    layers, width = max(row["layer"] for row in rows) + 1, max(row["head"] for row in rows) + 1
    z: list[list[float | None]] = [[None] * width for _ in range(layers)]
    for row in rows:
        z[row["layer"]][row["head"]] = row[state.statistic]
    return z


def _pattern(state: Probe, saved: Saved, weights: list[list[float]]) -> go.Figure:
    w = np.array(weights, dtype=float)[: state.tokens, : state.tokens]
    drawn = figure("key", "query")
    names = [f"{i}: {_visible(token)}" for i, token in enumerate(saved.tokens[: len(w)])]
    shown = np.where(w == 0, np.nan, np.sqrt(w.clip(min=0)))
    z = [[None if np.isnan(x) else float(x) for x in row] for row in shown]
    hover = "query %{y}<br>key %{x}<br>weight %{customdata:.4f}<extra></extra>"
    ticks = {"tickvals": [0, 0.1**0.5, 0.5**0.5, 1], "ticktext": ["0", "0.1", "0.5", "1"]}
    bar = _bar() | ticks
    drawn.add_heatmap(
        z=z, x=names, y=names, customdata=w, zmin=0, zmax=1, colorscale=HEAT, hovertemplate=hover, colorbar=bar
    )
    drawn.update_layout(margin={"l": 110, "b": 110})
    drawn.update_yaxes(autorange="reversed", tickfont_size=10, title="")
    drawn.update_xaxes(tickangle=-90, tickfont_size=10, title="")
    return drawn


def _profile(state: Probe, saved: Saved) -> go.Figure:
    rows = saved.profile_of(state.subject, state.layer, state.head)
    drawn = figure("position of the key", "mean weight of the queries that see it")
    near = [(k, w) for k, w in rows if k < state.tokens]
    colours = [TOKENS[1] if k == 0 else TOKENS[0] for k, _ in near]
    drawn.add_bar(x=[k for k, _ in near], y=[w for _, w in near], marker_color=colours)
    drawn.update_yaxes(rangemode="tozero")
    return drawn


def _bar() -> dict[str, object]:
    return {"thickness": 12, "outlinewidth": 0, "len": 0.9}


def _visible(token: str) -> str:
    """A token as a label; Plotly reads labels as markup, in which <s> would strike through."""
    shown = token.replace("\n", "⏎").replace(" ", "␣")
    return html.escape(shown if len(shown) <= LABEL else f"{shown[:LABEL]}…", quote=False)
