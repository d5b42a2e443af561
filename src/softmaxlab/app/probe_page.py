"""The page Probe: a saved result, the heat map of its heads, and one head."""

from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.exceptions import PreventUpdate

from softmaxlab.app import probe as view
from softmaxlab.app import results
from softmaxlab.app.callbacks import KEPT, answer, outputs
from softmaxlab.app.controls import choice, links, page, picture, slider
from softmaxlab.app.reproduce import probe_command
from softmaxlab.app.results import Saved
from softmaxlab.app.states import Probe
from softmaxlab.errors import SpecError

NAME = "probe"
LEDE = "The attention heads of a pretrained model, as a saved probe measured them. Click a head to look at it."
STATISTICS = {
    "sink": "sink score",
    "sparsity": "sparsity",
    "entropy": "entropy",
    "effective_keys": "effective keys",
    "total": "total weight",
    "sink_value": "value of the sink",
    "sink_output": "output of the sink",
}
HEIGHT = 560  # pixels
PARTS = ("heads", "pattern", "pattern-title", *KEPT)


def layout(state: Probe, root: Path) -> html.Div:
    """The page in a state, or in the nearest one there is; without any result it says how to write one."""
    saved, state, problem = nearest(state, root)
    message = [html.P(problem, className="message", role="alert")] if problem else []
    if saved is None:
        return html.Div([*message, html.Header([html.H1("Probe"), html.P(LEDE, className="lede")], className="head")])
    pictures = [
        html.Div(
            [picture(f"{NAME}-heads", "All heads", HEIGHT), picture(f"{NAME}-pattern", "One head", HEIGHT)],
            className="grid",
        ),
        dcc.Store(id=f"{NAME}-opened", data=[saved.name, state.subject]),
    ]
    return html.Div([*message, page(NAME, "Probe", LEDE, _controls(state, saved, results.names(root)), pictures)])


def nearest(state: Probe, root: Path) -> tuple[Saved | None, Probe, str]:
    """The result of a state, and the state as far as the result has it; if there is a difference, what it is."""
    try:
        saved = results.load(root, state.result)
        view.check(state, saved)
        return saved, state, ""
    except SpecError as error:
        problem = str(error)
    for name in (state.result, *results.names(root)):
        try:
            saved = results.load(root, name)
            return saved, view.fitted(state, saved), problem
        except SpecError:
            continue
    return None, state, problem


def _controls(state: Probe, saved: Saved, known: list[str]) -> list:
    rows = saved.heads(state.subject)
    measured = {name: label for name, label in STATISTICS.items() if name in rows[0]}
    subjects = {str(i): label for i, label in enumerate(saved.subjects)}
    return [
        choice(f"{NAME}-result", "Result", known, saved.name),
        choice(f"{NAME}-subject", "Model", subjects, str(state.subject)),
        choice(f"{NAME}-statistic", "Statistic", measured, state.statistic),
        slider(f"{NAME}-layer", "Layer", 0, max(row["layer"] for row in rows), 1, state.layer),
        slider(f"{NAME}-head", "Head", 0, max(row["head"] for row in rows), 1, state.head),
        slider(f"{NAME}-tokens", "Tokens shown", 2, 64, 1, state.tokens),
        html.P(f"{saved.report['text'].get('amount', '')} of {saved.report['text']['name']!r}", className="note"),
    ]


def show(state: Probe, root: Path) -> dict[str, Any]:
    """Everything that the page shows of a state."""
    saved = results.load(root, state.result)
    view.check(state, saved)
    folder = root / saved.name
    return {
        "heads": view.heads(state, saved),
        "pattern": view.one_head(state, saved),
        "pattern-title": view.head_title(state, saved),
        "sentence": view.sentence(state, saved),
        "message": "",
        "link": state.query(),
        "command": probe_command(saved.report, saved.patterns, another(folder).as_posix()),
        "python": python(state, folder.as_posix()),
        **links(NAME, state.query()),
    }


def another(folder: Path) -> Path:
    """A folder beside a result's that is not there yet: what is looked at must not be written over."""
    beside = folder.parent / f"{folder.name or NAME}-again"
    return another(beside) if beside.exists() else beside


def python(state: Probe, folder: str) -> str:
    """A script that reads the same numbers from the result's folder."""
    chosen = f"heads[heads['subject'] == report['subjects'][{state.subject}]['subject']]"
    return (
        "import json\nfrom pathlib import Path\n\nimport pandas\n\n"
        f"report = json.loads(Path({folder!r}, 'report.json').read_text(encoding='utf-8'))\n"
        "heads = pandas.DataFrame(report['heads'])\n"
        f"heads = {chosen} if 'subject' in heads else heads\n"
        f"print(heads.pivot(index='layer', columns='head', values={state.statistic!r}))\n"
        f"print(heads.query('layer == {state.layer} and head == {state.head}').T)\n"
    )


def register(app: Dash, root: Path) -> None:
    """Wire the controls to the pictures. Another result or model is another page, for its heads are others."""
    ids = [f"{NAME}-{name}" for name in ("statistic", "layer", "head", "tokens")]

    @app.callback(
        output=outputs(NAME, PARTS),
        inputs={"values": [Input(id, "value") for id in ids]},
        state={"result": State(f"{NAME}-result", "value"), "subject": State(f"{NAME}-subject", "value")},
    )
    def change(values, result, subject):
        fields = dict(zip(("statistic", "layer", "head", "tokens"), values))
        return answer(lambda: show(Probe(**fields, result=result, subject=int(subject)), root), PARTS)

    @app.callback(
        Output(f"{NAME}-layer", "value"),
        Output(f"{NAME}-head", "value"),
        Input(f"{NAME}-heads", "clickData"),
        prevent_initial_call=True,
    )
    def look_at(clicked):
        if not clicked:
            raise PreventUpdate
        point = clicked["points"][0]
        return round(point["y"]), round(point["x"])

    @app.callback(
        Output("address", "search"),
        Input(f"{NAME}-result", "value"),
        Input(f"{NAME}-subject", "value"),
        State(f"{NAME}-statistic", "value"),
        State(f"{NAME}-opened", "data"),
        prevent_initial_call=True,
    )
    def open_other(result, subject, statistic, opened):
        if [result, int(subject)] == opened:
            raise PreventUpdate
        return Probe(result=result, subject=int(subject) if result == opened[0] else 0, statistic=statistic).query()
