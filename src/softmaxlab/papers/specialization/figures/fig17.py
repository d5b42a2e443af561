"""Figure 17: the same for softmax-1."""

from typing import ClassVar

from softmaxlab.papers.specialization.figures.fig16 import Fig16
from softmaxlab.plotting.map_styles import MapName


class Fig17(Fig16):
    """The same for softmax-1."""

    id: ClassVar[str] = "specialization/fig17"
    title: ClassVar[str] = "Gaussian spike, softmax-1"
    place: ClassVar[str] = "Figure 17"

    map: MapName = "softmax1"
