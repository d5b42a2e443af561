"""Figure 21: flip rates with more heads and layers, without MLP and LayerNorm."""

from typing import ClassVar

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.classification_figures import FlipRuns, Panel, Vocabularies


class Fig21(FlipRuns):
    """Panels of mean flip rates: a bar for each map, a dot for each run."""

    id: ClassVar[str] = "polarization/fig21"
    title: ClassVar[str] = "Flip rates with more heads and layers"
    place: ClassVar[str] = "Figure 21"
    reports: ClassVar[str] = "More heads or layers lead to a diminishing flip rate"

    vocabs: Vocabularies = (41,)

    @staticmethod
    def seen(result: Result) -> str:
        """Say in how many steps to more heads or layers the mean flip rate falls, of softmax and of the other maps."""
        mean = result["mean"].reshape(-1, 2, len(result["map"]))  # [heads, layers, map], as in `panels`
        steps = np.concatenate([np.diff(mean, axis=axis).reshape(-1, mean.shape[-1]) for axis in (0, 1)])
        ours = result["map"] == "softmax"
        softmax, others = (part[np.isfinite(part)] for part in (steps[:, ours], steps[:, ~ours]))
        if not len(softmax):
            return f"Nothing can be compared: {result['runs'].sum()} runs give softmax flip rates in too few panels."
        rates = mean[..., ours]
        return (
            f"The mean flip rate under softmax falls in {(softmax < 0).sum()} of {len(softmax)} steps to more heads or"
            f" layers, between {np.nanmax(rates):.2f} and {np.nanmin(rates):.2f}; under other maps it falls in"
            f" {(others < 0).sum()} and grows in {(others > 0).sum()} of {len(others)}."
        )

    def panels(self) -> list[tuple[str, Panel]]:
        bare = {"mlp": False, "layernorm": False}
        choices = [(heads, layers) for heads in (1, 2, 4) for layers in (1, 2)]
        return [(f"H = {h}, L = {layers}", {**bare, "heads": h, "layers": layers}) for h, layers in choices]
