"""sl.run: one figure by its id, data and picture."""

from typing import TYPE_CHECKING, Any

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.store import Store
from softmaxlab.papers.index import figure

if TYPE_CHECKING:
    import matplotlib.figure


def run(
    id: str, preset: str = "quick", store: Store | None = None, device: str = "cpu", **settings: Any
) -> "tuple[Result, matplotlib.figure.Figure]":
    """Compute and draw a figure: `sl.run("attention/maps", preset="quick", tokens=6)`."""
    found = figure(id)
    result = simulate(found.preset(preset).replace(**settings), store=store, device=device)
    return result, found.draw(result)
