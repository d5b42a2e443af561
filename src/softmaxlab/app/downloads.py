"""Downloads of a view: /data/PAGE.csv and /data/PAGE.json, with the view's query string."""

import json
from collections.abc import Callable
from pathlib import Path

from flask import Flask, Response, abort, request

from softmaxlab.app import attention, polarization, results, specialization
from softmaxlab.app.exports import attention_csv, csv, rows_csv
from softmaxlab.app.states import PAGES, Attention, Polarization, Probe, Specialization, State
from softmaxlab.errors import SoftmaxlabError

TYPES = {"csv": "text/csv", "json": "application/json"}


def register(server: Flask, root: Path) -> None:
    """Add the route."""

    @server.get("/data/<page>.<form>")
    def data(page: str, form: str) -> Response:
        if page not in PAGES or form not in TYPES:
            abort(404)
        try:
            text = content(PAGES[page].from_query(request.query_string.decode("ascii", "replace")), form, root)
        except SoftmaxlabError as error:
            return Response(f"{error}\n", 400, mimetype="text/plain")
        held = {"Content-Disposition": f"attachment; filename=softmaxlab-{page}.{form}"}
        return Response(text, mimetype=TYPES[form], headers=held)


def content(state: State, form: str, root: Path) -> str:
    """The data of a view as CSV, or its spec (of a probe: its report) as JSON."""
    writers: dict[type[State], Callable[..., str]] = {
        Polarization: _polarization,
        Attention: _attention,
        Specialization: _specialization,
    }
    if isinstance(state, Probe):
        return _probe(state, form, root)
    return writers[type(state)](state, form)


def _polarization(state: Polarization, form: str) -> str:
    if form == "json":
        return state.spec().json_text()
    clock = "t" if state.optimizer == "flow" else "step"
    return csv(polarization.solve(state), clock, ("weights", "a", "u", "loss", "strength"))


def _attention(state: Attention, form: str) -> str:
    return state.spec().json_text() if form == "json" else attention_csv(attention.solve(state))


def _specialization(state: Specialization, form: str) -> str:
    if form == "json":
        return state.spec(specialization.SAMPLES["fine"], specialization.POINTS).json_text()
    return csv(specialization.solve(state), "tau", ("m", "q", "b", "v", "loss", "loss_error"))


def _probe(state: Probe, form: str, root: Path) -> str:
    saved = results.load(root, state.result)
    return json.dumps(saved.report, ensure_ascii=False) if form == "json" else rows_csv(saved.report["heads"])
