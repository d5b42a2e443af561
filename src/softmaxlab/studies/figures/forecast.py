"""Study: from the first 2 % of training, which token becomes a head's sink, and when (docs/studies/forecast.md)."""

from itertools import cycle
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.result import Result
from softmaxlab.measure.sinks import SINK
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.studies.forecast_metrics import (
    KNOWN,
    RUN,
    Criterion,
    area_under,
    criteria,
    lateness,
    number_of,
    range_of_few,
    range_of_lateness,
    right_token,
    rows_of,
)
from softmaxlab.studies.rerun import results_of
from softmaxlab.studies.study import Seed, Study
from softmaxlab.studies.study_numbers import Number, wider
from softmaxlab.training import Induction, Run
from softmaxlab.training.forecast import check_map

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

MAPS = ("softmax", "sigmoid_norm", "elu_norm", "softmax1", "sigmoid", "elu")
Case = tuple[
    Annotated[int, Field(ge=1)], Seed, Annotated[float, Field(gt=0)]
]  # heads, seed and learning rate of six runs, one for each map
CASES: tuple[Case, ...] = (
    *((4, seed, 1e-3) for seed in (8, 9, 10, 11)),
    (2, 8, 1e-3), (8, 8, 1e-3), (4, 12, 5e-4), (4, 12, 2e-3),
)  # fmt: skip
ROUND = 2  # of the method that forecasts now; the first one is that of b672c35


class Forecast(Study):
    """Forecasts of all layer-2 heads of the runs in the committed table, or of `maps` × `cases` made now."""

    version: ClassVar[int] = 2  # a second method
    id: ClassVar[str] = "studies/forecast"
    title: ClassVar[str] = "From 2 % of training: which token becomes a head's sink, and when"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Study 1"
    reports: ClassVar[str] = "Sinks form within a factor of 2 of their time; the map alone says whether one forms"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "committed": {},
        "quick": {"runs": "made", "maps": ("softmax", "sigmoid"), "cases": ((4, 17, 1e-3),)},
        "paper": {"runs": "made"},
        "later": {"runs": "made", "maps": ("softmax",), "cases": ((4, 13, 1e-3), (4, 14, 1e-3)), "tokens": 20},
    }
    cost: ClassVar[dict[str, str]] = {"committed": "15 s", "quick": "5 min", "paper": "1 h", "later": "6 min"}

    table: ClassVar[str] = "forecast.csv"
    intervals: ClassVar[str] = (
        "95 % bootstrap intervals over runs, Wilson's for the token; committed numbers beside made rows have the "
        "intervals of as many runs"
    )
    alike: ClassVar[tuple[str, ...]] = ("tokens", "epochs")

    maps: Annotated[tuple[str, ...], Field(min_length=1)] = MAPS
    cases: Annotated[tuple[Case, ...], Field(min_length=1)] = CASES
    epochs: Annotated[int, Field(ge=1, le=10)] = 3
    tokens: int = 10  # of a row of the task

    @model_validator(mode="after")
    def _check_runs(self) -> Self:
        self.specs()
        for map in self.maps:
            check_map(map)
        return self

    def specs(self) -> list[Run]:
        base = Run(task=Induction(tokens=self.tokens), track=("heads",), epochs=self.epochs)
        return [base.replace(heads=H, seed=seed, lr=lr, map=map) for H, seed, lr in self.cases for map in self.maps]

    def reference(self) -> list[Number]:
        """The numbers of the same maps, with intervals for as many runs of each as this spec has.

        Not of |log₂|: on one run it is anything from 0 on, and no forecast is late enough to leave its range.
        """
        committed = self.read()
        committed = committed.loc[committed["map"].isin(self.maps) & (committed["round"] == ROUND)]
        n = len(self.cases)
        token, _, late, whether = self.numbers(committed)
        return [
            wider(token, *range_of_few(right_token, committed, n)),
            wider(late, *range_of_lateness(n, committed)),
            wider(whether, *range_of_few(area_under, committed, n)),
        ]

    def made(self, device: str) -> "pandas.DataFrame":
        import pandas

        tables = [rows_of(result).assign(round=ROUND) for result in results_of(self.specs(), device)]
        return pandas.concat(tables, ignore_index=True)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        table = result.to_pandas()
        rounds = sorted(set(table["round"]), reverse=True)
        figure = Figure(figsize=(15, 4.6 * len(rounds)), layout="constrained")
        rows = figure.subplots(len(rounds), 3, width_ratios=(1, 1, 1.25), squeeze=False)
        for axes, number in zip(rows, rounds):
            part = table.loc[table["round"] == number]
            amount = f"round {number}, {len(part.groupby(RUN))} runs, {len(part)} heads"
            _draw_times(axes[0], part, amount)
            _draw_shares(axes[1], part)
            _draw_criteria(axes[2], criteria(part))
        figure.suptitle(Forecast.title, fontsize=12)
        return figure

    @staticmethod
    def numbers(table: "pandas.DataFrame") -> list[Number]:
        """The numbers of the last round."""
        last = table.loc[table["round"] == ROUND]
        token, time, whether = (one.number for one in criteria(last, names=("token", "time", "whether")))
        late = number_of("time, median log₂(forecast/actual)", lateness, last)
        return [token, time, late, whether]


def _marks(table: "pandas.DataFrame") -> dict[str, dict[str, Any]]:
    """The marks with which the heads of each map are drawn."""
    there = set(table["map"])
    looks = zip([*MAPS, *sorted(there - set(MAPS))], cycle("osD^vP"), cycle(COLOURS))
    return {
        map: {"marker": marker, "color": colour, "ls": "", "ms": 4, "mfc": "none"}
        for map, marker, colour in looks
        if map in there
    }


def _draw_times(ax: "Axes", table: "pandas.DataFrame", amount: str) -> None:
    """Forecast against actual step of the heads that have both."""
    shown = (table["share"] > SINK) & np.isfinite(table["forecast_step"])
    for map, mark in _marks(table).items():
        part = table.loc[(table["map"] == map) & shown]
        ax.plot(part["step"], part["forecast_step"], **mark, label=map)
    edge = np.array([KNOWN, 4000])
    ax.plot(edge, edge, "k-", lw=0.8)
    ax.fill_between(edge, edge / 2, edge * 2, color="0.9", zorder=0, label="within a factor of 2")
    ax.axvline(KNOWN, color="k", ls=":", lw=1, label="known until here")
    ax.set(xscale="log", yscale="log")
    ax.legend(fontsize=7)
    label(ax, "step from which the share stays above 0.9", "forecast", f"When ({amount})")


def _draw_shares(ax: "Axes", table: "pandas.DataFrame") -> None:
    for map, mark in _marks(table).items():
        part = table.loc[table["map"] == map]
        ax.plot(part["forecast_share"], part["share"], **mark, label=map)
    ax.axhline(SINK, color="k", ls=":", lw=1)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    label(ax, "forecast share of the largest key", "its share at the end", f"Whether (dotted: a sink is above {SINK})")


def _draw_criteria(ax: "Axes", shown: list[Criterion]) -> None:
    """Draw the criteria of the protocol, with 95 % intervals over runs."""
    for k, one in enumerate(reversed(shown)):
        colour = COLOURS[2] if one.met else COLOURS[1]
        ax.plot([one.number.low, one.number.high], [k, k], "-", color=colour, lw=2)
        ax.plot([one.number.value], [k], "o" if one.met else "X", color=colour)
        ax.text(0.0, k + 0.22, f"{one}, {one.asked}: {'met' if one.met else 'not met'}", fontsize=8)
    ax.set(yticks=[], ylim=(-0.6, len(shown) - 0.2))
    label(ax, "value, 95 % interval over runs", "", "What the protocol asks for")
