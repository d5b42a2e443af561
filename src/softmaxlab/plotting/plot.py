"""sl.plot: the natural picture of any result."""

import importlib
from typing import TYPE_CHECKING

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError

if TYPE_CHECKING:
    import matplotlib.figure

# kind of spec → the function of softmaxlab/plotting that draws its result; figures draw themselves
DRAWN_BY = {
    "attention.Compare": "attention.draw_patterns",
    "polarization.Flow": "polarization.draw_flow",
    "polarization.StrengthFlow": "polarization.draw_strength_flow",
    "polarization.Descent": "polarization.draw_descent",
    "training.Run": "training.draw_run",
    "specialization.Flow": "specialization.draw_flow",
    "specialization.SGD": "specialization.draw_sgd",
}


def can_plot(result: Result) -> bool:
    """Return whether a picture of a result is known."""
    return result.spec is not None and (hasattr(result.spec, "draw") or result.spec.kind in DRAWN_BY)


def plot(result: Result) -> "matplotlib.figure.Figure":
    """Return a picture of a result: a figure's own, or the default one for its kind of spec."""
    if not isinstance(result, Result):
        raise SpecError(f"plot takes a result, got {type(result).__name__}")
    kind = result.spec.kind if result.spec else "no spec"
    if (draw := getattr(result.spec, "draw", None)) is not None:  # a figure draws itself
        return draw(result)
    if not can_plot(result):
        raise SpecError(f"no picture is known for results of {kind}; known: {', '.join(DRAWN_BY)}")
    module, _, name = DRAWN_BY[kind].partition(".")  # imported now: it imports the whole laboratory
    return getattr(importlib.import_module(f"{__package__}.{module}"), name)(result)
