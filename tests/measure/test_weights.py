import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from softmaxlab import attention, measure
from softmaxlab.errors import SpecError

# a few dozen float64 operations
EXACT = {"rtol": 1e-12, "atol": 1e-12}
SHAPE = (2, 3, 6, 5)


def pattern(map="softmax", seed=0, shape=SHAPE):
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return attention.weights(map, scores)


@pytest.mark.parametrize("map", ["softmax", "sigmoid", "softmax1"])
def test_against_the_definitions_row_by_row(map):
    w = pattern(map).numpy()
    got = {name: getattr(measure, name)(w) for name in ("entropy", "sparsity", "effective_keys", "total")}
    for n, h in np.ndindex(2, 3):
        p = [row / row.sum() for row in w[n, h]]
        assert got["entropy"][n, h] == pytest.approx(np.mean([-(r * np.log(r)).sum() for r in p]))
        assert got["sparsity"][n, h] == pytest.approx(np.mean([r.max() for r in p]))
        assert got["effective_keys"][n, h] == pytest.approx(np.mean([1 / (r * r).sum() for r in p]))
        assert got["total"][n, h] == pytest.approx(np.mean([row.sum() for row in w[n, h]]))


def test_known_values():
    uniform, one_hot = np.full((1, 2, 4), 0.25), np.eye(4)[None, :2]
    assert measure.entropy(uniform) == pytest.approx([np.log(4)])
    assert measure.entropy(uniform, normalised=True) == pytest.approx([1.0])
    assert measure.effective_keys(uniform) == pytest.approx([4.0])
    assert measure.entropy(one_hot).tolist() == [0.0]
    assert measure.sparsity(one_hot).tolist() == [1.0]
    assert measure.effective_keys(one_hot).tolist() == [1.0]


def test_normalised_entropy_counts_visible_keys():
    visible = torch.ones(4, 4, dtype=torch.bool).tril()
    w = attention.weights("uniform", torch.zeros(1, 4, 4, dtype=torch.float64), mask=visible)
    # rows of 1, 2, 3, 4 visible keys: 0 for the single key, 1 for the others
    assert_close(measure.entropy(w, normalised=True, visible=visible), torch.tensor([0.75], dtype=torch.float64))


def test_rows_that_do_not_count_are_left_out():
    w = pattern()
    padded = torch.cat([w, torch.zeros_like(w[..., :2, :])], dim=-2)
    where = torch.arange(8) < 6
    for name in ("entropy", "sparsity", "effective_keys", "total"):
        assert_close(getattr(measure, name)(padded, where=where), getattr(measure, name)(w), **EXACT)


def test_an_empty_row_is_nan_not_a_number_made_up():
    w = pattern()
    w[..., 0, :] = 0
    assert measure.sparsity(w).isnan().all()
    assert measure.entropy(w).isnan().all()


@given(st.sampled_from(["softmax", "sparsemax", "sigmoid", "uniform"]), st.integers(0, 10**6), st.integers(1, 9))
def test_bounds(map, seed, keys):
    w = pattern(map, seed, (2, 3, keys))
    slack = 1e-12
    assert (measure.entropy(w) <= np.log(keys) + slack).all()
    assert (measure.sparsity(w) >= 1 / keys - slack).all()
    assert (measure.sparsity(w) <= 1 + slack).all()
    effective = measure.effective_keys(w)
    assert ((effective >= 1 - slack) & (effective <= keys + slack)).all()


def test_tensors_keep_their_kind_and_gradient():
    w = pattern().requires_grad_()
    measure.entropy(w).sum().backward()
    assert w.grad.isfinite().all()
    assert isinstance(measure.entropy(w.detach().numpy()), np.ndarray)


def test_signed_weights():
    w = np.array([[[2.0, -1.0, 1.0]]])
    p = np.array([0.5, 0.25, 0.25])
    assert measure.entropy(w) == pytest.approx([-(p * np.log(p)).sum()])
    assert measure.effective_keys(w) == pytest.approx([1 / (p * p).sum()])
    assert measure.sparsity(w) == pytest.approx([1.0])  # max 2 over total 2, as the paper prints it
    assert measure.sparsity(-w) == pytest.approx([-0.5])


@pytest.mark.parametrize("map", ["softmax", "sparsemax"])
def test_entropy_has_a_gradient_where_weights_are_zero(map):
    scores = torch.randn(1, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    measure.entropy(attention.weights(map, scores, mask=causal)).sum().backward()
    assert scores.grad.isfinite().all()


def test_where_per_sample_is_the_same_for_every_head():
    w = pattern(shape=(2, 2, 4, 5))  # as many samples as heads, so that a slip would be silent
    where = torch.tensor([[True, True, True, True], [True, False, False, False]])
    got = measure.sparsity(w, where=where)
    assert_close(got[0], measure.sparsity(w)[0], **EXACT)
    assert_close(got[1], w[1, :, 0].amax(-1), **EXACT)


def test_arguments_of_any_kind():
    w = pattern()
    where = np.arange(6) < 3
    assert_close(measure.entropy(weights=w, where=where), measure.entropy(w[..., :3, :]), **EXACT)
    big_endian = w.numpy().astype(">f8")
    np.testing.assert_array_equal(measure.total(big_endian), measure.total(w.numpy()))


def test_masks_must_be_boolean():
    with pytest.raises(SpecError, match="visible must be boolean"):
        measure.entropy(pattern(), normalised=True, visible=torch.ones(5))
    with pytest.raises(SpecError, match="where must be boolean"):
        measure.entropy(pattern(), where=torch.ones(6))


def test_bad_weights_are_refused():
    with pytest.raises(SpecError, match="weights must be"):
        measure.entropy(np.zeros((2, 2)))
    with pytest.raises(SpecError, match="int64"):
        measure.entropy(np.zeros((2, 2, 2), dtype=int))
