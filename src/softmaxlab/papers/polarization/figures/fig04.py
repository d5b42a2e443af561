"""Figure 4: the share of sink heads as bars, and beside them the scores of all heads, which the threshold cuts."""

from typing import TYPE_CHECKING, ClassVar

from softmaxlab.core.result import Result
from softmaxlab.measure.sinks import SINK
from softmaxlab.papers.polarization.bars import draw_bars, draw_dots
from softmaxlab.papers.polarization.induction_figures import HEAD_NAMES, LEGENDS, InductionRuns, bars_of, drawn
from softmaxlab.papers.polarization.induction_summary import (
    seen_maps,
)
from softmaxlab.training.tasks import Positions

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes


class Fig04(InductionRuns):
    """Bars of the share of sink heads, and a dot for the score of every head."""

    id: ClassVar[str] = "polarization/fig04"
    title: ClassVar[str] = "Sink heads of the second layer, induction task"
    place: ClassVar[str] = "Figure 4"
    reports: ClassVar[str] = (
        "Normalised positive maps have consistently more sink heads than unnormalised or signed ones"
    )

    positions: tuple[Positions, ...] = ("additive",)
    shifted: tuple[bool, ...] = (True,)

    @staticmethod
    def seen(result: Result) -> str:
        return seen_maps(result)

    @classmethod
    def draw(cls, result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        picture = Figure(figsize=(11, 7.2), layout="constrained")
        bars, dots = picture.subplots(2, 1, sharex=True)
        draw_bars(bars, bars_of(result, "share", 0), list(result["map"]), HEAD_NAMES, small=False)
        bars.set_ylabel(f"share of heads with score > {SINK:g}", fontsize=9)
        picture.legend(*bars.get_legend_handles_labels(), fontsize=8, ncols=4, loc="outside lower center")
        _draw_scores(dots, result)
        picture.suptitle(f"{cls.title}\n({drawn(result)};\n{LEGENDS['share']})", fontsize=10)
        return picture


def _draw_scores(ax: "Axes", result: Result) -> None:
    """Every head's score as a dot."""
    for i in range(len(result["map"])):
        draw_dots(ax, i, result["score"][result["score_map"] == i], "0.25")
    ax.axhline(SINK, color="0.4", lw=0.8, ls="--")
    ax.set_ylim(-0.05, 1.05)
    ax.set_xticks(range(len(result["map"])), list(result["map"]), rotation=60, ha="right", fontsize=8)
    ax.set_ylabel("sink score of each head\n(sorted within a map)", fontsize=9)
