"""The shared pieces: starting points, several runs as one result, default pictures."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.core.result import Outcome, Status
from softmaxlab.papers.gather import gather
from softmaxlab.papers.polarization import problems
from softmaxlab.plotting import polarization as curves
from softmaxlab.polarization import Descent, Flow, StrengthFlow

ROUNDING = 1e-13  # of products of matrices of size 20 with entries of order 1


def titles(figure) -> list[str]:
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)
    return [ax.get_title() for ax in figure.axes]


def test_picture_of_a_flow():
    start = problems.classification(4, 0)
    figure = curves.draw_flow(sl.simulate(Flow(**start, t_end=100.0, points=20)))
    assert titles(figure) == ["weights", "value projections", "loss", "strength Γ"]
    assert figure.get_suptitle() == "Flow: logistic loss, softmax, value model"
    assert all(ax.get_xscale() == "log" for ax in figure.axes)


def test_picture_of_a_descent_without_u():
    start = problems.prediction(4, 0, 3.0)
    figure = curves.draw_descent(sl.simulate(Descent(**start, lr=0.1, steps=50)))
    assert titles(figure) == ["weights", "loss"]
    assert figure.get_suptitle().startswith("Descent (gd, lr 0.1): cross_entropy")


def test_picture_in_the_clock_of_strength_leaves_out_a_loss_that_underflows():
    start = problems.classification(3, 0)
    short, long = (
        curves.draw_strength_flow(sl.simulate(StrengthFlow(**start, strength_end=end, points=30))) for end in (1e2, 1e5)
    )
    assert titles(short) == ["weights", "value projections", "loss", "log t"]
    assert titles(long) == ["weights", "value projections", "log t"]


def test_picture_of_the_matrix_model_and_of_many_tokens():
    many = problems.classification(100, 0)
    figure = curves.draw_flow(sl.simulate(Flow(**many, t_end=10.0, points=10)))
    assert "other 93 tokens" in [text.get_text() for text in figure.legends[0].get_texts()]
    fields = {"loss": "logistic", "model": "matrix", "beta": many["beta"], "V": many["V"].T[:3], "A": np.zeros((3, 3))}
    figure = curves.draw_flow(sl.simulate(Flow(**fields, t_end=10.0, points=10)))
    assert titles(figure)[0] == "weights, mean over queries"


def test_a_bad_end_stands_in_the_title():
    start = problems.regression(4, 0, 1.0)
    result = sl.simulate(Descent(**start, lr=50.0, steps=1000))
    assert not result.status.ok
    assert "diverged" in curves.draw_descent(result).get_suptitle()


def test_the_winner_is_thick_blue_and_named_first():
    start = problems.classification(5, 1)
    figure = curves.draw_flow(sl.simulate(Flow(**start, t_end=1e6, points=20)))
    winner = max(figure.axes[0].get_lines(), key=lambda line: line.get_linewidth())
    assert winner.get_color() == curves.COLOURS[0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"token {i}" for i in range(5)]


def test_gather_keeps_what_an_early_end_left():
    def run(length: int, status: Status):
        t = np.arange(float(length))
        return sl.Result({"t": t, "loss": t + 1}, {"t": ("t",), "loss": ("t",)}, status)

    short = run(2, Status(Outcome.SINGULAR, "at t = 2"))
    result = gather([run(4, Status()), short], ["long", "short"], "run", ("loss",))
    np.testing.assert_array_equal(result["loss"], [[1, 2, 3, 4], [1, 2, np.nan, np.nan]])
    assert result.axes["loss"] == ("run", "t")
    assert result.status == Status(Outcome.SINGULAR, "run short: at t = 2")


def test_starting_points():
    start = problems.classification(8, 123, norm=2.0)
    assert np.linalg.norm(start["beta"]) == pytest.approx(2.0, rel=ROUNDING)
    assert (np.diff(start["beta"] @ start["V"]) < 0).all()
    # drawn apart, unlike in the authors' notebook, where row 0 of V is parallel to β*
    row, beta = start["V"][0], start["beta"]
    assert abs(row @ beta) < 0.99 * np.linalg.norm(row) * np.linalg.norm(beta)


def test_regression_changes_only_its_singular_values():
    well, ill = (problems.regression(20, 123, kappa) for kappa in (1.0, 5.0))
    np.testing.assert_allclose(np.linalg.svd(ill["X"], compute_uv=False), np.linspace(1, 0.2, 20), atol=ROUNDING)
    np.testing.assert_array_equal(well["beta"], ill["beta"])
    inner = well["X"].T @ ill["X"]  # right · diag · rightᵀ: symmetric only if the singular vectors are the same
    np.testing.assert_allclose(inner, inner.T, atol=ROUNDING)


def test_along_is_parallel():
    start = problems.along(6, 0, 4.0)
    assert np.linalg.matrix_rank(start["V"]) == 1
    assert "strength" in sl.simulate(Flow(loss="square", **start, t_end=1.0, points=3))
