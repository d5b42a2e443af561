"""All attention maps side by side on the same scores (ours)."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.attention.compare import Compare, ScoreMaps, score_maps
from softmaxlab.attention.registry import MAPS
from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.plotting.attention import draw_patterns

if TYPE_CHECKING:
    import matplotlib.figure

ROUNDING = 1e-12  # of a row's sum, in parts of its weights' sizes: a few hundred terms in float64
COMPARED = ("softmax", "sparsemax", "sigmoid")


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
    seed: Seed = 0
    maps: ScoreMaps = Field(default_factory=score_maps)

    def _run(self, device: str) -> Result:
        scores = self.scale * generator(self.seed, "scores").standard_normal((1, self.tokens, self.tokens))
        return simulate(Compare(scores=scores, maps=self.maps, causal=True), device=device)

    @staticmethod
    def seen(result: Result) -> str:
        """Say which rows sum to one, and how much of a row its largest weight takes."""
        w, names = result["weights"], [str(name) for name in result["map"]]
        one = (np.abs(w.sum(axis=-1) - 1.0) <= ROUNDING * np.abs(w).sum(axis=-1)).all(axis=(1, 2))
        told = np.array([MAPS[name].row_stochastic for name in names])
        sums = (
            f"Rows sum to one under {one[told].sum()} of {told.sum()} maps that normalise them"
            f" and {one[~told].sum()} of {(~told).sum()} others"
        )
        if w.shape[-2] < 2:
            return f"{sums}; with one key there is nothing to concentrate on."
        shares = {name: _concentration(w[names.index(name)]) for name in COMPARED if name in names}
        parts = ", ".join(f"{share:.2f} under {name}" for name, share in shares.items())
        equal = (1.0 / np.arange(2, w.shape[-1] + 1)).mean()
        least = "" if len(shares) < len(COMPARED) else f", {min(shares, key=shares.__getitem__)} concentrates least"
        told = f"{parts or 'not compared'} ({equal:.2f} if equal){least}"
        return f"{sums}; the largest weight's mean share of a row is {told}."

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        figure = draw_patterns(result)
        figure.suptitle(Maps.title)
        return figure


def _concentration(weights: np.ndarray) -> float:
    """The largest weight's mean share of a row, of rows with two keys and more and some weight."""
    rows = weights[:, 1:].reshape(-1, weights.shape[-1])
    rows = rows[rows.sum(axis=-1) > 0]
    return float((rows.max(axis=-1) / rows.sum(axis=-1)).mean()) if len(rows) else np.nan
