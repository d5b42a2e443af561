"""The random problems behind the claims are what they say, and a run that ends early judges nothing."""

import numpy as np
import pytest

from softmaxlab.errors import SoftmaxlabError
from softmaxlab.papers.polarization.instances import Family, b_of, finished, gaps, margin, runs
from softmaxlab.polarization import Descent


def test_there_are_54_problems_under_assumption_3_1():
    problems = Family().problems()
    assert len(problems) == 54
    for fields in problems:
        u = fields["beta"] @ fields["V"]
        assert (np.diff(u) < 0).all()
        assert not fields["a"].any()
    assert sorted({round(float(f["beta"] @ f["beta"]), 9) for f in problems}) == [0.1, 1.0, 10.0]
    assert len({f["V"].tobytes() for f in problems}) == 54


def test_square_problems_have_V_along_beta():
    for fields in Family(loss="square", sizes=(3,)).problems():
        assert np.linalg.matrix_rank(fields["V"]) == 1
        assert "strength" in runs(Family(loss="square", sizes=(3,), seeds=1))[0]


def test_runs_are_kept():
    family = Family(sizes=(2,), b=(1.0,), seeds=1)
    assert runs(family) is runs(family)


def test_measures_of_a_run():
    (run,) = runs(Family(sizes=(3,), b=(10.0,), seeds=1))
    assert b_of(run) == pytest.approx(10.0)
    assert margin(run)[0] == pytest.approx(run["u"][0].mean())
    u = run["u"][0]
    assert gaps(run["u"])[0] == pytest.approx([u[0] - u[1], u[0] - u[2], u[1] - u[2]])


def test_an_early_end_is_refused():
    with pytest.raises(SoftmaxlabError, match="cannot be judged"):
        finished(Descent(loss="square", beta=np.ones(2), V=np.zeros((2, 2)), a=np.zeros(2), lr=1e3, steps=1000))
