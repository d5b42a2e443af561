"""What came true of forecasts: endings, the plain alternative, and the criteria on tables that meet or miss them."""

import numpy as np
import pandas
import pytest

from softmaxlab.core.result import Result
from softmaxlab.studies import forecast_metrics as foretold
from softmaxlab.studies.figures.forecast import Forecast
from softmaxlab.studies.forecast_metrics import (
    area_under,
    criteria,
    dealt,
    extrapolation,
    lateness,
    right_token,
    rows_of,
    time_error,
)
from softmaxlab.studies.study_numbers import compared
from softmaxlab.training import Induction, Run


def test_the_ending_is_the_step_from_which_a_share_stays_high():
    step = np.array([0, 10, 20, 30, 40])
    share = np.array([[0.5, 0.5], [0.95, 0.05], [0.6, 0.4], [0.92, 0.08], [0.97, 0.03]])
    assert foretold._ending(step, share) == (0, 0.97, 30.0)  # not 10: it fell again
    assert foretold._ending(step[:3], share[:3]) == (0, 0.6, np.inf)
    assert foretold._ending(step[3:], share[3:]) == (0, 0.97, 30.0)


def test_lines_are_carried_on():
    step = np.arange(0, 80, 4)
    logit = np.stack([-2.0 + 0.02 * step, 1.0 - 0.01 * step], axis=1)
    token, share, when = extrapolation(step, 1 / (1 + np.exp(-logit)), 1000)
    assert token == 0
    assert share == pytest.approx(1.0, abs=1e-6)
    assert when == pytest.approx((np.log(9) + 2.0) / 0.02, rel=0.02)  # logit 0.9 = log 9; times are 1.3 % apart


def made_up(runs=12, heads=4, error=0.5, seed=0):
    """Half the runs get sinks at known steps, the forecast `error` octaves off; lines are worse, shares tell."""
    rng = np.random.default_rng(seed)
    rows = []
    for run, head in np.ndindex(runs, heads):
        sink = run % 2 == 0
        step = rng.uniform(100, 1000) if sink else np.inf
        share = rng.uniform(0.92, 1.0) if sink else rng.uniform(0.2, 0.8)
        row = {"map": "softmax", "heads": heads, "lr": 1e-3, "seed": run, "epochs": 3, "head": head}
        row |= {"token": 0, "share": share, "step": step}
        row |= {"forecast_token": 0, "forecast_share": share - 0.1, "forecast_step": step * 2.0**error}
        row |= {"line_token": 1, "line_share": rng.uniform(), "line_step": 4.0 * step}
        rows.append(row)
    return pandas.DataFrame(rows)


def test_a_good_forecast_meets_every_criterion():
    found = criteria(made_up())
    assert [c.met for c in found] == [True] * 6
    numbers = [c.number for c in found]
    assert [number.value for number in numbers[:3]] == pytest.approx([1.0, 0.5, 1.0])
    assert all(number.low <= number.value <= number.high for number in numbers)


def test_a_bad_one_does_not():
    late = made_up(error=1.5)
    assert not criteria(late, names=["time"])[0].met
    assert time_error(late) == lateness(late) == pytest.approx(1.5)
    early = made_up(error=-1.5)
    assert (time_error(early), lateness(early)) == pytest.approx((1.5, -1.5))
    mixed = dealt(made_up(runs=60))
    assert abs(area_under(mixed) - 0.5) < 0.15
    assert not criteria(made_up(runs=8).assign(forecast_token=1))[0].met
    assert right_token(made_up(), "line") == 0.0


def test_dealing_keeps_the_forecasts_and_mixes_them():
    table = made_up()
    mixed = dealt(table)
    assert sorted(mixed["forecast_share"]) == sorted(table["forecast_share"])
    assert not mixed["forecast_share"].equals(table["forecast_share"])
    assert mixed["share"].equals(table["share"])


def test_the_range_holds_runs_that_are_left_out():
    """Of the committed runs of both rounds that are told a time; percentiles of the others hold far fewer."""
    held = {"Student's": 0, "percentiles": 0}
    left_out = 0
    for _, runs in Forecast.read().groupby(["round", "map"]):
        late = runs.groupby(foretold.RUN).apply(lateness).dropna()
        if len(late) < 3:
            continue
        for run, one in late.items():
            others = runs.set_index(foretold.RUN).drop(run).reset_index()
            low, high = foretold.range_of_lateness(1, others)
            held["Student's"] += low <= one <= high
            low, high = np.percentile(late.drop(run), [2.5, 97.5])
            held["percentiles"] += low <= one <= high
            left_out += 1
    assert left_out == 51
    assert held == {"Student's": 46, "percentiles": 34}  # 90 and 67 %, of 95


def test_without_runs_that_are_told_a_time_there_is_no_range():
    assert np.isnan(foretold.range_of_lateness(1, made_up().assign(forecast_step=np.inf))).all()


@pytest.mark.parametrize(
    ("step", "told", "verdict"), [(300, 200, "agrees"), (79, 1173, "DIFFERS"), (1173, 79, "DIFFERS")]
)
def test_a_run_made_anew_can_differ_in_time_on_both_sides(monkeypatch, step, told, verdict):
    monkeypatch.setattr(foretold, "RESAMPLES", 50)
    rows = made_up(runs=1).assign(round=2, step=float(step), forecast_step=float(told))
    quick = Forecast.preset("quick")
    said = compared(quick.numbers(rows), quick.reference())
    (time,) = [line for line in said.splitlines() if line.startswith("time, median log₂(forecast/actual)")]
    assert verdict in time


def test_rows_are_of_the_second_layer_and_of_what_is_known(monkeypatch):
    spec = Run(task=Induction(), heads=2, epochs=3, seed=5, track=("heads",))
    step = np.array([0, 39, 60, 78, 200, 400])
    share = np.full((6, 2, 2, 12), 0.01)
    share[:, 0, :, 7] = 0.99  # the first layer, which is not asked
    share[:, 1, 0, 0] = [0.1, 0.2, 0.3, 0.4, 0.95, 0.97]
    share[:, 1, 1, 3] = [0.1, 0.1, 0.1, 0.1, 0.99, 0.5]
    asked = []

    def ahead(result, at):
        asked.append(at)
        rows = [(layer, 10 * layer + head, 0.5, 100.0 + head) for layer in range(2) for head in range(2)]
        return pandas.DataFrame(rows, columns=["layer", "token", "share", "step"])

    monkeypatch.setattr(foretold, "forecast", ahead)
    axes = {"track_step": ("track_step",), "track_share": ("track_step", "layer", "head", "key")}
    rows = rows_of(Result({"track_step": step, "track_share": share}, axes, spec=spec))
    assert asked[0] * spec.steps() == pytest.approx(78.5)
    assert rows[["token", "share", "step"]].values.tolist() == [[0, 0.97, 200], [3, 0.5, np.inf]]
    assert rows["forecast_token"].tolist() == [10, 11]
    assert rows["line_token"].tolist()[0] == 0, "the share that rises while it is known"
    assert set(rows["seed"]) == {5}


def test_a_head_without_weight_has_no_token():
    share = np.full((4, 3), np.nan)
    assert foretold._ending(np.arange(4), share) == foretold.NO_WEIGHT
    assert extrapolation(np.arange(4), share, 100) == foretold.NO_WEIGHT


def test_without_both_kinds_there_is_no_area():
    table = made_up()
    assert np.isnan(area_under(table.loc[table["share"] > 0.9]))
