"""softmaxlab explore: the explorer in the browser."""

import importlib.util
import sys
import threading
from typing import Annotated

import typer

from softmaxlab.cli.options import Plugin
from softmaxlab.core.documents import user_folder
from softmaxlab.errors import SpecError

EXAMPLES = (
    "Examples:  softmaxlab explore  ·  softmaxlab explore --out probed --port 8060 --no-browser"
    "  ·  softmaxlab explore --plugin mymodule"
)

Port = Annotated[int, typer.Option(min=0, max=65535, help="The first port to try; 0 for any free one.")]
Folder = Annotated[str, typer.Option("--out", "--store", metavar="FOLDER", help="Where probe results are saved.")]


def command(
    port: Port = 8050,
    out: Folder = ".",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser tab if run on a terminal.")
    ] = True,
    plugin: Plugin = None,
) -> None:
    """Explore polarization, attention maps, probe results and specialization on http://127.0.0.1:PORT."""
    if importlib.util.find_spec("dash") is None:
        raise SpecError("the explorer needs dash: pip install 'softmaxlab[explore]'")
    root = user_folder("--out", out)
    if not root.is_dir():
        raise SpecError(f"--out must be a folder with probe results, got {out!r}")
    from softmaxlab.app.server import HOST, create, listen, serve, warm

    app = create(root)
    opened = listen(port)
    address = f"http://{HOST}:{opened.getsockname()[1]}/"
    typer.echo(f"explorer on {address}  (Ctrl-C ends it)")
    warm()
    if browser and sys.stdout.isatty():
        _open(address)
    serve(app, opened)


def _open(address: str) -> None:
    """Open a tab beside the server, which listens already: without a desktop the call may not return."""
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), name="browser", daemon=True).start()
