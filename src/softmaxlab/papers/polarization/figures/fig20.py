"""Figure 20: flip rates with and without MLP and LayerNorm, at vocabulary 161."""

from typing import ClassVar

from softmaxlab.papers.polarization.classification_figures import Vocabularies
from softmaxlab.papers.polarization.figures.fig18 import Fig18


class Fig20(Fig18):
    """Panels of mean flip rates: a bar for each map, a dot for each run."""

    id: ClassVar[str] = "polarization/fig20"
    title: ClassVar[str] = "Flip rates at vocabulary 161"
    place: ClassVar[str] = "Figure 20"
    vocabs: Vocabularies = (161,)
