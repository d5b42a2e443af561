"""κ against the size of the solution: the figure's numbers, and that sizes are what they say."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.figures.confound import Confound, solution_size, with_size


@pytest.fixture(scope="module")
def result() -> sl.Result:
    return sl.simulate(Confound(kappas=(1.0, 5.0), sizes=(10.0, 60.0, 300.0), lr=5e-3, steps=60_000))


def test_as_in_figure_12_the_weights_become_sparse_with_kappa(result):
    assert result.status.ok
    first, last = result["as_in_figure"]
    assert first < 0.06
    assert last > 0.9
    assert result["own_size"][1] > 5 * result["own_size"][0]


def test_with_the_size_held_kappa_moves_them_little(result):
    for held in ("held_at_first", "held_at_last"):
        assert np.ptp(result[held]) < 0.1 * np.ptp(result["as_in_figure"]), held


def test_at_any_size_kappa_moves_them_less_than_the_size_does(result):
    by_size = np.ptp(result["largest"], axis=0)
    by_kappa = np.ptp(result["largest"], axis=1)
    assert (by_size > 0.9).all()
    # largest in the middle of the rise, where it is real
    assert by_kappa.argmax() == 1
    assert 0.1 < by_kappa.max() < 0.35


def test_sizes_are_reached():
    start = with_size(problems.regression(20, 0, 3.0), 42.0)
    assert solution_size(start) == pytest.approx(42.0, rel=1e-12)
    w = np.linalg.solve(start["X"], start["beta"])
    np.testing.assert_allclose(start["X"] @ w, start["beta"], atol=1e-12)


def test_drawn_panels_are_labelled(result):
    left, right = Confound.draw(result).axes
    assert left.get_xlabel() == "condition number κ"
    assert "size" in right.get_xlabel()
    assert len(right.get_lines()) == 3
