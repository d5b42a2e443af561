"""The page Polarization: controls, and how they change the pictures."""

from contextlib import suppress
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, html, no_update
from dash.exceptions import PreventUpdate

from softmaxlab.app import polarization as view
from softmaxlab.app.callbacks import KEPT, answer, outputs
from softmaxlab.app.controls import HIDDEN, SHOWN, choice, kept, page, picture, pills, slider, upright
from softmaxlab.app.states import FLOW_UNTIL, MOST_TOKENS, Polarization, offered_losses, offered_maps
from softmaxlab.errors import SpecError

NAME = "polarization"
LEDE = (
    "Values V and scores a learn together: a token that is ahead gets more weight, and so learns faster. "
    "Under softmax and most losses the weights end up on a single token; tokens are numbered from 0."
)
LOSSES = {"logistic": "logistic", "square": "square", "cross_entropy": "cross-entropy", "kl": "KL, literal"}
OPTIMIZERS = {"flow": "flow", "gd": "GD", "momentum": "momentum", "adam": "Adam", "adamw": "AdamW"}
SPREAD = (0.6, 0.4, 0.0, 0.2, -0.2, 0.1, 0.3, -0.1)  # values of the tokens that come in when p grows
LEAST_VALUE = 0.1  # of u under kl, whose output must be positive
FIELDS = ("loss", "map", "optimizer", "p", "horizon", "lr")
SHOWN_PARTS = (
    *view.PANELS, *(f"{name}-box" for name in (*view.PANELS, "simplex")), "values-title", *KEPT,
)  # fmt: skip
TOKENS = range(MOST_TOKENS)
TALL, LOW = 380, 250  # pixels of a picture
KEPT_AS_THEY_ARE = (f"{NAME}-horizon", f"{NAME}-lr")  # of these no other control depends
BELOW = "₀₁₂₃₄₅₆₇"


def layout(state: Polarization) -> html.Div:
    """The page in a state."""
    u, a = (*state.u, *SPREAD[state.p :]), (*state.a, *[state.a[-1]] * (MOST_TOKENS - state.p))
    values = [upright(f"{NAME}-u{i}", i, -3, 3, u[i], f"u{BELOW[i]}") for i in TOKENS]
    scores = [upright(f"{NAME}-a{i}", i, -4, 4, a[i], f"a{BELOW[i]}") for i in TOKENS]
    # a permalink may name one with parameters, as "focal:1"
    losses, maps = [*dict.fromkeys((*offered_losses(), state.loss))], [*dict.fromkeys((*offered_maps(), state.map))]
    controls = [
        pills(f"{NAME}-optimizer", "Optimizer", OPTIMIZERS, state.optimizer),
        choice(f"{NAME}-loss", "Loss", {name: LOSSES.get(name, name) for name in losses}, state.loss),
        choice(f"{NAME}-map", "Map from scores to weights", maps, state.map),
        slider(f"{NAME}-p", "Tokens p", 2, MOST_TOKENS, 1, state.p),
        slider(f"{NAME}-horizon", "Horizon", 0, FLOW_UNTIL, 0.5, state.horizon, "log₁₀ of the time, or of the steps"),
        slider(f"{NAME}-lr", "Learning rate", 0.001, 1, 0.001, state.lr),
        html.Div([html.Div("Where the values start: u(0)", className="label"), html.Div(values, className="row")]),
        html.Details([html.Summary("Where the scores start: a(0)"), html.Div(scores, className="row")]),
    ]
    hint = html.Figcaption("", id=f"{NAME}-simplex-hint")
    pictures = [
        html.Div(
            [
                picture(f"{NAME}-weights", view.TITLES["weights"], TALL),
                picture(f"{NAME}-simplex", "On the simplex", TALL - 20, hint, "drag-simplex"),
                *(picture(f"{NAME}-{name}", view.TITLES[name], LOW) for name in view.PANELS if name != "weights"),
            ],
            className="grid",
        )
    ]
    return page(NAME, "Polarization", LEDE, controls, pictures)


def read(*, starts: tuple[float, ...], p: int, **fields: Any) -> Polarization:
    """The state that the controls show: `starts` are u and a of all tokens; those beyond p are left out."""
    u, a = starts[:MOST_TOKENS][:p], starts[MOST_TOKENS:][:p]
    return Polarization(**fields, p=p, u=u, a=a)


def adapted(values: dict[str, Any], starts: tuple[float, ...]) -> tuple[float, float, tuple[float, ...]]:
    """The largest horizon, the horizon and the starts of u and a, changed where the choice would refuse them."""
    allowed = Polarization.model_construct(**values).longest()
    u, a = starts[:MOST_TOKENS], starts[MOST_TOKENS:]
    horizon = min(values["horizon"], allowed)
    if values["loss"] == "kl":
        u = tuple(max(x, LEAST_VALUE) for x in u)
    for scores in (a, (1.0,) * MOST_TOKENS):  # a = 0 is singular for maps that divide by Σf(a), and 1 is not
        with suppress(SpecError):
            read(**values | {"horizon": horizon}, starts=(*u, *scores))
            return allowed, horizon, (*u, *scores)
    return allowed, horizon, (*u, *a)


def show(state: Polarization) -> dict[str, Any]:
    """Everything that the page shows of a state, by the name of its part."""
    drawn = view.panels(state)
    figures = {name: figure or no_update for name, figure in drawn.items()}
    boxes = {f"{name}-box": HIDDEN if figure is None else SHOWN for name, figure in drawn.items()}
    boxes["simplex-box"] = SHOWN if view.has_simplex(state) else HIDDEN
    outputs = {"values-title": view.title("values", state), "sentence": view.sentence(state), "message": ""}
    return figures | boxes | outputs | kept(NAME, state.query(), state.spec())


def shaped(values: dict[str, Any], starts: tuple[float, ...]) -> dict[str, Any]:
    """Return the controls after another one has changed: the horizon, the boxes that hide, and the starts."""
    allowed, horizon, new_starts = adapted(values, starts)
    return {
        "allowed": allowed,
        "horizon": horizon if horizon != values["horizon"] else no_update,
        "steps": HIDDEN if values["optimizer"] == "flow" else SHOWN,
        "boxes": [SHOWN if i < values["p"] else HIDDEN for _ in "ua" for i in TOKENS],
        "starts": [new if new != old else no_update for new, old in zip(new_starts, starts)],
    }


def register(app: Dash) -> None:
    """Wire the controls to the pictures."""
    letters = [f"{NAME}-{letter}{i}" for letter in "ua" for i in TOKENS]
    fields = [f"{NAME}-{name}" for name in FIELDS]

    @app.callback(
        output={
            "allowed": Output(f"{NAME}-horizon", "max"),
            "horizon": Output(f"{NAME}-horizon", "value"),
            "steps": Output(f"{NAME}-lr-box", "style"),
            "boxes": [Output(f"{id}-box", "style") for id in letters],
            "starts": [Output(id, "value") for id in letters],
        },
        inputs={"values": [State(id, "value") if id in KEPT_AS_THEY_ARE else Input(id, "value") for id in fields]},
        state={"starts": [State(id, "value") for id in letters]},
    )
    def shape(values, starts):
        if None in (*values, *starts):  # a number box that is being typed into
            raise PreventUpdate
        return shaped(dict(zip(FIELDS, values)), tuple(starts))

    @app.callback(
        output=outputs(NAME, SHOWN_PARTS),
        inputs={
            "values": [Input(id, "value") for id in fields],
            "starts": [Input(id, "value") for id in letters],
        },
    )
    def change(values, starts):
        return answer(lambda: show(read(starts=tuple(starts), **dict(zip(FIELDS, values)))), SHOWN_PARTS)

    @app.callback(
        Output(f"{NAME}-simplex", "figure"),
        Output(f"{NAME}-simplex-hint", "children"),
        Input(f"{NAME}-link", "data"),
        prevent_initial_call=True,
    )
    def draw_simplex(query):
        state = Polarization.from_query(query)
        if not view.has_simplex(state):
            return no_update, ""
        return view.simplex(state, view.portrait(state)), _hint(state)

    app.clientside_callback(
        ClientsideFunction("explore", "scoresOfWeights"),
        [Output(f"{NAME}-a{i}", "value", allow_duplicate=True) for i in range(3)],
        Input("simplex-dragged", "data"),
        prevent_initial_call=True,
    )


def _hint(state: Polarization) -> str:
    if state.map != "softmax":
        return "The thick line is this run."
    return "Drag the white dot to start elsewhere. Thin lines: the flow from other starts, in the winner's colour."
