"""All attention maps side by side on the same scores (ours)."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.attention.compare import Compare, ScoreMaps, score_maps
from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.figure import FigureSpec

if TYPE_CHECKING:
    import matplotlib.figure

COLUMNS = 7


class Maps(FigureSpec):
    """One causal pattern per map, from the same Gaussian scores."""

    id: ClassVar[str] = "attention/maps"
    title: ClassVar[str] = "Every attention map on the same scores"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Maps of polarization Table 1 and specialization eqs. 3-4"
    reports: ClassVar[str] = "Rows of normalised maps sum to one; softmax and sparsemax concentrate, sigmoid does not"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {"tokens": 24}}
    cost: ClassVar[dict[str, str]] = {"quick": "3 s", "paper": "3 s"}

    tokens: Annotated[int, Field(ge=1, le=256)] = 12
    scale: Annotated[float, Field(gt=0, le=1e4)] = 2.0
    seed: Annotated[int, Field(ge=0)] = 0
    maps: ScoreMaps = Field(default_factory=score_maps)

    def _run(self, device: str) -> Result:
        scores = self.scale * generator(self.seed, "scores").standard_normal((1, self.tokens, self.tokens))
        return simulate(Compare(scores=scores, maps=self.maps, causal=True), device=device)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        figure = draw_patterns(result)
        figure.suptitle(Maps.title)
        return figure


def draw_patterns(result: Result) -> "matplotlib.figure.Figure":
    """The scores and then the pattern of head 0 under each map. Blue is positive, red negative, per panel."""
    from matplotlib.figure import Figure

    panels = {"scores": result["scores"][0]} | {
        str(name): pattern[0] for name, pattern in zip(result["map"], result["weights"])
    }
    rows = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(1.6 * COLUMNS, 1.85 * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for ax, (name, pattern) in zip(axes, panels.items()):
        reach = np.abs(pattern).max() or 1.0
        ax.imshow(pattern, cmap="RdBu", vmin=-reach, vmax=reach)
        ax.set_title(f"{name}\nmax {pattern.max():.2g}", fontsize=8)
        ax.set_xticks([])
        ax.set_yticks([])
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    figure.supxlabel("key", fontsize=8)
    figure.supylabel("query", fontsize=8)
    return figure
