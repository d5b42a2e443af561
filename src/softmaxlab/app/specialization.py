"""Pictures of the page Specialization: heads in the plane of two spikes through time, and the loss.

A change shows a coarse flow first, over few samples, then a fine one, which is what is reproduced. A fine flow that a
newer change has made pointless is stopped, so that it does not hold up the next answer.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import plotly.graph_objects as go

from softmaxlab.app.permalink import Superseded, remembered
from softmaxlab.app.states import Specialization
from softmaxlab.app.theme import NEUTRAL, TOKENS, curve, figure, limit, token_line
from softmaxlab.core.ode import stopping
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate

SAMPLES = {"coarse": 2**6, "fine": 2**11}  # base points of the flow
POINTS = 61  # recorded times
RISK_SAMPLES = 2**11
LEGEND: Any = {"orientation": "h", "y": -0.14, "itemclick": False, "itemdoubleclick": False}
LEGEND_HEIGHT = 60  # pixels, of three lines
TABS = 64  # whose flows can be stopped; more are only slower
_stops: OrderedDict[str, threading.Event] = OrderedDict()  # by browser tab


def leave(tab: str) -> None:
    """Stop the flows that still run for a tab that has moved on."""
    stop = _stops.pop(tab, None)
    if stop is not None:
        stop.set()


@contextmanager
def stoppable(tab: str) -> Iterator[None]:
    """Let flows in this block end early, with Superseded, when the tab moves on."""
    leave(tab)
    stop = _stops[tab] = threading.Event()
    while len(_stops) > TABS:
        _stops.popitem(last=False)
    token = stopping.set(stop)  # the table may have lost it by now: requests run at the same time
    try:
        yield
    finally:
        stopping.reset(token)


def solve(state: Specialization, quality: str = "fine") -> Result:
    """The flow of a view; where in time it is looked at makes no difference to it."""
    return _solve(state.replace(at=100), quality)


@remembered
def _solve(state: Specialization, quality: str) -> Result:
    result = simulate(state.spec(SAMPLES[quality], POINTS))
    stop = stopping.get()
    if stop is not None and stop.is_set():  # half a flow must not be remembered
        raise Superseded
    return result


def risk(state: Specialization) -> tuple[float, float]:
    """The least possible loss and its standard error: heads, their map and the time make no difference to it."""
    return _risk(state.replace(at=100, heads=1, map="softmax", tau=1.0, seed=0))


@remembered
def _risk(state: Specialization) -> tuple[float, float]:
    return state.model().bayes_risk(samples=RISK_SAMPLES)


def frame(state: Specialization, result: Result) -> int:
    """The recorded time that is shown."""
    return round((len(result["tau"]) - 1) * state.at / 100)


def plane(state: Specialization, quality: str = "fine") -> go.Figure:
    """m_h0 against m_h1: where each head came from (line), is (dot), and the directions of the signal (crosses)."""
    result = solve(state, quality)
    drawn = figure("overlap with spike 1", "overlap with spike 2")
    m, k = result["m"], frame(state, result)
    for i, (x, y) in enumerate(_signal(state)):
        once: Any = {"name": "signal θ", "hoverinfo": "name", "showlegend": i == 0}
        drawn.add_scatter(x=[x], y=[y], mode="markers", marker=_cross(), **once)
    for h in range(m.shape[1]):
        line: Any = {"line": token_line(h, 2), "opacity": 0.55, "showlegend": False}
        drawn.add_trace(curve(m[:, h, 0], m[:, h, 1], f"head {h + 1}", **line))
    for h in range(m.shape[1]):
        symbol = "circle" if h < len(TOKENS) else "diamond"  # colours come round
        edge = {"color": "#ffffff", "width": 1.5}
        marker = {"size": 15, "symbol": symbol, "color": token_line(h)["color"], "line": edge}
        at = {"x": [m[k, h, 0]], "y": [m[k, h, 1]]}
        drawn.add_scatter(**at, mode="markers", marker=marker, name=f"head {h + 1}", meta=f"head-{h}")
    drawn.update_layout(showlegend=True, legend=LEGEND, margin_b=44 + LEGEND_HEIGHT)
    # one range for all times, so that the picture does not jump while it plays
    signal = [abs(x) for atom in _signal(state) for x in atom]
    reach = 1.12 * max([1.0, *signal, float(np.abs(m[..., :2]).max())])
    drawn.update_xaxes(range=[-reach, reach], zeroline=True)
    drawn.update_yaxes(range=[-reach, reach], zeroline=True)
    return drawn


def loss(state: Specialization, quality: str = "fine") -> go.Figure:
    """Loss through time with its standard error, against the Bayes risk."""
    result = solve(state, quality)
    drawn = figure("time τ", "loss")
    tau, value, error = result["tau"], result["loss"], result["loss_error"]
    band = np.concatenate([value + 2 * error, (value - 2 * error)[::-1]])
    around = np.concatenate([tau, tau[::-1]])
    drawn.add_scatter(x=around, y=band, fill="toself", fillcolor="rgba(0,114,178,0.18)", line_width=0, hoverinfo="skip")
    drawn.add_trace(curve(tau, value, "loss", token_line(0)))
    least, _ = risk(state)
    drawn.add_trace(limit(tau, np.full(len(tau), least), "Bayes risk"))
    k = frame(state, result)
    now = {"size": 13, "color": token_line(0)["color"], "line": {"color": "#ffffff", "width": 1.5}}
    drawn.add_scatter(x=[tau[k]], y=[value[k]], mode="markers", marker=now, name="now", meta="now")
    top = float(np.nanmax(value + 2 * error))
    drawn.update_yaxes(range=[0.0, 1.08 * max(top, least)])
    drawn.update_xaxes(range=[0.0, 1.02 * float(tau[-1])])
    return drawn


def track(state: Specialization, quality: str = "fine") -> dict[str, list]:
    """Return the heads' places and the loss at all times, which the player steps through."""
    result = solve(state, quality)
    m = np.round(result["m"][:, :, :2], 5)
    return {"m": m.tolist(), "tau": result["tau"].tolist(), "loss": np.round(result["loss"], 6).tolist()}


def sentence(state: Specialization, quality: str = "fine") -> str:
    """Return a sentence on what is seen, or the status of the flow if it went wrong."""
    result = solve(state, quality)
    if not result.status.ok:
        return f"The flow stopped. {result.status.sentence}."
    least, error = risk(state)
    reached = result["loss"][-1]
    moving = "" if result.notes["converged"] else ", still moving"
    rough = "a first look over few samples: " if quality == "coarse" else ""
    return (
        f"{rough}loss {reached:.3f} ± {result['loss_error'][-1]:.3f} at τ = {state.tau:g}{moving}; "
        f"the best possible is {least:.3f} ± {error:.3f}."
    ).capitalize()


def _signal(state: Specialization) -> list[tuple[float, float]]:
    """The values of θ in the plane shown, of a discrete prior."""
    atoms = state.model().prior.atoms()
    return [] if atoms is None else [(float(theta[0]), float(theta[1])) for theta in atoms[0]]


def _cross() -> dict[str, object]:
    return {"symbol": "x-thin", "size": 13, "line": {"color": NEUTRAL, "width": 3}}
