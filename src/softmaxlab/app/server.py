"""The explorer's server: pages by path, downloads, and nobody but this machine.

A page of another site could send requests here through the browser of whoever explores. Such requests carry a foreign
Host (a name that was made to point at 127.0.0.1), a foreign Origin, or a Sec-Fetch-Site that is neither this origin nor
the person at the keyboard; all are refused. Following a link to a view is a navigation of a whole tab, and allowed; a
frame in another page is not.
"""

import logging
import socket
import threading
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from flask import Flask, Response, abort, request

from softmaxlab.app import attention_page, downloads, polarization_page, probe_page, specialization_page
from softmaxlab.app.states import PAGES
from softmaxlab.errors import SpecError

HOST = "127.0.0.1"
LOOPBACK = (HOST, "localhost")
OWN_SITES = (None, "none", "same-origin")  # Sec-Fetch-Site: no browser, typed by a person, this page
TRIES = 50  # ports after a busy one
NAMES = {"polarization": "Polarization", "attention": "Attention", "probe": "Probe", "specialization": "Specialization"}


def create(root: Path) -> Dash:
    """The app; probe results are those below `root`."""
    server: Any = Flask(__name__)
    server.config["TRUSTED_HOSTS"] = list(LOOPBACK)
    server.before_request(_refuse_strangers)
    server.after_request(_refuse_frames)
    downloads.register(server, root)
    app = Dash(
        "softmaxlab explorer",
        server=server,
        assets_folder=str(Path(__file__).parent / "assets"),
        serve_locally=True,
        suppress_callback_exceptions=True,
        title="softmaxlab explorer",
        update_title="",
    )
    app.layout = _frame()
    _register_frame(app, root)
    for page in (polarization_page, attention_page, specialization_page):
        page.register(app)
    probe_page.register(app, root)
    return app


def page_at(path: str | None, query: str | None, root: Path) -> list:
    """Return the page at an address; for a bad query string the default page, with a line above it that says why."""
    name = (path or "/").strip("/") or "polarization"
    if name not in PAGES:
        known = ", ".join(f"/{each}" for each in PAGES)
        return [html.P(f"There is no page {path!r}; there are {known}.", className="message", role="alert")]
    message: list = []
    try:
        state = PAGES[name].from_query(query or "")
    except SpecError as error:
        state = PAGES[name]()
        message = [html.P(str(error), className="message", role="alert", id="bad-query")]
    return [*message, _layout(name, state, root)]


def _layout(name: str, state, root: Path) -> html.Div:
    if name == "probe":
        return probe_page.layout(state, root)
    pages = {"polarization": polarization_page, "attention": attention_page, "specialization": specialization_page}
    return pages[name].layout(state)


def listen(port: int) -> socket.socket:
    """A socket on that port, or the next free one; port 0 is any."""
    for candidate in [port] if port == 0 else [*range(port, min(port + TRIES, 65536)), 0]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, candidate))
            listener.listen()
            return listener
        except OSError:
            listener.close()
    raise SpecError(f"no port from {port} on is free on {HOST}")


def serve(app: Dash, opened: socket.socket) -> None:
    """Answer until Ctrl-C."""
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    port = opened.getsockname()[1]
    server = make_server(HOST, port, app.server, threaded=True, fd=opened.fileno())
    try:
        BaseServer.serve_forever(server)  # werkzeug's own would swallow Ctrl-C, and with it the exit code
    finally:
        server.server_close()
        opened.close()


def warm() -> threading.Thread:
    """Import, compile and load in the background what the first change of a slider would wait for."""
    from softmaxlab.app.warmup import warm_up

    thread = threading.Thread(target=warm_up, name="warm", daemon=True)
    thread.start()
    return thread


def _refuse_strangers() -> Response | None:
    if request.host.rpartition(":")[0] not in LOOPBACK and request.host not in LOOPBACK:
        abort(400, "this server answers on the loopback interface only")
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{request.host}":
        abort(403, "requests from other origins are refused")
    site, mode, kind = (request.headers.get(f"Sec-Fetch-{name}") for name in ("Site", "Mode", "Dest"))
    is_link = (mode, kind) == ("navigate", "document") and not request.path.startswith("/data/")
    if site not in OWN_SITES and not is_link:
        abort(403, "requests from other sites are refused")
    return None


def _refuse_frames(response: Response) -> Response:
    response.headers["X-Frame-Options"] = "DENY"
    response.headers["Content-Security-Policy"] = "frame-ancestors 'none'"
    return response


def _frame() -> html.Div:
    links = [dcc.Link(title, href=f"/{name}", id=f"to-{name}") for name, title in NAMES.items()]
    top = html.Div(
        [
            html.Div([html.Strong("softmaxlab"), " explorer"], className="brand"),
            html.Nav(links),
            html.Button("◐", id="theme", n_clicks=0, title="Light or dark"),
        ],
        className="top",
    )
    stores = [dcc.Store(id=name) for name in ("simplex-dragged", "theme-set")]
    return html.Div([dcc.Location(id="address", refresh=False), top, html.Main(id="page"), *stores])


def _register_frame(app: Dash, root: Path) -> None:
    @app.callback(Output("page", "children"), Input("address", "pathname"), Input("address", "search"))
    def render(path, query):
        return page_at(path, query, root)

    app.clientside_callback(
        ClientsideFunction("explore", "theme"), Output("theme-set", "data"), Input("theme", "n_clicks")
    )
    for name in PAGES:
        app.clientside_callback(
            ClientsideFunction("explore", "address"),
            Output(f"{name}-permalink", "children"),
            Input(f"{name}-link", "data"),
        )
