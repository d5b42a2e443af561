"""Compare forecasts with what came true: one row for each layer-2 head of a run, and criteria over many rows.

Protocol and thresholds: docs/studies/forecast-protocol.md. Columns of a row, three times over (of what training did, of
the forecast and of the extrapolation): token, the key with the largest share at the end; share, that share; step, from
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
from softmaxlab.studies.study_numbers import LEVEL, Number, range_of, wider, wilson
from softmaxlab.training import Run, forecast

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame

KNOWN = 78  # steps, 2 % of the ten epochs of a run of default length
LAYER = 1
RUN = ["map", "heads", "lr", "seed", "epochs"]
RESAMPLES = 1000
NO_WEIGHT = (-1, np.nan, np.inf)  # token, share and step of a head that gave no weight, as `forecast` has them
Measure = Callable[["Table"], float]
CRITERIA = ("token", "time", "whether", "better time", "better AUROC", "chance")


def rows_of(result: Result) -> "Table":
    """The layer-2 heads of a run that was tracked."""
    import pandas

    spec = result.spec
    assert isinstance(spec, Run)
    step, share = result["track_step"], result["track_share"][:, LAYER]
    forecasts = forecast(result, at=(KNOWN + 0.5) / spec.steps())
    forecasts = forecasts.loc[forecasts["layer"] == LAYER]
    rows = []
    for head, ahead in zip(range(spec.heads), forecasts.itertuples()):
        actual = _ending(step, share[:, head])
        line = extrapolation(step[step <= KNOWN], share[step <= KNOWN, head], spec.steps())
        told_here = {"forecast": (ahead.token, ahead.share, ahead.step), "line": line}
        row = {name: getattr(spec, name) for name in RUN} | {"head": head}
        row |= dict(zip(("token", "share", "step"), actual))
        for kind, values in told_here.items():
            row |= dict(zip((f"{kind}_token", f"{kind}_share", f"{kind}_step"), values))
        rows.append(row)
    return pandas.DataFrame(rows)


def _ending(step: np.ndarray, share: np.ndarray) -> tuple[int, float, float]:
    if np.isnan(share[-1]).any():
        return NO_WEIGHT
    token = int(share[-1].argmax())
    below = np.flatnonzero(share[:, token] <= SINK)
    since = below[-1] + 1 if len(below) else 0
    return token, float(share[-1, token]), float(step[since]) if since < len(step) else np.inf


def extrapolation(step: np.ndarray, share: np.ndarray, steps: int) -> tuple[int, float, float]:
    """The straight lines through logit s_j over the second half of what is known, carried on: the plain alternative."""
    late = step >= step[-1] / 2
    if np.isnan(share[late]).any():
        return NO_WEIGHT
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


def criteria(table: "Table", names: Iterable[str] = CRITERIA) -> list[Criterion]:
    """The criteria of the protocol, in its order, or some of them."""
    judges = {"token": _token, "time": _time, "whether": _whether, "better time": _better_time}
    judges |= {"better AUROC": _better_area, "chance": _at_chance}
    return [judges[name](table) for name in names]


def _token(table: "Table") -> Criterion:
    number = number_of("right token", right_token, table)
    if sinks := int((table["share"].to_numpy() > SINK).sum()):
        number = wider(number, *wilson(number.value, sinks))  # a bootstrap of runs that are all right has no width
    return Criterion(number, "≥ 0.95", number.value >= 0.95)


def _time(table: "Table") -> Criterion:
    number = number_of("time, median |log₂|", time_error, table)
    return Criterion(number, "≤ 1", number.value <= 1)


def _whether(table: "Table") -> Criterion:
    number = number_of("sink or not, AUROC", area_under, table)
    return Criterion(number, "≥ 0.9", number.value >= 0.9)


def _better_time(table: "Table") -> Criterion:
    name = f"time, better than a line ({time_error(table, 'line'):.2f})"
    number = number_of(name, lambda t: time_error(t, "line") - time_error(t), table)
    return Criterion(number, "> 0", number.value > 0)


def _better_area(table: "Table") -> Criterion:
    name = f"AUROC, better than a line ({area_under(table, 'line'):.2f})"
    number = number_of(name, lambda t: area_under(t) - area_under(t, "line"), table)
    return Criterion(number, "> 0", number.value > 0)


def _at_chance(table: "Table") -> Criterion:
    number = number_of("AUROC, forecasts dealt at random", area_under, dealt(table))
    return Criterion(number, "interval has 1/2", number.low <= 0.5 <= number.high)


def right_token(table: "Table", of: str = "forecast") -> float:
    """The share of sinks whose token was forecast; NaN without sinks."""
    sinks = table.loc[table["share"] > SINK]
    return float((sinks["token"] == sinks[f"{of}_token"]).mean())


def time_error(table: "Table", of: str = "forecast") -> float:
    """Return the median |log₂(forecast/actual)| of heads that get a sink after the known steps and are forecast to."""
    off = _octaves(table, of)
    return float(np.median(np.abs(off))) if len(off) else np.nan


def lateness(table: "Table") -> float:
    """Median log₂(forecast/actual) of the same heads."""
    off = _octaves(table, "forecast")
    return float(np.median(off)) if len(off) else np.nan


def _octaves(table: "Table", of: str) -> np.ndarray:
    both = timed(table, of)
    return np.log2(both[f"{of}_step"].to_numpy() / both["step"].to_numpy())


def timed(table: "Table", of: str = "forecast") -> "Table":
    """Return the heads that have both times."""
    return table.loc[(table["share"] > SINK) & (table["step"] > KNOWN) & np.isfinite(table[f"{of}_step"])]


def area_under(table: "Table", of: str = "forecast") -> float:
    """The chance that a head with a sink was given the larger share than one without; NaN if all or none have one."""
    from scipy.stats import mannwhitneyu

    sink = (table["share"] > SINK).to_numpy()
    share = table[f"{of}_share"].fillna(0.0).to_numpy()  # none is told of a head that gave no weight
    if sink.all() or not sink.any():
        return np.nan
    return float(mannwhitneyu(share[sink], share[~sink]).statistic) / (sink.sum() * (~sink).sum())


def dealt(table: "Table") -> "Table":
    """Forecasts dealt at random to heads of all runs."""
    mixed = table.copy()
    columns = [f"forecast_{name}" for name in ("token", "share", "step")]
    order = generator(0, "dealt").permutation(len(table))
    mixed[columns] = table[columns].to_numpy()[order]
    return mixed


def number_of(name: str, measure: Measure, table: "Table") -> Number:
    """A measure with its bootstrap interval over runs, since heads of one run are alike."""
    runs, value = list(_places(table).values()), measure(table)
    if not runs:
        raise SpecError(f"there are no heads to measure {name!r} on")
    if len(runs) == 1:
        return Number(name, value, value, value)

    def of_runs(numbers: np.ndarray) -> float:
        return measure(table.iloc[np.concatenate([runs[i] for i in numbers])])

    # drawn as by scipy.stats.bootstrap, whose own interval is none if one resample has nothing to measure
    drawn = generator(0, "bootstrap").integers(0, len(runs), (RESAMPLES, len(runs)))
    return Number(name, value, *_bounds([of_runs(numbers) for numbers in drawn]))


def range_of_lateness(n: int, table: "Table") -> tuple[float, float]:
    """Student's bounds of 95 % of the lateness of n further runs.

    Percentiles of N runs would hold at most (N − 1)/(N + 1) of further ones, of eight 78 %. With several maps the
    bounds are wide, as if only n runs of all maps were told a time.
    """
    late = np.array([lateness(run) for _, run in table.groupby(RUN)])
    late = late[np.isfinite(late)]
    return range_of(n, late)[1:] if len(late) else (np.nan, np.nan)


def range_of_few(measure: Measure, table: "Table", each: int) -> tuple[float, float]:
    """Bounds of 95 % of a forecast's values on so many runs of each map, drawn from those of a table."""
    rng, runs = generator(0, "few"), _places(table)
    maps = [[rows for run, rows in runs.items() if run[0] == map] for map in dict.fromkeys(table["map"])]
    values = []
    for _ in range(RESAMPLES):
        drawn = [rows[i] for rows in maps for i in rng.integers(len(rows), size=each)]
        values.append(measure(table.iloc[np.concatenate(drawn)]))
    return _bounds(values)


def _places(table: "Table") -> dict[Any, np.ndarray]:
    """Return where the rows of each run are; a run begins with its map."""
    return dict(table.reset_index(drop=True).groupby(RUN).indices)


def _bounds(values: list[float] | np.ndarray) -> tuple[float, float]:
    """The bounds of the middle 95 %; NaN if there are none."""
    if np.isnan(values).all():
        return np.nan, np.nan
    low, high = np.nanpercentile(values, [100 * (1 - LEVEL), 100 * LEVEL])
    return float(low), float(high)
