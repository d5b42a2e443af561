"""The laws of attention maps, run over every registered map: a new map is tested by being registered."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from softmaxlab.attention import MAPS, attend, names, weights
from softmaxlab.errors import SpecError
from tests.laws import reference
from tests.laws.cases import Case, case, random_mask

# float64 sums of at most a few dozen terms of order 1: about 1e-15 each, and the same again for the reference
EXACT = {"rtol": 1e-11, "atol": 1e-13}
# as above, where one route divides by a sum that may nearly cancel (signed maps)
CANCELLING = {"rtol": 1e-9, "atol": 1e-11}
SHAPE = (2, 3, 4, 5)
BIAS = (-1.0, 0.5, 2.0)  # one per head
SCORE_MAPS = [name for name in names() if MAPS[name].features is None]

PAPERS_MAPS = {
    *("softmax", "softmax1", "bayes_softmax", "sigmoid", "sigmoid_norm", "elu", "elu_norm", "elu_elu", "elu_elu_norm"),
    *(
        "mlp",
        "mlp_norm",
        "linear",
        "linear_norm",
        "sum",
        "relu",
        "relu_norm",
        "square",
        "square_norm",
        "abs",
        "abs_norm",
    ),
    *("sparsemax", "entmax15", "uniform"),
}

for_every_map = pytest.mark.parametrize("name", names())
for_score_maps = pytest.mark.parametrize("name", SCORE_MAPS)
shapes = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 7))
seeds = st.integers(0, 2**31)


def assert_same(a, b, name):
    assert_close(a, b, **(EXACT if MAPS[name].non_negative else CANCELLING))


@for_every_map
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_shape_and_dtype_are_kept(name, dtype):
    w = case(name, SHAPE).cast(dtype).weights()
    assert w.shape == SHAPE
    assert w.dtype == dtype


@for_score_maps
def test_float32_agrees_with_float64(name):
    narrow = case(name, SHAPE).cast(torch.float32)
    # the inputs are rounded first, so only the map's own error is seen: a hundred roundings of 1e-7
    assert_close(narrow.weights().double(), narrow.cast(torch.float64).weights(), rtol=1e-5, atol=1e-5)


@for_every_map
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32_and_rounded_once(name, dtype):
    narrow = case(name, SHAPE).cast(dtype)
    if narrow.mlp is not None:
        pytest.skip("the feature network is the user's, and computes in its own type")
    wide = narrow.cast(torch.float32) if MAPS[name].features is None else _wide_features(narrow)
    assert torch.equal(narrow.weights(), wide.weights().to(dtype))


def _wide_features(narrow):
    """Features are taken in the narrow type, everything after them in float32."""
    features = tuple(MAPS[narrow.name].features(x).float() for x in narrow.inputs)
    return Case("linear" if narrow.name == "elu_elu" else "abs_norm", (_scores(*features),))


def _scores(q, k):
    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5


def test_attend_does_not_overflow_in_float16():
    q = torch.full((1, 2, 64), 40.0, dtype=torch.float16)
    out, w = attend("softmax", q, q, q)
    assert w.tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    assert out.isfinite().all()


@for_score_maps
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_score_that_is_not_a_number_is_a_result_not_an_exception(name, value):
    scores = case(name, SHAPE).inputs[0]
    scores[0, 0, 0, 0] = value
    w = weights(name, scores)
    untouched = w[1] if MAPS[name].joint else w[0, 0, 1]
    assert untouched.isfinite().all()
    assert name == "uniform" or value == torch.inf or w[0, 0, 0].isnan().any()


@for_score_maps
def test_no_keys_and_no_queries(name):
    for shape in ((2, 3, 0), (2, 0, 3)):
        assert weights(name, torch.zeros(shape)).shape == shape


@pytest.mark.parametrize("name", ["relu_norm", "square_norm", "abs_norm"])
def test_homogeneous_maps_do_not_feel_the_scale_of_the_type(name):
    scores = case(name, SHAPE).inputs[0].float()
    for scale in (1e-19, 1e18):
        assert_close(weights(name, scores * scale), weights(name, scores), rtol=1e-5, atol=1e-6)


def test_a_sum_of_exactly_zero_attends_nowhere():
    scores = torch.tensor([[[1.0, -1.0], [1.0, 1.0]]], requires_grad=True)
    w = weights("sum", scores)
    assert w.tolist() == [[[0.0, 0.0], [0.5, 0.5]]]
    w.square().sum().backward()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize(("name", "slope"), [("elu", 1.0), ("sigmoid", 0.25), ("softmax", 0.25), ("linear", 1.0)])
def test_gradients_at_score_zero(name, slope):
    """Where a random score never is, but a zero-initialised layer starts. Two keys: softmax' = s(1 − s) = 1/4."""
    scores = torch.zeros(1, 1, 2, dtype=torch.float64, requires_grad=True)
    weights(name, scores)[0, 0, 0].backward()
    assert scores.grad[0, 0, 0] == pytest.approx(slope)


@for_every_map
@given(shape=shapes, seed=seeds)
def test_hidden_keys_are_as_if_absent(name, shape, seed):
    this = case(name, shape, seed)
    visible = torch.rand(shape[-1], generator=torch.Generator().manual_seed(seed)) > 0.5
    w = this.weights(mask=visible)
    assert (w[..., ~visible] == 0).all()
    if visible.any():
        assert_same(w[..., visible], this.weights(inputs=this.with_keys(visible)), name)


@for_score_maps
def test_hidden_scores_may_be_anything(name):
    this, mask = case(name, SHAPE), random_mask(SHAPE)
    expected = this.weights(mask)
    for garbage in (torch.nan, torch.inf, -torch.inf, 1e30):
        scores = this.inputs[0].masked_fill(~mask, garbage).requires_grad_()
        bias = torch.zeros(SHAPE[1], dtype=torch.float64, requires_grad=True) if MAPS[name].takes_bias else None
        w = weights(name, scores, mask=mask, bias=bias)
        assert_close(w, expected, rtol=0, atol=0)
        if w.requires_grad:
            w.square().sum().backward()
            assert (scores.grad[~mask] == 0).all()
            assert bias is None or bias.grad.isfinite().all()


@for_every_map
def test_a_row_without_visible_keys_attends_nowhere(name):
    this = case(name, SHAPE)
    inputs = tuple(x.requires_grad_() for x in this.inputs)
    w = this.weights(random_mask(SHAPE), inputs)
    assert (w[..., 0, :] == 0).all()
    if w.requires_grad:
        for gradient in torch.autograd.grad(w.square().sum(), inputs):
            assert gradient.isfinite().all()


@for_score_maps
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("masked", [False, True])
def test_huge_scores_give_finite_weights_and_gradients(name, dtype, masked):
    signs = torch.where(case(name, SHAPE).inputs[0] > 0, 1.0, -1.0)
    signs[..., 1, :] = -1.0  # one row all hugely negative
    scores = (1e4 * signs).to(dtype).requires_grad_()
    w = weights(name, scores, mask=random_mask(SHAPE) if masked else None)
    assert w.isfinite().all()
    if w.requires_grad:
        w.float().sum().backward()
        assert scores.grad.isfinite().all()


@for_every_map
def test_a_single_key(name):
    this = case(name, (2, 2, 3, 1))
    w = this.weights()
    assert w.isfinite().all()
    if MAPS[name].row_stochastic:
        assert_same(w, torch.ones_like(w), name)


@for_every_map
@given(shape=shapes, seed=seeds)
def test_keys_are_equivariant(name, shape, seed):
    this = case(name, shape, seed)
    order = torch.randperm(shape[-1], generator=torch.Generator().manual_seed(seed))
    assert_same(this.weights(inputs=this.with_keys(order)), this.weights()[..., order], name)


@for_every_map
def test_samples_do_not_feel_each_other(name):
    this = case(name, SHAPE)
    for i in range(SHAPE[0]):
        alone = this.weights(inputs=tuple(x[i] for x in this.inputs))
        assert_same(alone, this.weights()[i], name)


@for_every_map
def test_heads_are_joint_exactly_if_declared(name):
    this = case(name, SHAPE)
    alone = this.weights(inputs=tuple(x[..., :1, :, :] for x in this.inputs))
    together = this.weights()[..., :1, :, :]
    if MAPS[name].joint:
        assert (alone - together).abs().max() > 1e-3
        assert_same(together_mean(this), torch.ones(SHAPE[0], SHAPE[2], dtype=torch.float64), name)
    else:
        assert_same(alone, together, name)


def together_mean(this):
    return this.weights().mean(dim=-3).sum(dim=-1)


@for_every_map
@given(shape=shapes, seed=seeds, scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_declared_sign_and_row_sums_hold(name, shape, seed, scale):
    w = case(name, shape, seed, scale).weights()
    if MAPS[name].non_negative:
        assert (w >= 0).all()
    if MAPS[name].row_stochastic:
        assert_same(w.sum(dim=-1), torch.ones(shape[:-1], dtype=torch.float64), name)


@for_every_map
def test_facts_not_declared_do_not_hold(name):
    """A fact declared False has a counterexample, so what is declared is exactly what holds."""
    w = case(name, (50, 2, 5, 2)).weights()
    assert (w < 0).any() or MAPS[name].non_negative
    assert ((w.sum(dim=-1) - 1).abs() > 1e-6).any() or MAPS[name].row_stochastic


@for_score_maps
@given(shape=shapes, seed=seeds, shift=st.floats(-20, 20))
def test_shift_invariance_holds_if_declared(name, shape, seed, shift):
    this = case(name, shape, seed)
    if MAPS[name].shift_invariant:
        assert_same(this.weights(inputs=(this.inputs[0] + shift,)), this.weights(), name)


@for_score_maps
def test_shift_invariance_fails_if_not_declared(name):
    this = case(name, SHAPE)
    row_by_row = torch.randn((*SHAPE[:-1], 1), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moved = (this.weights(inputs=(this.inputs[0] + row_by_row,)) - this.weights()).abs().max()
    assert (moved > 1e-3) != MAPS[name].shift_invariant


@for_every_map
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_match_finite_differences(name, masked):
    this = case(name, (2, 3, 4))
    inputs = tuple(x.requires_grad_() for x in this.inputs)
    mask = random_mask((2, 3, 4)) if masked else None
    w = this.weights(mask, inputs)
    if not w.requires_grad:  # uniform: constant weights
        assert name == "uniform"
        return
    assert torch.autograd.gradcheck(lambda *x: this.weights(mask, x), inputs)


@for_score_maps
def test_bias_is_per_head_or_refused(name):
    scores = case(name, SHAPE).inputs[0]
    if not MAPS[name].takes_bias:
        with pytest.raises(SpecError, match="takes no bias"):
            weights(name, scores, bias=1.0)
        return
    b = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    w = weights(name, scores, bias=b)
    if not MAPS[name].joint:
        for head in range(3):
            one = weights(name, scores[:, head : head + 1], bias=b[head].item())
            assert_same(w[:, head : head + 1], one, name)
    (gradient,) = torch.autograd.grad(w.square().sum(), b)
    assert (gradient.abs() > 0).all()


def test_every_map_of_the_papers_has_its_formula_written_twice():
    assert len(PAPERS_MAPS) == 23
    assert reference.ROWS.keys() | reference.JOINT_ROWS.keys() >= PAPERS_MAPS
    assert set(names()) >= PAPERS_MAPS


@pytest.mark.parametrize("name", [*reference.ROWS, *reference.JOINT_ROWS])
@pytest.mark.parametrize("masked", [False, True])
def test_agreement_with_the_formula(name, masked):
    this = case(name, SHAPE, scale=1.5)
    mask = random_mask(SHAPE) if masked else torch.ones(SHAPE, dtype=torch.bool)
    scores = this.inputs[0] if MAPS[name].features is None else _scores_of_features(this)
    expected = torch.zeros(SHAPE, dtype=torch.float64)
    rows = _joint_rows if MAPS[name].joint else _plain_rows
    for index in rows(mask):
        function = reference.JOINT_ROWS[name] if MAPS[name].joint else reference.ROWS[name]
        row = function(scores[index].tolist(), *_bias_of(name, index))
        expected[index] = torch.tensor(row, dtype=torch.float64) * (SHAPE[1] if MAPS[name].joint else 1)
    if MAPS[name].takes_bias:
        assert_same(
            weights(name, this.inputs[0], mask=mask, bias=torch.tensor(BIAS, dtype=torch.float64)), expected, name
        )
    else:
        assert_same(this.weights(mask), expected, name)


def _bias_of(name, index):
    """The bias of a row's head, or of each entry of a joint row; nothing for maps without one."""
    if not MAPS[name].takes_bias:
        return ()
    return ([BIAS[head] for head in index[1].tolist()],) if MAPS[name].joint else (BIAS[index[1]],)


def _plain_rows(mask):
    for lead in torch.cartesian_prod(*map(torch.arange, SHAPE[:-1])).tolist():
        keys = mask[tuple(lead)].nonzero()[:, 0]
        if len(keys):
            yield (*lead, keys)


def _joint_rows(mask):
    for sample, query in torch.cartesian_prod(torch.arange(SHAPE[0]), torch.arange(SHAPE[2])).tolist():
        head, key = mask[sample, :, query].nonzero(as_tuple=True)
        if len(key):
            yield (sample, head, query, key)


def _scores_of_features(this):
    q, k = this.inputs
    if "mlp" in MAPS[this.name].parameters:
        phi_q, phi_k = this.mlp(q), this.mlp(k)
    else:
        phi_q, phi_k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    return torch.einsum("nhqd,nhkd->nhqk", phi_q, phi_k) / q.shape[-1] ** 0.5


@for_every_map
def test_attend_is_weights_times_values(name):
    draw = torch.Generator().manual_seed(3)
    q, k, v = torch.randn((3, 2, 3, 5, 6), generator=draw, dtype=torch.float64)
    mlp = case(name, SHAPE).mlp
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    out, w = attend(name, q, k, v, mask=mask, mlp=mlp)
    assert_close(out, torch.einsum("nhqk,nhkd->nhqd", w, v))
    if MAPS[name].features is None:
        assert_same(w, weights(name, torch.einsum("nhqd,nhkd->nhqk", q, k) / 6**0.5, mask=mask), name)
