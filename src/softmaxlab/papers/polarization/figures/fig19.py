"""Figure 19: flip rates with and without MLP and LayerNorm, at vocabulary 81."""

from typing import ClassVar

from softmaxlab.papers.polarization.classification_figures import Vocabularies
from softmaxlab.papers.polarization.figures.fig18 import Fig18


class Fig19(Fig18):
    """Panels of mean flip rates: a bar for each map, a dot for each run."""

    id: ClassVar[str] = "polarization/fig19"
    title: ClassVar[str] = "Flip rates at vocabulary 81"
    place: ClassVar[str] = "Figure 19"
    vocabs: Vocabularies = (81,)
