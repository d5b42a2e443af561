"""Study: from the first 2 % of training, which token becomes a head's sink, and when (docs/studies/forecast.md)."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.measure.sinks import SINK
from softmaxlab.papers.lines import label
from softmaxlab.papers.studies.foretold import KNOWN, Criterion, criteria, rows_of
from softmaxlab.papers.studies.making import results_of
from softmaxlab.papers.studies.study import Study
from softmaxlab.papers.style import COLOURS
from softmaxlab.training import Induction, Run, grid

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

MAPS = ("softmax", "sigmoid_norm", "elu_norm", "softmax1", "sigmoid", "elu")
MARKS = "osD^vP"


class Forecast(Study):
    """Forecasts of all layer-2 heads of the runs in the committed table, or of `maps` × `heads` × `seeds` made now."""

    id: ClassVar[str] = "studies/forecast"
    title: ClassVar[str] = "From 2 % of training: which token becomes a head's sink, and when"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Study 1"
    reports: ClassVar[str] = "Sinks that are foretold come within a factor of 2 of their time; many are not foretold"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "committed": {},
        "quick": {"runs": "made", "maps": ("softmax", "sigmoid_norm", "sigmoid", "elu"), "heads": (4,), "seeds": (6,)},
        "paper": {"runs": "made"},
    }
    cost: ClassVar[dict[str, str]] = {"committed": "10 s", "quick": "6 min", "paper": "50 min"}

    table: ClassVar[str] = "forecast.csv"

    maps: Annotated[tuple[str, ...], Field(min_length=1)] = MAPS
    heads: Annotated[tuple[int, ...], Field(min_length=1)] = (4, 8)
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (3, 4, 5)
    epochs: Annotated[int, Field(ge=1, le=10)] = 3

    def specs(self) -> list[Run]:
        base = Run(task=Induction(), track=("heads",), epochs=self.epochs)
        return grid(base, seed=self.seeds, heads=self.heads, map=self.maps)

    def made(self, device: str) -> "pandas.DataFrame":
        import pandas

        return pandas.concat([rows_of(result) for result in results_of(self.specs(), device)], ignore_index=True)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        table = result.to_pandas()
        figure = Figure(figsize=(15, 4.6), layout="constrained")
        times, shares, numbers = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
        _draw_times(times, table)
        _draw_shares(shares, table)
        _draw_criteria(numbers, criteria(table))
        runs = len(table.groupby(["map", "heads", "lr", "seed"]))
        figure.suptitle(
            f"{Forecast.title}\n({runs} runs of the induction transformer, {len(table)} heads)", fontsize=12
        )
        return figure

    @staticmethod
    def seen(result: Result) -> str:
        found = criteria(result.to_pandas())
        met = "; ".join(f"{one.name} {one.value:.2f}, asked {one.asked}" for one in found if one.met)
        rest = "; ".join(f"{one.name} {one.value:.2f}, asked {one.asked}" for one in found if not one.met)
        return f"Met: {met or 'nothing'}. Not met: {rest or 'nothing'}."


def _draw_times(ax: "Axes", table: "pandas.DataFrame") -> None:
    """Forecast against actual step of the heads that have both."""
    for k, map in enumerate(name for name in MAPS if name in set(table["map"])):
        part = table.loc[(table["map"] == map) & (table["share"] > SINK) & np.isfinite(table["forecast_step"])]
        ax.plot(part["step"], part["forecast_step"], MARKS[k], color=COLOURS[k], ms=4, mfc="none", label=map)
    edge = np.array([KNOWN, 4000])
    ax.plot(edge, edge, "k-", lw=0.8)
    ax.fill_between(edge, edge / 2, edge * 2, color="0.9", zorder=0, label="within a factor of 2")
    ax.axvline(KNOWN, color="k", ls=":", lw=1, label="known until here")
    ax.set(xscale="log", yscale="log")
    ax.legend(fontsize=7)
    label(ax, "step from which the share stays above 0.9", "forecast", "When")


def _draw_shares(ax: "Axes", table: "pandas.DataFrame") -> None:
    for k, map in enumerate(name for name in MAPS if name in set(table["map"])):
        part = table.loc[table["map"] == map]
        ax.plot(part["forecast_share"], part["share"], MARKS[k], color=COLOURS[k], ms=4, mfc="none", label=map)
    ax.axhline(SINK, color="k", ls=":", lw=1)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    label(ax, "forecast share of the largest key", "its share at the end", f"Whether (dotted: a sink is above {SINK})")


def _draw_criteria(ax: "Axes", found: list[Criterion]) -> None:
    """What the protocol asks for, with 95 % intervals over runs."""
    for k, one in enumerate(reversed(found)):
        colour = COLOURS[2] if one.met else COLOURS[1]
        ax.plot([one.low, one.high], [k, k], "-", color=colour, lw=2)
        ax.plot([one.value], [k], "o" if one.met else "X", color=colour)
        verdict = "met" if one.met else "not met"
        ax.text(
            0.0,
            k + 0.22,
            f"{one.name}: {one.value:.2f} [{one.low:.2f}, {one.high:.2f}], {one.asked}: {verdict}",
            fontsize=8,
        )
    ax.set(yticks=[], ylim=(-0.6, len(found) - 0.2))
    label(ax, "value, 95 % interval over runs", "", "What the protocol asks for")
