"""Unaligned gradients: sparsity hangs on separability, order on the part of V(0) across the samples' mean."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.papers.polarization.figures.unaligned import Unaligned, gradient, measure, separable
from softmaxlab.polarization import Flow


@pytest.fixture(scope="module")
def result() -> sl.Result:
    return sl.simulate(Unaligned(seeds=3, spreads=(0.0, 1.0, 5.0), t_end=1e8, points=60))


def test_without_spread_it_is_the_paper_s_model(result):
    assert result.status.ok
    for name in ("right", "kept"):
        assert (result[name][:, 0] == 1).all(), name
    assert (result["largest"][:, 0] > 0.98).all()
    spec = Unaligned(t_end=1e8, points=60).flow("small", 0.0, 0)
    aligned = sl.simulate(Flow("logistic", beta=spec.X[0], V=spec.V, a=spec.a, t_end=1e8, points=60))
    # two solvers at rtol 1e-7 and 1e-9
    np.testing.assert_allclose(sl.simulate(spec)["weights"][-1], aligned["weights"][-1], atol=1e-5)


def test_weights_are_sparse_where_samples_are_separable_and_dense_where_they_are_far_from_it(result):
    can = result["separable"]
    assert can[:, :2].all()
    assert not can[:, 2].any()
    assert (result["largest"][can] > 0.98).all()
    assert (result["largest"][0, 2] < 0.3).all()


def test_order_is_lost_with_spread_but_not_along_the_mean_sample(result):
    small, large, parallel = result["kept"]
    assert large[1:].mean() < 1
    assert small[2].mean() < 1
    # separable samples only: others may turn g round, and with it the order
    assert (parallel[:2] == 1).all()


def test_no_pair_whose_order_is_assured_ever_crosses(result):
    assert (result["broken"] == 0).all()
    # the statement is not empty: it covers many pairs, and not all of them
    assert 0.3 < result["assured"][:, 1].mean() < 1
    # and order is kept by more pairs than are assured
    assert (result["kept"] >= result["assured"]).all()


def test_the_gradient_is_that_of_the_loss_up_to_a_factor():
    rng = np.random.default_rng(0)
    X, output = rng.standard_normal((5, 3)), rng.standard_normal(3)
    true = -sum(x / (1 + np.exp(x @ output)) for x in X)
    ours = -gradient(X, output)
    np.testing.assert_allclose(ours / np.linalg.norm(ours), true / np.linalg.norm(true), rtol=1e-12)
    # far out every γ underflows, the direction is still there: that of the smallest margin
    far = gradient(np.eye(2), np.array([1000.0, 900.0]))
    np.testing.assert_allclose(far / np.linalg.norm(far), [0, 1], atol=1e-12)


def test_measure_notices_a_crossing():
    spec = Unaligned(t_end=1e3, points=20).flow("large", 0.0, 0)
    run = sl.simulate(spec)
    assert measure(run)["kept"] == 1
    swapped = run["weights"].copy()
    swapped[10, [0, 1]] = swapped[10, [1, 0]]
    crossed = sl.Result({**run.arrays, "weights": swapped}, run.axes, run.status, spec=spec)
    assert measure(crossed)["kept"] == pytest.approx(27 / 28)


def test_separable():
    assert separable(np.array([[1.0, 0.1], [0.1, 1.0]]))
    assert not separable(np.array([[1.0, 0.0], [-1.0, 0.0]]))


def test_drawn_panels_are_labelled(result):
    axes = Unaligned.draw(result).axes
    assert len(axes) == 4
    assert all(ax.get_xlabel() and ax.get_ylabel() and ax.get_title() for ax in axes)
