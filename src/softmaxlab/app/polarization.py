"""Pictures of the page Polarization: weights, values, loss, strength, the bound of Theorem 3.3b, and the simplex."""

import numpy as np
import plotly.graph_objects as go

from softmaxlab.app.permalink import remembered
from softmaxlab.app.states import DIRECTED, Polarization
from softmaxlab.app.theme import NEUTRAL, curve, figure, limit, thinned, token_line
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.polarization.figures.phase import CORNERS
from softmaxlab.polarization.exact import loss_limit, ratio_bound, strength_limit

B = 1.0  # b = ‖β*‖² of every view
ROWS = 4  # of the grid of other starts on the simplex
OFFSETS = (0.5, 0.3)  # of that grid, so that no start has a tie
ROUGH = {"points": 40, "rtol": 1e-4}  # of the other starts: a picture's width is a thousand pixels
PANELS = ("weights", "values", "fall", "strength", "bound")
TITLES = {
    "weights": "Weights s of the tokens",
    "values": "Values u = Vᵀβ* of the tokens",
    "fall": "Loss",
    "strength": "Strength Γ",
    "bound": "Runner-up over winner, under the bound of Theorem 3.3b",
}


@remembered
def solve(state: Polarization) -> Result:
    """Return the result of a view, which is kept for its pictures and its download."""
    return simulate(state.spec())


def panels(state: Polarization) -> dict[str, go.Figure | None]:
    """A figure for each of PANELS, None where the quantity is not defined."""
    result = solve(state)
    return {
        "weights": _lines(state, result, "weights", "weight sᵢ", [-0.02, 1.02] if _shares(result) else None),
        "values": _lines(state, result, "u", "uᵢ") if "u" in result else _lines(state, result, "a", "score aᵢ"),
        "fall": _fall(state, result),
        "strength": _strength(state, result) if "strength" in result else None,
        "bound": _bound(state, result) if _has_bound(state, result) else None,
    }


def title(panel: str, state: Polarization) -> str:
    """Return the title of a panel. Losses without a direction have no u, so their panel shows the scores a."""
    return "Scores a of the tokens" if panel == "values" and "u" not in solve(state) else TITLES[panel]


def sentence(state: Polarization) -> str:
    """Return one sentence on what is seen, or on what went wrong."""
    result = solve(state)
    if not result.status.ok:
        return f"The run stopped. {result.status.sentence}."
    s = result["weights"][-1]
    end = f"time 10^{state.horizon:g}" if state.optimizer == "flow" else f"{result['step'][-1]:,} steps"
    winner = int(s.argmax())
    others = np.delete(s, winner)
    sentence = f"After {end}, token {winner} has weight {s[winner]:.4f}"
    return f"{sentence}; the next one has {others.max():.4f}."


def simplex(state: Polarization, others: list[Result] | None = None) -> go.Figure:
    """Draw how the weights of three tokens move on the simplex, from the chosen start and from others."""
    drawn = figure(xaxis_visible=False, yaxis_visible=False)
    # the page lets the start be dragged where the scores of given weights are known
    meta = "draggable" if state.map == "softmax" else "fixed"
    drawn.update_layout(margin={"l": 8, "r": 8, "t": 8, "b": 8}, dragmode=False, meta=meta)
    drawn.update_xaxes(range=[-0.14, 1.14], fixedrange=True)
    drawn.update_yaxes(range=[-0.12, 0.98], scaleanchor="x", fixedrange=True)
    edge = CORNERS[[0, 1, 2, 0]]
    drawn.add_scatter(x=edge[:, 0], y=edge[:, 1], mode="lines", line={"color": NEUTRAL, "width": 1.2}, hoverinfo="skip")
    for other in others or ():
        drawn.add_trace(_orbit(other, 1.2, 0.55))
    result = solve(state)
    drawn.add_trace(_orbit(result, 4.0, 1.0))
    x, y = result["weights"][0] @ CORNERS
    marker = {"size": 17, "color": "#ffffff", "line": {"color": NEUTRAL, "width": 3}}
    drawn.add_scatter(x=[x], y=[y], mode="markers", marker=marker, hoverinfo="skip", name="start")
    for token, ((x, y), place) in enumerate(zip(CORNERS, ("bottom center", "bottom center", "top center"))):
        drawn.add_scatter(x=[x], y=[y], mode="text", text=[f"token {token}"], textposition=place, hoverinfo="skip")
    return drawn


def portrait(state: Polarization) -> list[Result]:
    """The flow of softmax from other starts on the simplex, with the values u and the horizon of this view."""
    if not has_simplex(state) or state.map != "softmax":
        return []
    flow = state.replace(optimizer="flow", a=(0.0, 0.0, 0.0), horizon=float(state.horizon))
    return _portrait(flow)


@remembered
def _portrait(flow: Polarization) -> list[Result]:
    return [simulate(flow.spec(a=np.log(s), **ROUGH)) for s in _grid()]


def has_simplex(state: Polarization) -> bool:
    """Whether three weights that sum to 1 are there to draw."""
    s = solve(state)["weights"]
    return state.p == 3 and bool((s >= 0).all()) and bool(np.abs(s.sum(axis=-1) - 1).max() < 1e-9)


def _grid() -> np.ndarray:
    first, second = OFFSETS
    cells = [(i + first, j + second) for i in range(ROWS) for j in range(ROWS - i)]
    return np.array([(i, j, ROWS - i - j) for i, j in cells]) / ROWS


def _orbit(result: Result, width: float, opacity: float) -> go.Scatter:
    """The weights as a line in the plane, coloured by the winner."""
    (x,) = thinned(result["weights"] @ CORNERS)
    line = token_line(int(result["weights"][-1].argmax()), width)
    return go.Scatter(x=x[:, 0], y=x[:, 1], mode="lines", line=line, opacity=opacity, hoverinfo="skip")


def _clock(state: Polarization, result: Result) -> tuple[str, np.ndarray]:
    return ("time t", result["t"]) if state.optimizer == "flow" else ("step", result["step"])


def _timed(state: Polarization, result: Result, y: str) -> go.Figure:
    """A figure over log time. The start, t = 0, is not on it."""
    drawn = figure(_clock(state, result)[0], y)
    drawn.update_xaxes(type="log", nticks=7)
    return drawn


def _lines(state: Polarization, result: Result, name: str, y: str, range: list[float] | None = None) -> go.Figure:
    drawn = _timed(state, result, y)
    t = _clock(state, result)[1][1:]
    for i, values in enumerate(result[name][1:].T):
        drawn.add_trace(curve(t, values, f"token {i}", token_line(i)))
    if range:
        drawn.update_yaxes(range=range)
    return drawn


def _fall(state: Polarization, result: Result) -> go.Figure:
    drawn = _timed(state, result, "loss")
    t = _clock(state, result)[1][1:]
    drawn.add_trace(curve(t, result["loss"][1:], "loss", token_line(0)))
    if (result["loss"][1:] > 0).all():
        drawn.update_yaxes(type="log", nticks=6)
        if state.loss == "logistic" and state.map == "softmax" and state.optimizer == "flow" and t[-1] > 1:
            late = t[t > 1]
            drawn.add_trace(limit(late, loss_limit(B) / late, "1/(b t)", "bottom left"))
    return drawn


def _strength(state: Polarization, result: Result) -> go.Figure:
    drawn = _timed(state, result, "Γ")
    t = _clock(state, result)[1][1:]
    drawn.add_trace(curve(t, result["strength"][1:], "Γ", token_line(2)))
    if state.loss == "logistic" and state.optimizer == "flow" and t[-1] > 1:
        late = t[t > 1]
        drawn.add_trace(limit(late, strength_limit(np.log(late), B), "log t / b", "bottom right"))
    return drawn


def _has_bound(state: Polarization, result: Result) -> bool:
    """Theorem 3.3b is about the flow of softmax from equal scores and values that differ."""
    is_ours = state.loss in DIRECTED and state.map == "softmax" and state.optimizer == "flow"
    is_exact = is_ours and "strength" in result
    return is_exact and len(set(state.a)) == 1 and len(set(state.u)) == state.p


def _bound(state: Polarization, result: Result) -> go.Figure:
    drawn = _timed(state, result, "s₍₂₎ / s₍₁₎")
    t, s = result["t"][1:], np.sort(result["weights"][1:], axis=-1)
    drawn.add_trace(curve(t, s[:, -2] / s[:, -1], "runner-up over winner", token_line(1)))
    bound = ratio_bound(result["strength"][1:], np.array(state.u))
    drawn.add_trace(limit(t, bound, "1/(1 + δΓ/p)", "top right"))
    drawn.update_yaxes(range=[-0.02, 1.05])
    return drawn


def _shares(result: Result) -> bool:
    s = result["weights"]
    return bool((s >= -1e-9).all() and (s <= 1 + 1e-9).all())
