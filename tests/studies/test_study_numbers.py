"""Numbers with intervals: Student's, Wilson's, and what agrees."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.papers.index import FIGURES
from softmaxlab.studies import forecast_metrics as foretold
from softmaxlab.studies.figures.bias_rule import TASKS, BiasRule
from softmaxlab.studies.figures.bumps import Bumps
from softmaxlab.studies.figures.forecast import Forecast
from softmaxlab.studies.figures.optimizers import Choice
from softmaxlab.studies.figures.winners import Winners
from softmaxlab.studies.forecast_metrics import area_under, lateness, right_token
from softmaxlab.studies.study import Study
from softmaxlab.studies.study_numbers import Number, compared, counted, interval, range_of, wider, wilson


class Bare(Study):
    """A table of one loss."""

    table: ClassVar[str] = "winners.csv"
    intervals: ClassVar[str] = "none"
    alike: ClassVar[tuple[str, ...]] = ("size",)
    size: int = 1

    @classmethod
    def read(cls):
        return pandas.DataFrame({"loss": [2.0]})

    @staticmethod
    def numbers(table):
        return [Number("loss", *[float(table["loss"][0])] * 3)]


STUDIES = [figure for figure in FIGURES.values() if issubclass(figure, Study)]


def test_the_interval_is_student_s():
    x = np.array([1.0, 2.0, 3.0, 4.0])
    mean, low, high = interval(x)
    assert mean == 2.5
    assert (high - low) / 2 == pytest.approx(3.182446 * np.sqrt(5 / 3) / 2, rel=1e-6)  # t with three degrees of freedom
    mean, low, high = range_of(1, x)
    assert mean == 2.5
    assert (high - low) / 2 == pytest.approx(3.182446 * np.sqrt(5 / 3 * (1 + 1 / 4)), rel=1e-6)
    _, low, high = range_of(4, x)
    assert (high - low) / 2 == pytest.approx(3.182446 * np.sqrt(5 / 3 * (1 / 4 + 1 / 4)), rel=1e-6)
    assert range_of(1, x[:1]) == (1.0, 1.0, 1.0)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_s_bounds_are_where_the_share_is_two_errors_away(case):
    k, n = case
    bounds = np.array(wilson(k / n, n))
    assert (bounds >= -1e-12).all()
    assert (bounds <= 1 + 1e-12).all()
    np.testing.assert_allclose((k / n - bounds) ** 2, 1.959964**2 * bounds * (1 - bounds) / n, atol=1e-12)


def test_intervals_that_meet_agree():
    committed = [Number("a", 1.0, 0.5, 1.5), Number("b", 1.0, 0.5, 1.5), Number("not made", 0.0, 0.0, 0.0)]
    made = [Number("a", 1.6, 1.4, 1.8), Number("b", 2.0, 2.0, 2.0), Number("new", 0.0, 0.0, 0.0)]
    assert compared(made, committed).splitlines() == [
        "1 of 2 numbers agree with the committed ones (95 % intervals meet);",
        "b: 2, committed 1 [0.5, 1.5]: DIFFERS;",  # what differs comes first
        "a: 1.6 [1.4, 1.8], committed 1 [0.5, 1.5]: agrees;",
        "new: 0, not compared.",
    ]


def test_what_is_not_a_number_is_not_compared():
    none, one = Number("a", np.nan, np.nan, np.nan), Number("a", 1.0, 0.5, 1.5)
    head = "0 of 0 numbers agree with the committed ones (95 % intervals meet), 1 cannot be compared;"
    assert compared([none], [one]).splitlines() == [head, "a: nan, committed 1 [0.5, 1.5]: cannot be compared."]
    assert compared([one], [none]).splitlines() == [head, "a: 1 [0.5, 1.5], committed nan: cannot be compared."]


def test_rows_of_another_setting_are_told_and_not_compared():
    made = Result({"loss": np.array([2.0])}, {"loss": ("row",)})
    said = {size: Bare.seen(replace(made, spec=Bare(runs="made", size=size))) for size in (1, 2)}
    assert said == {
        1: "1 of 1 numbers agree with the committed ones (95 % intervals meet);\nloss: 2, committed 2: agrees."
        "\nIn brackets: none.",
        2: "loss: 2.\nNot compared with the committed numbers, which are of another size.\nIn brackets: none.",
    }
    assert compared([Number("a", 1.0, 0.5, 1.5)], [Number("b", 1.0, 0.5, 1.5)]) == "a: 1 [0.5, 1.5]."


def test_a_share_is_counted():
    number = counted("right", np.array([True, True, False, True]))
    assert (number.value, str(number)) == (0.75, "0.75 [0.3006, 0.9544]")
    with pytest.raises(SpecError, match="there is nothing to count for 'right'"):
        counted("right", np.array([]))


def test_a_share_without_width_gets_that_of_its_number():
    sure = wider(Number("right", 1.0, 1.0, 1.0), *wilson(1.0, 24))
    assert (sure.low, sure.high) == pytest.approx((0.862, 1.0), abs=1e-3)  # n/(n + z²)
    assert wider(Number("right", 0.5, 0.1, 0.9), *wilson(0.5, 24)) == Number("right", 0.5, 0.1, 0.9)


def test_numbers_are_compared_with_those_of_their_own_kind(monkeypatch):
    monkeypatch.setattr(foretold, "RESAMPLES", 100)
    swept = BiasRule.preset("quick")
    assert {number.name for number in swept.reference()} == {
        f"{task}, {what}" for task in TASKS for what in ("loss at b = 0", "loss at b = 5", "the rule above the best")
    }
    other = swept.replace(biases=(0.0, 1.0, 6.0)).reference()
    assert {number.name for number in other} == {f"{task}, loss at b = {b}" for task in TASKS for b in (0, 1)}, (
        "the best of other biases is another"
    )
    few, all_runs = Forecast.preset("quick"), Forecast.read().query("round == 2")
    assert [number.value for number in few.reference()] == pytest.approx(
        [measure(all_runs[all_runs["map"].isin(few.maps)]) for measure in (right_token, lateness, area_under)]
    )
    widths = [number.high - number.low for number in few.reference()]
    more = few.replace(cases=tuple((4, seed, 1e-3) for seed in range(20)))
    assert widths[1] > 1.5 * (more.reference()[1].high - more.reference()[1].low), "few runs scatter more"


@pytest.mark.parametrize(("study", "rows"), [(Winners, 8), (Bumps, 6)])
def test_a_quick_count_can_differ(study, rows):
    """Of all counts that its rows may have, one at least does not agree with a committed one."""
    counts = [counted("any", np.arange(rows) < k) for k in range(rows + 1)]
    committed = [number for number in study.numbers(study.read()) if 0.1 < number.value < 0.9]
    assert any(not count.agrees(number) for number in committed for count in counts)


def test_a_window_that_is_not_found_again_differs():
    table = Choice.read()
    found = Choice.numbers(table)
    gone = compared(Choice.numbers(table.assign(right=1.0)), found)
    windows = sum(0 < number.value < np.inf for number in found)
    assert gone.count("DIFFERS") == windows > 10


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.id)
def test_numbers_of_a_table_are_within_their_intervals_and_agree_with_themselves(study):
    found = study.numbers(study.read())
    assert found
    assert all(number.low <= number.value <= number.high for number in found), found
    assert compared(found, found).startswith(f"{len(found)} of {len(found)} numbers agree")
    unbounded = sum(np.isinf(number.high) for number in found)
    changed = [Number(number.name, *(x + 1000 for x in (number.value, number.low, number.high))) for number in found]
    assert compared(changed, found).startswith(f"{unbounded} of {len(found)} numbers agree"), (
        "a comparison must be able to fail"
    )


def test_settings_of_rows_that_are_not_made_are_refused():
    with pytest.raises(SpecError, match='maps is a setting of rows that are made: set runs to "made" too'):
        Forecast(maps=("softmax",))
    with pytest.raises(SpecError, match="unknown map 'softmaxx', did you mean 'softmax'"):
        Forecast(runs="made", maps=("softmaxx",))
    with pytest.raises(SpecError, match="needs weights that are not negative, of which there are shares, got 'linear'"):
        Forecast(runs="made", maps=("softmax", "linear"))
    with pytest.raises(SpecError, match=r"maps must not name anything twice, got \('softmax', 'softmax'\)"):
        Forecast(runs="made", maps=("softmax", "softmax"))
    assert Forecast.preset("committed").replace(runs="made", maps=("softmax",)).maps == ("softmax",)
    with pytest.raises(SpecError, match=r"digest is of committed rows: those that are made have none, got 'abc'$"):
        Forecast(runs="made", digest="abc")
    with pytest.raises(SpecError, match=r"^Choice.lrs.0 must be greater than 0, got -1.0$"):
        Choice(runs="made", lrs=(-1.0,))
    with pytest.raises(SpecError, match=r"^Choice.lrs must be a list, as \[1, 2\], got 1.0$"):
        Choice(runs="made", lrs=1.0)
    with pytest.raises(SpecError, match=r"epsilons must have 1e-08, at which boundaries are told, got \(0.0001,\)"):
        Choice(runs="made", epsilons=(1e-4,))
    with pytest.raises(SpecError, match=r"the rule's bias must be within 0.01 of 0, got -0.162 for language model"):
        BiasRule(runs="made", heads=1, context=2, tasks=("language model",))
