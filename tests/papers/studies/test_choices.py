"""Winners under optimizers: the noisy descents without noise, boundaries, and the formula's laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmaxlab.papers.studies.choices import Setting, _descent, boundaries, shares
from softmaxlab.papers.studies.noise import noisy_ends
from softmaxlab.papers.studies.optimizers import Edge, edges
from softmaxlab.papers.studies.window import window
from softmaxlab.polarization import descend_many

ROUNDING = 1e-12  # hundreds of steps in another order of operations


@pytest.mark.parametrize("optimizer", ["gd", "momentum", "adam", "adamw"])
def test_without_noise_the_noisy_descent_is_the_descent(optimizer):
    setting = Setting(5, 0.1, optimizer=optimizer, decay=0.01, eps=1e-6)
    specs = [_descent(setting, 0.01, 300, seed) for seed in range(4)]
    plain = np.array([run["scores"][-1] for run in descend_many(specs)])
    np.testing.assert_allclose(noisy_ends(specs, 0.0), plain, atol=ROUNDING)
    assert np.abs(noisy_ends(specs, 1.0) - plain).max() > 1e-4, "noise must do something"


def test_shares_of_a_cell_in_and_out_of_the_window():
    table = shares([Setting(8, 0.1), Setting(8, 1.0)], [1e-2], seeds=range(1000, 1008))
    assert table["right"].tolist() == [0.0, 1.0]
    assert (table["largest"] > 0.5).all()


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
    told, usual = window(p, scale, beta2=1 - 1 / memory), window(p, scale)
    assert (told is None) == (usual is None)
    if told and usual:
        assert told[0] * memory == pytest.approx(usual[0] * 1000.0)
        assert told[1] == usual[1]


def test_a_large_start_has_no_window_and_a_small_one_a_wider():
    assert window(8, 1.0) is None
    (low, high), (lower, higher) = window(8, 0.1), window(8, 0.01)
    assert lower < low < high < higher


def test_edges_pair_what_is_found_with_what_is_told():
    table = shares([Setting(8, 0.1)], [1e-5 * 3, 1e-2, 0.3], seeds=range(1000, 1004))
    lower, upper = edges(table)
    assert (lower.side, upper.side) == ("lower", "upper")
    assert lower.told == window(8, 0.1)[0]
    assert Edge(8, 0.1, 0.9, 0.999, "lower", 1.0, 4.0).factor == pytest.approx(4.0)
    assert np.isnan(Edge(8, 0.1, 0.9, 0.999, "lower", np.nan, 4.0).factor)
