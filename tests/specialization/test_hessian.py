"""The Hessian in closed form against differences of the gradient, which has its own tests."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.specialization.hessian import hessian_over
from softmaxlab.specialization.population import slope_over
from softmaxlab.specialization.sampling import symmetric

sp = sl.specialization
SHIFT = 1e-5  # central differences: SHIFT² and rounding over SHIFT are both 1e-10
CLOSE = 1e-8


@pytest.mark.parametrize("map", ["softmax", "softmax1", "bayes_softmax"])
def test_it_is_the_derivative_of_the_gradient(map):
    model = sp.SingleLocation(sp.Discrete([[2.0, 1.0], [1.0, -1.0]], [0.7, 0.3]), length=3, heads=3, map=map)
    drawn, rng = symmetric(model, 64, seed=0), np.random.default_rng(0)
    y = np.concatenate([rng.standard_normal(15), 0.3 * rng.standard_normal(3), [1.3]])

    def gradient(y):
        slope = slope_over(map, y[:15].reshape(3, 5), y[15:18], y[18], drawn)
        return np.concatenate([slope.K.ravel(), slope.b, [slope.v]])

    found = hessian_over(map, y[:15].reshape(3, 5), y[15:18], y[18], drawn)
    size = len(found)
    assert size == {"softmax": 15, "bayes_softmax": 18, "softmax1": 19}[map]
    steps = SHIFT * np.eye(19)[:size]
    expected = np.array([(gradient(y + step) - gradient(y - step))[:size] / (2 * SHIFT) for step in steps])
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)
