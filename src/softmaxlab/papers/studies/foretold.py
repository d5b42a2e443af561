"""What came true of forecasts: one row for each layer-2 head of a run, and the study's criteria over many rows.

Protocol and thresholds: docs/studies/forecast.md. Columns of a row, three times over (of what training did, of the
forecast and of the extrapolation): token, the key with the largest share at the end; share, that share; step, from
which on it stays above 0.9 (of what is foretold: at which it first passes it), infinite if it does not.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.measure.sinks import SINK
from softmaxlab.papers.studies.numbers import LEVEL, Number, range_of
from softmaxlab.training import Run, forecast

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame

KNOWN = 78  # steps, 2 % of the ten epochs of a run of default length
LAYER = 1
RUN = ["map", "heads", "lr", "seed", "epochs"]
RESAMPLES = 1000
Measure = Callable[["Table", str], float]  # of a table, of "forecast" or "line"
CRITERIA = ("token", "time", "whether", "better time", "better AUROC", "chance")


def rows_of(result: Result) -> "Table":
    """The layer-2 heads of a run that was tracked."""
    import pandas

    spec = result.spec
    assert isinstance(spec, Run)
    step, share = result["track_step"], result["track_share"][:, LAYER]
    told = forecast(result, at=(KNOWN + 0.5) / spec.steps())
    told = told.loc[told["layer"] == LAYER]
    rows = []
    for head, ahead in zip(range(spec.heads), told.itertuples()):
        actual = _ending(step, share[:, head])
        line = extrapolation(step[step <= KNOWN], share[step <= KNOWN, head], spec.steps())
        told_here = {"forecast": (ahead.token, ahead.share, ahead.step), "line": line}
        row = {name: getattr(spec, name) for name in RUN} | {"head": head}
        row |= dict(zip(("token", "share", "step"), actual))
        for kind, found in told_here.items():
            row |= dict(zip((f"{kind}_token", f"{kind}_share", f"{kind}_step"), found))
        rows.append(row)
    return pandas.DataFrame(rows)


def _ending(step: np.ndarray, share: np.ndarray) -> tuple[int, float, float]:
    token = int(share[-1].argmax())
    below = np.flatnonzero(share[:, token] <= SINK)
    since = below[-1] + 1 if len(below) else 0
    return token, float(share[-1, token]), float(step[since]) if since < len(step) else np.inf


def extrapolation(step: np.ndarray, share: np.ndarray, steps: int) -> tuple[int, float, float]:
    """The straight lines through logit s_j over the second half of what is known, carried on: the plain alternative."""
    late = step >= step[-1] / 2
    s = np.clip(share[late], 1e-9, 1 - 1e-9)  # a share of 0 or 1 has no logit
    slope, start = np.polyfit(step[late].astype(float), np.log(s / (1 - s)), 1)
    times = np.geomspace(step[-1], steps, 200)
    path = 1 / (1 + np.exp(-np.clip(start + slope * times[:, None], -50, 50)))
    token = int(path[-1].argmax())
    above = np.flatnonzero(path[:, token] > SINK)
    return token, float(path[-1, token]), float(times[above[0]]) if len(above) else np.inf


@dataclass(frozen=True)
class Criterion:
    """A number of the study, and whether it is what the protocol asked for."""

    number: Number
    asked: str
    met: bool

    def __str__(self) -> str:
        value, low, high = self.number.value, self.number.low, self.number.high
        return f"{self.number.name} {value:.2f} [{low:.2f}, {high:.2f}]"


def criteria(table: "Table", of: str = "forecast", names: Iterable[str] = CRITERIA) -> list[Criterion]:
    """The criteria of the protocol, in its order, or some of them."""
    judges = {"token": _token, "time": _time, "whether": _whether, "better time": _better_time}
    judges |= {"better AUROC": _better_area, "chance": _at_chance}
    return [judges[name](table, of) for name in names]


def _token(table: "Table", of: str) -> Criterion:
    found = _number("right token", right_token, table, of)
    return Criterion(found, "≥ 0.95", found.value >= 0.95)


def _time(table: "Table", of: str) -> Criterion:
    found = _number("time, median |log₂|", time_error, table, of)
    return Criterion(found, "≤ 1", found.value <= 1)


def _whether(table: "Table", of: str) -> Criterion:
    found = _number("sink or not, AUROC", area_under, table, of)
    return Criterion(found, "≥ 0.9", found.value >= 0.9)


def _better_time(table: "Table", of: str) -> Criterion:
    name = f"time, better than a line ({time_error(table, 'line'):.2f})"
    found = _number(name, lambda t, _: time_error(t, "line") - time_error(t, of), table, of)
    return Criterion(found, "> 0", found.value > 0)


def _better_area(table: "Table", of: str) -> Criterion:
    name = f"AUROC, better than a line ({area_under(table, 'line'):.2f})"
    found = _number(name, lambda t, _: area_under(t, of) - area_under(t, "line"), table, of)
    return Criterion(found, "> 0", found.value > 0)


def _at_chance(table: "Table", of: str) -> Criterion:
    found = _number("AUROC, forecasts dealt at random", area_under, dealt(table, of), of)
    return Criterion(found, "interval has 1/2", found.low <= 0.5 <= found.high)


def right_token(table: "Table", of: str) -> float:
    """NaN without sinks."""
    sinks = table.loc[table["share"] > SINK]
    return float((sinks["token"] == sinks[f"{of}_token"]).mean())


def time_error(table: "Table", of: str) -> float:
    """Median |log₂(forecast/actual)| of the heads that get a sink after what is known, and are told to."""
    both = timed(table, of)
    return float(np.median(np.abs(np.log2(both[f"{of}_step"] / both["step"])))) if len(both) else np.nan


def timed(table: "Table", of: str) -> "Table":
    return table.loc[(table["share"] > SINK) & (table["step"] > KNOWN) & np.isfinite(table[f"{of}_step"])]


def area_under(table: "Table", of: str) -> float:
    """The chance that a head with a sink was given the larger share than one without; NaN if all or none have one."""
    sink = (table["share"] > SINK).to_numpy()
    share = table[f"{of}_share"].fillna(0.0).to_numpy()  # none is told of a head that gave no weight
    high, low = share[sink][:, None], share[~sink]
    return float(((high > low) + 0.5 * (high == low)).mean()) if sink.any() and not sink.all() else np.nan


def dealt(table: "Table", of: str) -> "Table":
    """Forecasts dealt at random to heads of all runs."""
    mixed = table.copy()
    columns = [f"{of}_{name}" for name in ("token", "share", "step")]
    order = generator(0, "dealt").permutation(len(table))
    mixed[columns] = table[columns].to_numpy()[order]
    return mixed


def _number(name: str, measure: Measure, table: "Table", of: str) -> Number:
    """With its bootstrap interval over runs, since heads of one run are alike."""
    runs = list(_places(table).values())
    if not runs:
        raise SpecError(f"there are no heads to measure {name!r} on")
    draws = generator(0, "bootstrap").integers(len(runs), size=(RESAMPLES, len(runs)))
    found = [measure(table.iloc[np.concatenate([runs[i] for i in draw])], of) for draw in draws]
    return Number(name, measure(table, of), *_bounds(found))


def range_of_times(n: int, table: "Table") -> tuple[float, float]:
    """Student's bounds of the time error of n further runs of each map, in the logarithm since errors are sizes.

    Percentiles of N runs would hold at most (N − 1)/(N + 1) of further ones, of eight 78 %. With several maps the
    bounds are wide: as if only n runs of all maps were told a time.
    """
    errors = np.array([time_error(run, "forecast") for _, run in table.groupby(RUN)])
    errors = errors[np.isfinite(errors)]
    if not len(errors):
        return np.nan, np.nan
    _, low, high = range_of(n, np.log(errors))
    return float(np.exp(low)), float(np.exp(high))


def range_of_few(measure: Measure, table: "Table", each: int) -> tuple[float, float]:
    """Bounds of 95 % of a forecast's values on so many runs of each map, drawn from those of a table."""
    rng, runs = generator(0, "few"), _places(table)
    maps = [[rows for run, rows in runs.items() if run[0] == map] for map in dict.fromkeys(table["map"])]
    found = []
    for _ in range(RESAMPLES):
        drawn = [rows[i] for rows in maps for i in rng.integers(len(rows), size=each)]
        found.append(measure(table.iloc[np.concatenate(drawn)], "forecast"))
    return _bounds(found)


def _places(table: "Table") -> dict[Any, np.ndarray]:
    """Where the rows of each run are; a run begins with its map."""
    return dict(table.reset_index(drop=True).groupby(RUN).indices)


def _bounds(values: list[float]) -> tuple[float, float]:
    """Of the middle 95 %; NaN if there are none."""
    if np.isnan(values).all():
        return np.nan, np.nan
    low, high = np.nanpercentile(values, [100 * (1 - LEVEL), 100 * LEVEL])
    return float(low), float(high)
