"""Options shared by commands."""

import contextlib
import json
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from softmaxlab.core import plugins, progress
from softmaxlab.core.documents import jsonable, parse_json
from softmaxlab.errors import SpecError


def _load(modules: list[str] | None) -> list[str] | None:
    for module in modules or ():
        plugins.load(module)
    return modules


Plugin = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="MODULE", callback=_load, help="Import your own module first; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
Preset = Annotated[str, typer.Option("--preset", help="How much to compute: quick or paper.")]
Out = Annotated[str, typer.Option("--out", help="Folder for results and pictures.")]


Long = Annotated[bool, typer.Option("--long", help="Allow work that would take more than a day.")]


@contextmanager
def allowed_time(long: bool) -> Iterator[None]:
    """Refuse specs inside that would take more than a day, unless that is allowed."""
    from softmaxlab.core import cost

    with cost.at_most(math.inf if long else cost.DAY):
        yield


@contextmanager
def clean_stdout(json: bool) -> Iterator[None]:
    """Send what a user's code prints to stderr, where stdout is to hold one JSON document."""
    with contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext():
        yield


def print_json(document: Any) -> None:
    typer.echo(json.dumps(jsonable(document), indent=1, ensure_ascii=False, allow_nan=False))


@contextmanager
def quiet_progress() -> Iterator[None]:
    """Show progress on a terminal only: the log of a pipeline should hold results."""
    log = logging.getLogger(progress.__name__)
    before = log.level
    log.setLevel(before if sys.stderr.isatty() else logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


def parse_settings(pairs: list[str] | None) -> dict[str, Any]:
    """`--set name=value` pairs; a value is read as JSON, and as plain text if it is not JSON."""
    settings = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise SpecError(f"--set takes name=value, got {pair!r}")
        if name in settings:
            raise SpecError(f"--set {name} is given twice")
        try:
            settings[name] = parse_json(text, f"--set {name}")
        except SpecError:
            raise
        except ValueError:
            settings[name] = text
    return settings
