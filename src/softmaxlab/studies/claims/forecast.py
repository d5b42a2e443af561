"""Claims of the forecast study, judged on its table: docs/studies/forecast.md."""

from functools import partial
from typing import TYPE_CHECKING

from softmaxlab.measure.sinks import SINK
from softmaxlab.papers.claim import Finding, Verdict
from softmaxlab.studies.claim_helpers import holds_if, study_claim
from softmaxlab.studies.figures.forecast import ROUND, Forecast
from softmaxlab.studies.forecast_metrics import KNOWN, Criterion, criteria, timed

if TYPE_CHECKING:
    from softmaxlab.studies.claim_helpers import Change, Table

SLOW = 8.0  # times too late: three octaves, where the protocol allows a median of one


def as_it_came(table: "Table") -> "Table":
    """Return the table as if every forecast had been right."""
    return table.assign(forecast_token=table["token"], forecast_share=table["share"], forecast_step=table["step"])


def other_token(table: "Table") -> "Table":
    return table.assign(forecast_token=table["token"] + 1)


def too_slow(table: "Table") -> "Table":
    return table.assign(forecast_step=table["forecast_step"] * SLOW)


def exchanged(table: "Table") -> "Table":
    """The forecast's columns for the line's, and the other way round."""
    pairs = [(f"forecast_{name}", f"line_{name}") for name in ("token", "share", "step")]
    return table.rename(columns=dict(pairs) | {b: a for a, b in pairs})


def _judged(change: "Change", round: int, *names: str) -> tuple[list[Criterion], "Table"]:
    table = change(Forecast.read())
    table = table.loc[table["round"] == round]
    return criteria(table, names=names), table


def _finding(criteria_met: list[Criterion], more: str = "") -> Finding:
    return holds_if(all(c.met for c in criteria_met), "; ".join(map(str, criteria_met)) + more)


def token(change: "Change", round: int) -> Finding:
    judged, table = _judged(change, round, "token")
    sinks = table.loc[table["share"] > SINK]
    return _finding(judged, f" of {len(sinks)} heads with a sink; always BOS {(sinks['token'] == 0).mean():.2f}")


def time(change: "Change", round: int) -> Finding:
    judged, table = _judged(change, round, "time")
    late = table.loc[(table["share"] > SINK) & (table["step"] > KNOWN)]
    return _finding(judged, f" over {len(timed(table))} of {len(late)} heads that get a sink later")


def whether(change: "Change", round: int) -> Finding:
    return _finding(_judged(change, round, "whether")[0])


def better(change: "Change", round: int) -> Finding:
    judged, table = _judged(change, round, "better time", "better AUROC")
    forecasts, lines = (len(timed(table, of)) for of in ("forecast", "line"))
    open_still = [c.number.name.split(",")[0] for c in judged if c.number.low <= 0 <= c.number.high]
    more = f"; times are of {forecasts} and of {lines} heads"
    return _finding(judged, more + "".join(f"; the interval of {name} holds 0" for name in open_still))


PROTOCOL = "the protocol's thresholds, written before the runs; intervals are a bootstrap over runs"
TOKEN = "The forecast names the sink's token for at least 95 % of heads with a sink"
TIME = "The forecast's time is within a factor of 2 in the median"
WHETHER = "The forecast share tells heads with a sink from other heads with an AUROC of at least 0.9"
BETTER = "The forecast is better in time and AUROC than straight lines through the shares"
AS_IT_CAME = "forecasts that are all right, on which the claim must hold"
_claim = partial(study_claim, "1", tolerance=PROTOCOL, figures=("forecast",))
CLAIMS = (
    _claim("forecast-token", f"{TOKEN} (second method)", partial(token, round=ROUND),
           other_token, "forecasts that name the key after the right one"),
    _claim("forecast-time", f"{TIME} (second method)", partial(time, round=ROUND),
           too_slow, "forecast times multiplied by eight"),
    _claim("forecast-whether", f"{WHETHER} (second method)", partial(whether, round=ROUND),
           as_it_came, AS_IT_CAME, expected=Verdict.FAILS),
    _claim("forecast-better", f"{BETTER} (second method)", partial(better, round=ROUND),
           as_it_came, AS_IT_CAME, expected=Verdict.FAILS),
    _claim("forecast-first-token", f"{TOKEN} (first method)", partial(token, round=1),
           as_it_came, AS_IT_CAME, expected=Verdict.FAILS),
    _claim("forecast-first-time", f"{TIME} (first method)", partial(time, round=1),
           too_slow, "forecast times multiplied by eight"),
    _claim("forecast-first-whether", f"{WHETHER} (first method)", partial(whether, round=1),
           as_it_came, AS_IT_CAME, expected=Verdict.FAILS),
    _claim("forecast-first-better", f"{BETTER} (first method)", partial(better, round=1),
           exchanged, "forecast and line exchanged"),
)  # fmt: skip
