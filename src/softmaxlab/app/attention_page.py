"""The page Attention: scores that can be moved, and the weights of every map."""

from typing import Any

from dash import Dash, Input, Output, html
from dash.exceptions import PreventUpdate

from softmaxlab.app import attention as view
from softmaxlab.app.callbacks import KEPT, answer, outputs
from softmaxlab.app.controls import HIDDEN, SHOWN, kept, page, picture, slider, upright
from softmaxlab.app.states import MOST_TOKENS, Attention

NAME = "attention"
LEDE = (
    "One query looks at a few keys. A map turns its scores into weights, and the maps disagree: "
    "some put all weight on one key, some refuse to look at all."
)
MORE = (2.0, 1.0, 0.5, 0.0, -1.0, -0.5, 1.5, -2.0)  # scores of the keys that come in
PARTS = ("pattern", *KEPT)
HEIGHT = 640  # pixels
KEYS = range(MOST_TOKENS)


def layout(state: Attention) -> html.Div:
    """The page in a state."""
    count = len(state.scores)
    scores = (*state.scores, *MORE[count:])
    bars = [upright(f"{NAME}-score{i}", i, -6, 6, scores[i], str(i + 1)) for i in KEYS]
    controls = [
        html.Div([html.Div("Scores of the keys", className="label"), html.Div(bars, className="row")]),
        slider(f"{NAME}-count", "Keys", 2, MOST_TOKENS, 1, count),
        slider(f"{NAME}-bias", "Bias b", -6, 6, 0.1, state.bias, "of softmax1, bayes_softmax, sigmoid"),
    ]
    return page(NAME, "Attention", LEDE, controls, [picture(f"{NAME}-pattern", "Weights under every map", HEIGHT)])


def read(count: int, bias: float, scores: list[float]) -> Attention:
    """The state that the controls show."""
    return Attention(scores=tuple(scores[:count]), bias=bias)


def show(state: Attention) -> dict[str, Any]:
    """Everything that the page shows of a state."""
    outputs = {"pattern": view.pattern(state), "sentence": view.sentence(state), "message": ""}
    return outputs | kept(NAME, state.query(), state.spec())


def register(app: Dash) -> None:
    """Wire the controls to the picture."""
    scores = [f"{NAME}-score{i}" for i in KEYS]

    @app.callback([Output(f"{id}-box", "style") for id in scores], Input(f"{NAME}-count", "value"))
    def shape(count):
        if count is None:
            raise PreventUpdate
        return [SHOWN if i < count else HIDDEN for i in KEYS]

    @app.callback(
        output=outputs(NAME, PARTS),
        inputs={
            "count": Input(f"{NAME}-count", "value"),
            "bias": Input(f"{NAME}-bias", "value"),
            "values": [Input(id, "value") for id in scores],
        },
    )
    def change(count, bias, values):
        return answer(lambda: show(read(count, bias, values)), PARTS)
