"""HTML pages from the templates in `report/templates`; every value is escaped unless a filter made it HTML."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from softmaxlab import __version__
from softmaxlab.core.files import atomic
from softmaxlab.report.markup import prose, unmarked

NAVIGATION = (
    ("index.html#verdicts", "Verdicts"),
    ("index.html#gallery", "Figures"),
    ("errata.html", "Errata"),
    ("probe/index.html", "A real model"),
    ("benchmarks.html", "Benchmarks"),
    ("machine.html", "Machine"),
)


def render(template: str, **values: Any) -> str:
    """Fill in a template; a name that is missing raises an error."""
    return _environment().get_template(template).render(values)


def render_page(template: str, name: str, title: str, **values: Any) -> str:
    """Fill in the template of a page of the report; `name` is its file, "claims/attention/laws.html"."""
    up = "../" * name.count("/")
    return render(template, name=name, title=title, up=up, navigation=NAVIGATION, version=__version__, **values)


def write_text(path: Path, text: str) -> None:
    """Write a page, all or nothing."""
    with atomic(path) as draft:
        draft.write_text(text, encoding="utf-8")


@cache
def asset(name: str) -> str:
    """Return the text of a script or style sheet of the report."""
    return files("softmaxlab.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("softmaxlab.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": prose, "unmarked": unmarked}
    environment.globals["asset"] = asset
    return environment
