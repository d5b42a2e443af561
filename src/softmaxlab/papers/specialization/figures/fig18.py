"""Figure 18: Bayes-softmax on an isotropic Gaussian (above) and an anisotropic one (below), several head numbers."""

from typing import ClassVar

from softmaxlab.papers.specialization.figures.fig16 import Fig16
from softmaxlab.plotting.map_styles import MapName


class Fig18(Fig16):
    """One panel for each number of heads and each prior."""

    id: ClassVar[str] = "specialization/fig18"
    title: ClassVar[str] = "Gaussian spike, Bayes-softmax"
    place: ClassVar[str] = "Figure 18"

    map: MapName = "bayes_softmax"
