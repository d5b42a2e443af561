"""What the forecast study asked, judged on its table: docs/studies/forecast.md."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from softmaxlab.measure.sinks import SINK
from softmaxlab.papers.claim import Finding, Verdict
from softmaxlab.papers.studies.forecast import Forecast
from softmaxlab.papers.studies.foretold import KNOWN, Criterion, criteria, timed
from softmaxlab.papers.studies.judging import holds_if, study_claim

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame
    Change = Callable[[Table], Table]

SLOW = 8.0  # times too late: three octaves, where the protocol allows a median of one


def as_it_came(table: "Table") -> "Table":
    """As if every forecast had been right."""
    return table.assign(forecast_token=table["token"], forecast_share=table["share"])


def too_slow(table: "Table") -> "Table":
    return table.assign(forecast_step=table["forecast_step"] * SLOW)


def exchanged(table: "Table") -> "Table":
    """The forecast's columns for the line's, and the other way round."""
    pairs = [(f"forecast_{name}", f"line_{name}") for name in ("token", "share", "step")]
    return table.rename(columns=dict(pairs) | {b: a for a, b in pairs})


def _judged(change: "Change", *places: int) -> tuple[list[Criterion], "Table"]:
    table = change(Forecast.read())
    return criteria(table, places=places), table


def _finding(found: list[Criterion], more: str = "") -> Finding:
    told = "; ".join(f"{c.name} {c.value:.2f} [{c.low:.2f}, {c.high:.2f}]" for c in found)
    return holds_if(all(c.met for c in found), told + more)


def token(change: "Change") -> Finding:
    found, table = _judged(change, 0)
    sinks = table.loc[table["share"] > SINK]
    return _finding(found, f" of {len(sinks)} heads with a sink; always BOS {(sinks['token'] == 0).mean():.2f}")


def time(change: "Change") -> Finding:
    found, table = _judged(change, 1)
    late = table.loc[(table["share"] > SINK) & (table["step"] > KNOWN)]
    return _finding(found, f" over {len(timed(table, 'forecast'))} of {len(late)} heads that get a sink later")


def whether(change: "Change") -> Finding:
    return _finding(_judged(change, 2)[0])


def better(change: "Change") -> Finding:
    return _finding(_judged(change, 3, 4)[0])


RIGHT = "forecasts as it came, on which it must hold"
_claim = partial(study_claim, "1", tolerance="intervals are a bootstrap over runs; thresholds")
CLAIMS = (
    _claim("forecast-token", "The forecast names the sink's token for at least 95 % of heads with a sink", token,
           as_it_came, RIGHT, expected=Verdict.FAILS),
    _claim("forecast-time", "The forecast's time is within a factor of 2 in the median", time,
           too_slow, "times eight times too late"),
    _claim("forecast-whether", "The forecast share tells heads with a sink from others: AUROC of 0.9", whether,
           as_it_came, RIGHT, expected=Verdict.FAILS),
    _claim("forecast-better", "The forecast is better in time and AUROC than carrying on the shares' lines", better,
           exchanged, "forecast and line exchanged"),
)  # fmt: skip
