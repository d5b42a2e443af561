"""Figure 13a: descent of the square loss under each of `maps` from one start."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.map_descents import FORMULAS, Maps, descents, draw

if TYPE_CHECKING:
    import matplotlib.figure


class Fig13a(FigureSpec):
    """Descent of the square loss under each of `maps` from one start. At ‖β*‖ = 10, several do become one-hot."""

    id: ClassVar[str] = "polarization/fig13a"
    title: ClassVar[str] = "Square loss: no map becomes one-hot"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 13a"
    errata: ClassVar[tuple[str, ...]] = ("polarization/19",)
    reports: ClassVar[str] = "The square loss does not give rise to sparse solutions under any of the maps"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "2 s"}

    maps: Maps = tuple(FORMULAS)
    p: Annotated[int, Field(ge=2, le=500)] = 10
    norm: Annotated[float, Field(gt=0)] = 1.0  # of β*
    seed: problems.Seed = None
    lr: Annotated[float, Field(gt=0)] = 0.1
    steps: Annotated[int, Field(ge=1)] = 5000

    def _run(self, device: str) -> Result:
        start = problems.normalisation(self.p, self.seed, self.norm)
        return descents(self.maps, self.seed, loss="square", **start, lr=self.lr, steps=self.steps)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        return draw(result, Fig13a.title)
