"""The page Specialization: controls, a first look, a finer one, and the player."""

from typing import Any
from uuid import uuid4

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from softmaxlab.app import specialization as view
from softmaxlab.app.callbacks import KEPT, answer, outputs
from softmaxlab.app.controls import HIDDEN, SHOWN, choice, kept, page, picture, pills, slider
from softmaxlab.app.states import MOST_HEADS, Specialization

NAME = "specialization"
LEDE = (
    "One token carries a signal that changes from sequence to sequence; attention heads learn to find it. "
    "First they move together, then each takes a part of the signal."
)
PRIORS = {"flipping": "flipping spike", "onehot": "one-hot spikes", "gaussian": "Gaussian"}
MAPS = {"softmax": "softmax", "softmax1": "softmax-1", "bayes_softmax": "Bayes-softmax"}
FIELDS = ("prior", "nu", "nu2", "features", "heads", "map", "length", "tau", "seed")
DRAWN = ("plane", "loss", "track", "sentence", "message")
HEIGHT = 420  # pixels
FRAME = 60  # milliseconds
AFTER = "print(result)\nprint(spec.model.bayes_risk())"


def layout(state: Specialization) -> html.Div:
    """The page in a state."""
    controls = [
        choice(f"{NAME}-prior", "Signal", PRIORS, state.prior),
        slider(f"{NAME}-nu", "Strength ν", 0.1, 30, 0.1, state.nu),
        slider(f"{NAME}-nu2", "Second strength ν₂", 0.1, 30, 0.1, state.nu2),
        slider(f"{NAME}-features", "Features F", 2, 4, 1, state.features),
        pills(f"{NAME}-map", "Map", MAPS, state.map),
        slider(f"{NAME}-heads", "Heads H", 1, MOST_HEADS, 1, state.heads),
        slider(f"{NAME}-length", "Length L", 2, 20, 1, state.length),
        slider(f"{NAME}-tau", "Time τ", 1, 100, 1, state.tau),
        slider(f"{NAME}-seed", "Seed of the start", 0, 20, 1, state.seed),
    ]
    player = html.Div(
        [
            html.Button("▶ Play", id=f"{NAME}-play", n_clicks=0, className="button"),
            slider(f"{NAME}-at", "Part of the time, in percent", 0, 100, 1, state.at),
        ],
        className="card player",
    )
    caption = html.Figcaption("Lines: where each head came from. Dots: where it is. Crosses: the values of the signal.")
    pictures = [
        player,
        html.Div(
            [
                picture(f"{NAME}-plane", "Heads in the plane of two spikes", HEIGHT, caption),
                picture(f"{NAME}-loss", "Loss, and the Bayes risk (dotted)", HEIGHT),
            ],
            className="grid",
        ),
        dcc.Store(id=f"{NAME}-track"),
        dcc.Store(id=f"{NAME}-rough"),
        dcc.Store(id=f"{NAME}-moved"),
        dcc.Store(id=f"{NAME}-tab", data=uuid4().hex),
        dcc.Interval(id=f"{NAME}-tick", interval=FRAME, disabled=True),
    ]
    return page(NAME, "Specialization", LEDE, controls, pictures)


def show(state: Specialization, quality: str) -> dict[str, Any]:
    """The pictures of a state, coarse or fine."""
    return {
        "plane": view.plane(state, quality),
        "loss": view.loss(state, quality),
        "track": view.track(state, quality),
        "sentence": view.sentence(state, quality),
        "message": "",
    }


def first_look(state: Specialization) -> dict[str, Any]:
    """The coarse pictures, and what asks for the fine ones."""
    used = {
        "nu2-box": HIDDEN if state.prior == "onehot" else SHOWN,
        "features-box": HIDDEN if state.prior == "flipping" else SHOWN,
    }
    again = kept(NAME, state.query(), state.spec(view.SAMPLES["fine"], view.POINTS), AFTER)
    return show(state, "coarse") | used | again | {"rough": state.query()}


def register(app: Dash) -> None:
    """Wire the controls to the pictures."""
    parts = (*DRAWN, "nu2-box", "features-box", "rough", *KEPT)
    at = f"{NAME}-at"

    @app.callback(
        output=outputs(NAME, parts),
        inputs={"values": [Input(f"{NAME}-{name}", "value") for name in FIELDS]},
        state={"at": State(at, "value"), "tab": State(f"{NAME}-tab", "data")},
    )
    def change(values, at, tab):
        view.leave(tab)
        return answer(lambda: first_look(Specialization(**dict(zip(FIELDS, values)), at=at)), parts)

    @app.callback(
        output=outputs(NAME, DRAWN, again=True),
        inputs={"query": Input(f"{NAME}-rough", "data")},
        state={"at": State(at, "value"), "tab": State(f"{NAME}-tab", "data")},
        prevent_initial_call=True,
    )
    def refine(query, at, tab):
        with view.stoppable(tab):
            return answer(lambda: show(Specialization.from_query(query).replace(at=at), "fine"), DRAWN)

    _register_player(app, at)


def _register_player(app: Dash, at: str) -> None:
    """Play and pause, in the browser alone."""
    app.clientside_callback(
        ClientsideFunction("explore", "playOrPause"),
        Output(f"{NAME}-tick", "disabled"),
        Output(f"{NAME}-play", "children"),
        Output(at, "value"),
        Input(f"{NAME}-play", "n_clicks"),
        Input(f"{NAME}-tick", "n_intervals"),
        State(at, "value"),
        State(f"{NAME}-tick", "disabled"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explore", "moveTo"),
        Output(f"{NAME}-moved", "data"),
        Input(at, "value"),
        State(f"{NAME}-track", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explore", "linkAt"),
        Output(f"{NAME}-link", "data", allow_duplicate=True),
        Input(at, "value"),
        Input(f"{NAME}-tick", "disabled"),
        State(f"{NAME}-link", "data"),
        prevent_initial_call=True,
    )
