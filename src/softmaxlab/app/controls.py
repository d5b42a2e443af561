"""The parts that pages are built of: labelled controls, pictures, the panel that reproduces a view."""

from typing import Any

from dash import dcc, html

from softmaxlab.app.reproduce import command, python
from softmaxlab.app.theme import BLANK, CONFIG, TOKENS
from softmaxlab.core.spec import Spec

HIDDEN, SHOWN = {"display": "none"}, {}
DRAG = {"updatemode": "drag", "marks": None}


def slider(id: str, label: str, low: float, high: float, step: float, value: float, hint: str = "") -> html.Div:
    """A slider that answers while it is dragged, with a box to type a number into."""
    bar = dcc.Slider(low, high, step, value=value, id=id, **DRAG)
    return html.Div([_label(label, hint), bar], className="control", id=f"{id}-box", **_named(label))


def upright(id: str, i: int, low: float, high: float, value: float, label: str) -> html.Div:
    """Return one of a row of upright sliders, in the colour of its token."""
    bar = dcc.Slider(low, high, 0.01, value=value, id=id, vertical=True, verticalHeight=170, **DRAG)
    look: Any = {"--token": TOKENS[i % len(TOKENS)]}
    inner = html.Div([bar, html.Span(label)], className="upright", style=look)
    return html.Div(inner, id=f"{id}-box", **_named(label))


def choice(id: str, label: str, options: Any, value: str) -> html.Div:
    """Return a list to choose one entry from."""
    menu = dcc.Dropdown(options, value, id=id, clearable=False, searchable=len(options) > 8)
    return html.Div([_label(label), menu], className="control", id=f"{id}-box", **_named(label))


def pills(id: str, label: str, options: Any, value: str) -> html.Div:
    """Return a row of buttons, one of which is chosen."""
    buttons = dcc.RadioItems(options, value, id=id, inline=True, className="pills")
    return html.Div([_label(label), buttons], className="control", id=f"{id}-box", role="radiogroup")


def picture(id: str, title: str, height: int, caption: Any = None, className: str = "") -> html.Figure:
    """A titled figure, so many pixels high; its graph is filled by a callback."""
    heading = html.H2(title, id=f"{id}-title")
    graph = dcc.Graph(id=id, figure=BLANK, config=CONFIG, style={"height": f"{height}px"})
    return html.Figure([heading, graph, *([caption] if caption else [])], id=f"{id}-box", className=f"card {className}")


def page(name: str, title: str, lede: str, controls: list, pictures: list) -> html.Div:
    """Title, one sentence, controls beside pictures, and the panel that reproduces the view."""
    sentence = html.P("", id=f"{name}-sentence", className="sentence", role="status")
    message = html.P("", id=f"{name}-message", className="message", role="alert")
    head = html.Header([html.H1(title), html.P(lede, className="lede")], className="head")
    body = html.Div([sentence, *pictures, again(name)], className="pictures")
    aside = html.Div(controls, className="controls", role="group")
    return html.Div([head, message, html.Div([aside, body], className="columns"), dcc.Store(id=f"{name}-link")])


def again(name: str) -> html.Section:
    """Permalink, command line, Python and download of a view."""
    return html.Section(
        [
            html.H2("Keep this view"),
            html.Div([html.Span("Permalink"), _copied(f"{name}-permalink")], className="keep"),
            html.Div([html.Span("Command line"), _copied(f"{name}-command")], className="keep"),
            html.Div([html.Span("Python"), _copied(f"{name}-python")], className="keep"),
            html.Div(
                [
                    html.A("Download CSV", id=f"{name}-csv", href="#", className="button"),
                    html.A("Download JSON", id=f"{name}-json", href="#", className="button"),
                ],
                className="downloads",
            ),
        ],
        className="card again",
    )


def links(name: str, query: str) -> dict[str, str]:
    """Return the addresses of a view's downloads."""
    return {"csv": f"/data/{name}.csv{query}", "json": f"/data/{name}.json{query}"}


def kept(name: str, query: str, spec: Spec, after: str = "print(result)") -> dict[str, Any]:
    """The outputs of `again` that a spec fills, by the part's name."""
    texts = {"link": query, "command": command(spec), "python": python(spec, after)}
    return texts | links(name, query)


def _named(label: str) -> Any:
    """Return the attribute that names the parts of a control for a screen reader."""
    return {"data-label": label}


def _copied(id: str) -> html.Div:
    """Text with a button that copies it."""
    return html.Div([html.Pre("", id=id, tabIndex=0), dcc.Clipboard(target_id=id, className="copy", title="Copy")])


def _label(text: str, hint: str = "") -> html.Div:
    return html.Div([html.Span(text), *([html.Small(hint)] if hint else [])], className="label")
