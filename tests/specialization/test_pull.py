"""The compiled pass over scores is the formulas of heads.py: loss, c, ∂b and ∂v, whatever the scores."""

import numpy as np
import pytest

from softmaxlab.specialization.compiled import pull
from softmaxlab.specialization.heads import CLOSED_FORM
from softmaxlab.specialization.population import _compiled, _pull

ROUNDING = 1e-14  # of sums of some hundred numbers of size one, in another order


def both(map, chi, b, v=1.3):
    """(c, ∂b, loss, ∂v) by the formulas and by the compiled pass."""
    weight = np.random.default_rng(1).random(chi.shape[-1])
    weight /= weight.sum()
    found = []
    for pulled in (lambda *given: _pull(map, *given), _compiled(map)):
        c, db = chi.copy(), np.zeros(len(chi))
        with np.errstate(all="ignore"):
            loss, dv = pulled(c, weight, b, v, db)
        found.append((c, db, loss, dv))
    return found


@pytest.mark.parametrize("map", CLOSED_FORM)
@pytest.mark.parametrize("shape", [(8, 5, 1000), (1, 2, 9), (3, 7, pull.BLOCK), (2, 3, pull.BLOCK + 1)])
def test_it_is_the_formulas(map, shape):
    rng = np.random.default_rng(0)
    sizes = rng.choice([0.1, 3.0, 50.0, 1000.0], size=(1, 1, shape[-1]))  # from soft to one-hot
    one, other = both(map, sizes * rng.normal(size=shape), rng.normal(size=shape[0]))
    for expected, found in zip(one, other):
        np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)
    assert np.abs(other[0]).max() > 0


@pytest.mark.parametrize("map", CLOSED_FORM)
def test_what_is_not_finite_is_not_repaired(map):
    chi = np.zeros((2, 3, 5))
    chi[0, 1, 2] = np.nan
    (c, _, loss, _), (found, _, ours, _) = both(map, chi, np.zeros(2))
    assert np.isnan(loss)
    assert np.isnan(ours)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(c))
