"""The oracle for kernels: right ones pass, and each kind of mistake is seen in the case that is made for it."""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from softmaxlab.attention import attend, check_attention
from softmaxlab.attention.check import CASES, TOLERANCES
from softmaxlab.errors import SpecError

FAST = {"dtypes": [torch.float64, torch.float32]}
EVERY = {case.name for case in CASES}


def sdpa(q, k, v, mask, bias):
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=k.shape[1] < q.shape[1])


def dense(map):
    """The definition itself, in the type that it is given."""

    def kernel(q, k, v, mask, bias):
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        return attend(map, q, k, v, mask, bias)[0]

    return kernel


def softmax1(q, k, v, mask, bias, shift=True, b_scale=1.0):
    """softmax-1 by hand, with switches for mistakes."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    b = b_scale * bias[:, None, None]
    χ = q @ k.mT / math.sqrt(q.shape[-1])
    χ = χ if mask is None else χ.masked_fill(~mask, -math.inf)
    m = torch.maximum(χ.amax(dim=-1, keepdim=True), b).detach() if shift else 0.0
    e = (χ - m).exp()
    return (e / (e.sum(dim=-1, keepdim=True) + (b - m).exp())) @ v


def wrong(table) -> set[str]:
    return set(table.loc[~table["ok"], "case"])


@pytest.mark.parametrize("map", ["softmax", "softmax1", "sigmoid", "sparsemax", "bayes_softmax", "elu_elu_norm"])
def test_the_definition_passes(map):
    table = check_attention(dense(map), map, **FAST)
    assert wrong(table) == set(), table[~table["ok"]]
    assert set(table["case"]) == EVERY
    tensors = {"output", "dq", "dk", "dv"} | ({"dbias"} if map in ("softmax1", "sigmoid", "bayes_softmax") else set())
    assert set(table["tensor"]) == tensors


def test_torchs_own_kernel_passes_in_every_type():
    table = check_attention(sdpa, "softmax", dtypes=list(TOLERANCES))
    assert wrong(table) == set(), table[~table["ok"]]


def test_softmax1_by_hand_passes_and_its_mistakes_are_seen():
    assert wrong(check_attention(softmax1, "softmax1", **FAST)) == set()
    dropped = wrong(check_attention(lambda q, k, v, mask, bias: sdpa(q, k, v, mask, None), "softmax1", **FAST))
    assert dropped >= EVERY - {"large positive offset"}  # there the sink has no weight
    assert "plain" in wrong(check_attention(lambda *x: softmax1(*x, b_scale=0.0), "softmax1", **FAST))
    unbiased = check_attention(lambda *x: softmax1(*x, b_scale=0.0), "softmax1", bias=False, gradients=False, **FAST)
    assert wrong(unbiased) == set()
    unshifted = wrong(check_attention(lambda *x: softmax1(*x, shift=False), "softmax1", dtypes=[torch.float32]))
    assert unshifted
    assert unshifted <= {"large positive offset", "sharp scores"}


def test_masks_that_are_passed_over_are_seen_where_there_is_one():
    masked = {case.name for case in CASES if case.mask != "none"}
    assert wrong(check_attention(lambda q, k, v, mask, bias: sdpa(q, k, v, None, None), "softmax", **FAST)) == masked


def test_empty_rows_must_give_nothing():
    def kernel(q, k, v, mask, bias):
        return softmax1(q, k, v, mask, torch.full((4,), -math.inf).to(q))  # 0/0 where nothing is visible

    assert wrong(check_attention(kernel, "softmax", **FAST)) == {"empty rows", "GQA with empty rows"}


def test_a_wrong_gradient_is_seen_where_values_are_right():
    def half(q, k, v, mask, bias):
        return sdpa(q, k, 0.5 * v + 0.5 * v.detach(), mask, bias)

    table = check_attention(half, "softmax", dtypes=[torch.float64])
    assert set(table.loc[~table["ok"], "tensor"]) == {"dv"}
    assert check_attention(half, "softmax", dtypes=[torch.float64], gradients=False)["ok"].all()


def test_a_kernel_that_fails_or_gives_another_shape_is_a_row():
    def fails(q, k, v, mask, bias):
        raise RuntimeError("no such\nkernel")

    table = check_attention(fails, cases=["plain"], dtypes=[torch.float32])
    assert (table["note"].tolist(), table["ok"].tolist()) == (["RuntimeError: no such kernel"], [False])
    table = check_attention(lambda q, k, v, mask, bias: q[:, :1], cases=["plain"], gradients=False)
    assert not table["ok"].any()
    assert "expected (2, 4, 24, 16)" in table["note"][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"map": "softmx"}, "softmax"),
        ({"cases": ["plane"]}, "plain"),
        ({"dtypes": [torch.int8]}, "int8"),
        ({"map": "mlp"}, "feature network"),
    ],
)
def test_bad_input_is_one_line(options, message):
    with pytest.raises(SpecError, match=message) as caught:
        check_attention(sdpa, **options)
    assert "\n" not in str(caught.value)
