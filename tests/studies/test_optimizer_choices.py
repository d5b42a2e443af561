"""Winners under optimizers: the noisy descents without noise, boundaries, and the formula's laws."""

from dataclasses import asdict, astuple

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares

import softmaxlab as sl
from softmaxlab.polarization import descend_many
from softmaxlab.studies import adam_window as formula
from softmaxlab.studies.adam_window import FITTED, window
from softmaxlab.studies.figures.optimizers import Choice, Edge, edges, plain_adam
from softmaxlab.studies.noise import noisy_ends
from softmaxlab.studies.optimizer_choices import Setting, _descent, boundaries, right_share, share

ROUNDING = 1e-12  # hundreds of steps in another order of operations


@pytest.mark.parametrize("optimizer", ["gd", "momentum", "adam", "adamw"])
def test_without_noise_the_noisy_descent_is_the_descent(optimizer):
    setting = Setting(5, 0.1, optimizer=optimizer, decay=0.01, eps=1e-6)
    specs = [_descent(setting, 0.01, 300, seed) for seed in range(4)]
    plain = np.array([run["weights"][-1] for run in descend_many(specs)])
    np.testing.assert_allclose(noisy_ends(specs, 0.0, range(4)), plain, atol=ROUNDING)
    noisy = noisy_ends(specs, 1.0, range(4))
    assert np.abs(noisy - plain).max() > 1e-4, "noise must do something"
    np.testing.assert_allclose(noisy_ends(specs[2:], 1.0, [2, 3]), noisy[2:], atol=ROUNDING)  # whoever is beside it


def test_a_tie_is_not_won_and_a_diverged_run_is_no_share():
    ends = np.array([[0.6, 0.4, 0.0], [0.2, 0.5, 0.3], [1 / 3 + 1e-16, 1 / 3, 1 / 3]])
    assert right_share(ends) == pytest.approx(1 / 3)
    assert np.isnan(right_share(np.vstack([ends, np.full(3, np.nan)])))


def test_shares_of_a_cell_in_and_out_of_the_window():
    rows = [share(Setting(8, scale), 1e-2, seeds=range(1000, 1008)) for scale in (0.1, 1.0)]
    assert [row["right"] for row in rows] == [0.0, 1.0]
    assert all(row["largest"] > 0.5 for row in rows)


def test_the_cells_of_a_spec_are_those_of_its_table():
    """But for what the protocol's departures say: no eps above 1e-8 below lr 10^-3.5 at p = 32."""
    names = ("p", "scale", "eps", "optimizer", "decay", "noise", "beta1", "beta2")
    committed = {
        (*row[:-1], f"{row[-1]:.3g}") for row in Choice.read()[[*names, "lr"]].itertuples(index=False, name=None)
    }
    made = {(*astuple(setting), f"{lr:.3g}") for setting, lr in Choice(runs="made")._cells()}
    assert committed <= made
    assert all(p == 32 and eps > 1e-8 and float(lr) < 3e-4 for p, _, eps, *_, lr in made - committed)


def test_cells_are_made_told_and_drawn():
    """Also where other memories have a p of their own."""
    study = Choice(runs="made", ps=(4,), scales=(0.1,), epsilons=(1e-8,), lrs=(1e-2, 1e-1), seeds=4, others=())
    result = sl.simulate(study)
    table = result.to_pandas()
    assert sorted(set(zip(table["p"], table["beta2"]))) == [(4, 0.999), (32, 0.99), (32, 0.999)]
    committed = Choice.read().query("p == 4 and scale == 0.1 and eps == 1e-8 and 0.009 < lr < 0.11")
    here = plain_adam(table).set_index("lr")["largest"]
    there = committed.set_index("lr")["largest"]
    assert here[1e-2] == pytest.approx(there[1e-2], abs=0.05), "the same cell with 64 seeds"
    titles = [ax.get_title() for ax in Choice.draw(result).axes]
    assert titles[0].startswith("p = 4 tokens")
    assert "lower boundary at p = 4, scale 0.1" in Choice.seen(result)


def test_the_constants_are_least_squares_of_what_was_found(monkeypatch):
    found = [edge for edge in edges(Choice.read()) if edge.p in FITTED]
    assert len(found) == 12
    names = ("LOWER", "UPPER", "POWER", "CLOSED")
    committed = [getattr(formula, name) for name in names]

    def errors(constants):
        for name, constant in zip(names, constants):
            monkeypatch.setattr(formula, name, constant)
        told = [window(edge.p, edge.scale) for edge in found]
        return [np.log(pair[edge.side == "upper"] / edge.measured) for pair, edge in zip(told, found)]

    fitted = least_squares(errors, [1.0, 2.0, 1.0, 0.1], bounds=([0.1, 0.1, 0.1, 0.07], [10, 10, 10, 1])).x
    np.testing.assert_allclose(fitted, committed, rtol=0.01)  # they were rounded


def test_boundaries_are_interpolated_in_the_logarithm():
    lr = np.array([1e-4, 1e-3, 1e-2, 1e-1])
    low, high = boundaries(lr, np.array([1.0, 0.0, 0.0, 1.0]))
    assert low == pytest.approx(10**-3.5)
    assert high == pytest.approx(10**-1.5)
    assert boundaries(lr, np.ones(4)) is None
    assert np.isnan(boundaries(lr, np.array([0.0, 0.0, 1.0, 1.0]))[0])
    assert np.isnan(boundaries(lr, np.array([1.0, 1.0, 0.0, 0.0]))[1])


@given(p=st.integers(2, 64), scale=st.floats(1e-3, 0.05), memory=st.floats(2.0, 1e4))
def test_the_lower_edge_scales_with_the_memory(p, scale, memory):
    assert formula.lower(p, scale, 1 - 1 / memory) * memory == pytest.approx(formula.lower(p, scale, 0.999) * 1000.0)
    told, usual = window(p, scale, beta2=1 - 1 / memory), window(p, scale)
    assert not (told and usual) or told[1] == usual[1]


def test_a_large_start_has_no_window_and_a_small_one_a_wider():
    assert window(8, 1.0) is None
    (low, high), (lower, higher) = window(8, 0.1), window(8, 0.01)
    assert lower < low < high < higher
    assert window(8, 0.18) is None, "it closes where its edges meet"
    assert window(8, 1e-30)[0] > 0


def test_edges_pair_what_is_found_with_what_is_told():
    rights = {1e-4: 1.0, 1e-3: 0.0, 1e-2: 0.0, 1e-1: 1.0}
    table = pandas.DataFrame([asdict(Setting(8, 0.1)) | {"lr": lr, "right": right} for lr, right in rights.items()])
    lower, upper = edges(table)
    assert (lower.side, upper.side) == ("lower", "upper")
    assert (lower.predicted, upper.predicted) == window(8, 0.1)
    assert (lower.measured, upper.measured) == pytest.approx((10**-3.5, 10**-1.5))
    assert Edge(8, 0.1, 0.9, 0.999, "lower", 1.0, 4.0).factor == pytest.approx(4.0)
    assert np.isnan(Edge(8, 0.1, 0.9, 0.999, "lower", np.nan, 4.0).factor)
