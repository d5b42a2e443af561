"""Figure 13b: descent of the logistic loss under each of `maps` from the same start."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.map_descents import FORMULAS, Maps, descents, draw

if TYPE_CHECKING:
    import matplotlib.figure


class Fig13b(FigureSpec):
    """Descent of the logistic loss under each of `maps` from the same start."""

    id: ClassVar[str] = "polarization/fig13b"
    title: ClassVar[str] = "Logistic loss: which maps become one-hot"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 13b"
    errata: ClassVar[tuple[str, ...]] = ("polarization/19",)
    reports: ClassVar[str] = "Sum and sigmoid do not converge to sparse solutions"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "2 s"}

    maps: Maps = tuple(FORMULAS)
    p: Annotated[int, Field(ge=2, le=500)] = 10
    norm: Annotated[float, Field(gt=0)] = 1.0  # of β*
    seed: problems.Seed = None
    lr: Annotated[float, Field(gt=0)] = 0.5
    steps: Annotated[int, Field(ge=1)] = 100_000

    def _run(self, device: str) -> Result:
        start = problems.normalisation(self.p, self.seed, self.norm)
        return descents(self.maps, self.seed, loss="logistic", **start, lr=self.lr, steps=self.steps)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        return draw(result, Fig13b.title)
