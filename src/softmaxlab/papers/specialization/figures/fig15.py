"""Figure 15: heads on the flipping spike, as in Figure 2, with more numbers of heads."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.specialization.figures.fig02 import Fig02
from softmaxlab.papers.specialization.head_paths import above_noise, count, listed, steps
from softmaxlab.papers.specialization.head_planes import ALONE, Heads, paths_of_several


class Fig15(Fig02):
    """One panel for each number of heads."""

    id: ClassVar[str] = "specialization/fig15"
    title: ClassVar[str] = "Flipping spike: with more heads some diverge more from the mean direction"
    place: ClassVar[str] = "Figure 15"
    reports: ClassVar[str] = "With more heads, some heads specialize and diverge more from the average direction"

    heads: Annotated[tuple[Heads, ...], Field(min_length=1, max_length=8)] = (2, 4, 5, 8)

    quick_within: ClassVar[dict[str, float]] = {f"farthest |m_h2|, H = {H}": 0.15 for H in (2, 4, 5, 8)}

    @staticmethod
    def seen(result: Result) -> str:
        paths = sorted((path for path, _ in paths_of_several(result)), key=lambda path: path.shape[1])
        if not paths:
            return ALONE
        heads, farthest = zip(*((path.shape[1], float(np.abs(path[-1, :, 1]).max())) for path in paths))
        return (
            f"The head farthest from the constant direction ends at |m_h2| = {listed(f'{x:.2f}' for x in farthest)} "
            f"for H = {listed(heads)}: this grows in {count(step > 0 for step in steps(heads, above_noise(farthest)))} "
            "steps to more heads."
        )
