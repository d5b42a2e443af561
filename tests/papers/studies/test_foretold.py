"""What came true of forecasts: endings, the plain alternative, and the criteria on tables that meet or miss them."""

import numpy as np
import pandas
import pytest

from softmaxlab.papers.studies import foretold
from softmaxlab.papers.studies.forecast import Forecast
from softmaxlab.papers.studies.foretold import area_under, criteria, dealt, extrapolation, right_token, time_error


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
    assert time_error(late, "forecast") == pytest.approx(1.5)
    mixed = dealt(made_up(runs=60), "forecast")
    assert abs(area_under(mixed, "forecast") - 0.5) < 0.15
    assert not criteria(made_up(runs=8), of="line")[0].met
    assert right_token(made_up(), "line") == 0.0


def test_dealing_keeps_the_forecasts_and_mixes_them():
    table = made_up()
    mixed = dealt(table, "forecast")
    assert sorted(mixed["forecast_share"]) == sorted(table["forecast_share"])
    assert not mixed["forecast_share"].equals(table["forecast_share"])
    assert mixed["share"].equals(table["share"])


def test_the_range_of_times_holds_runs_that_are_left_out():
    """Of the committed runs of both rounds that are told a time; percentiles of the others' errors hold far fewer."""
    held = {"Student's": 0, "percentiles": 0}
    left_out = 0
    for _, runs in Forecast.read().groupby(["round", "map"]):
        errors = runs.groupby(foretold.RUN).apply(time_error, "forecast").dropna()
        if len(errors) < 3:
            continue
        for run, error in errors.items():
            others = runs.set_index(foretold.RUN).drop(run).reset_index()
            low, high = foretold.range_of_times(1, others)
            held["Student's"] += low <= error <= high
            low, high = np.percentile(errors.drop(run), [2.5, 97.5])
            held["percentiles"] += low <= error <= high
            left_out += 1
    assert left_out == 51
    assert held == {"Student's": 47, "percentiles": 34}  # 92 and 67 %, of 95


def test_without_runs_that_are_told_a_time_there_is_no_range():
    assert np.isnan(foretold.range_of_times(1, made_up().assign(forecast_step=np.inf))).all()


def test_without_both_kinds_there_is_no_area():
    table = made_up()
    assert np.isnan(area_under(table.loc[table["share"] > 0.9], "forecast"))
