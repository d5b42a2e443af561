"""Figure 17: softmax-1 on an isotropic Gaussian (above) and an anisotropic one (below), several numbers of heads."""

from typing import Annotated, ClassVar

from pydantic import Field

from softmaxlab.papers.specialization.figures.fig16 import Fig16
from softmaxlab.papers.specialization.head_planes import Heads
from softmaxlab.plotting.map_styles import MapName


class Fig17(Fig16):
    """One panel for each number of heads and each prior."""

    id: ClassVar[str] = "specialization/fig17"
    title: ClassVar[str] = "Gaussian spike, softmax-1"
    place: ClassVar[str] = "Figure 17"

    map: MapName = "softmax1"
    heads: Annotated[tuple[Heads, ...], Field(min_length=1, max_length=8)] = (2, 4, 5, 8)
