"""HTML pages from the templates in `report/templates`; every value is escaped unless a template says otherwise."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, **values: Any) -> str:
    """Fill in a template; a name that is missing raises an error."""
    return _environment().get_template(template).render(**values)


@cache
def asset(name: str) -> str:
    """The text of a script or style sheet of the report."""
    return files("softmaxlab.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("softmaxlab.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
