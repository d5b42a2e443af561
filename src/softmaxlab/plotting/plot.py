"""sl.plot: the natural picture of any result."""

from typing import TYPE_CHECKING

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting import specialization as order_curves
from softmaxlab.plotting import training as run_curves
from softmaxlab.plotting.attention import draw_patterns

if TYPE_CHECKING:
    import matplotlib.figure

# kind of spec → how its result is drawn; figures draw themselves
DRAWN_BY = {
    "attention.Compare": draw_patterns,
    "polarization.Flow": curves.draw_flow,
    "polarization.StrengthFlow": curves.draw_strength_flow,
    "polarization.Descent": curves.draw_descent,
    "training.Run": run_curves.draw_run,
    "specialization.Flow": order_curves.draw_flow,
    "specialization.SGD": order_curves.draw_sgd,
}


def can_plot(result: Result) -> bool:
    return result.spec is not None and (hasattr(result.spec, "draw") or result.spec.kind in DRAWN_BY)


def plot(result: Result) -> "matplotlib.figure.Figure":
    """A picture of a result: a figure's own, or the default one for its kind of spec."""
    if not isinstance(result, Result):
        raise SpecError(f"plot takes a result, got {type(result).__name__}")
    kind = result.spec.kind if result.spec else "no spec"
    if (draw := getattr(result.spec, "draw", None)) is not None:  # a figure draws itself
        return draw(result)
    if not can_plot(result):
        raise SpecError(f"no picture is known for results of {kind}; known: {', '.join(DRAWN_BY)}")
    return DRAWN_BY[kind](result)
