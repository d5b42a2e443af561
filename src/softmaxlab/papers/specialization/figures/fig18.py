"""Figure 18: the same for Bayes-softmax."""

from typing import ClassVar

from softmaxlab.papers.specialization.figures.fig16 import Fig16
from softmaxlab.plotting.map_styles import MapName


class Fig18(Fig16):
    """The same for Bayes-softmax."""

    id: ClassVar[str] = "specialization/fig18"
    title: ClassVar[str] = "Gaussian spike, Bayes-softmax"
    place: ClassVar[str] = "Figure 18"

    map: MapName = "bayes_softmax"
