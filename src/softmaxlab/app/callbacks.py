"""Answers of callbacks: every part of the page by name, or a message that leaves the pictures as they are."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from dash import Output, no_update
from dash.exceptions import PreventUpdate

from softmaxlab.app.permalink import Superseded
from softmaxlab.errors import SoftmaxlabError

log = logging.getLogger(__name__)
KEPT = ("link", "command", "python", "csv", "json", "sentence", "message")
# the property of a component that a part fills; figures unless said otherwise
PROPERTIES = {"link": "data", "csv": "href", "json": "href", "track": "data", "rough": "data"}
TEXTS = ("command", "python", "sentence", "message")


def outputs(page: str, parts: Sequence[str], again: bool = False) -> dict[str, Output]:
    """The outputs of a callback, by the name of the part; `again` if another callback fills them too."""
    return {part: Output(f"{page}-{part}", _property(part), allow_duplicate=again) for part in parts}


def answer(show: Callable[[], dict[str, Any]], parts: Sequence[str]) -> dict[str, Any]:
    """Return what `show` gives for each part; on bad input a message alone, never a traceback."""
    try:
        return {part: no_update for part in parts} | show()
    except SoftmaxlabError as error:
        message = str(error)
    except Superseded:
        raise PreventUpdate from None
    except Exception as error:  # a defect: the page says so, the log has the traceback
        log.exception("a view failed")
        message = f"This view failed: {type(error).__name__}: {error}"
    return {part: no_update for part in parts} | {"message": message}


def _property(part: str) -> str:
    if part.endswith("-box"):
        return "style"
    if part.endswith("-title") or part in TEXTS:
        return "children"
    return PROPERTIES.get(part, "figure")
