"""Attention between shared rows: the compiled sums against attention at every place, in value and gradient."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softmaxlab.attention import MAPS, attend, feature_mlp
from softmaxlab.attention.attend import features_of
from softmaxlab.errors import SpecError
from softmaxlab.training import prefix_attention as rows
from softmaxlab.training.prefix_attention import attend_rows, pays_off

EXACT = 1e-10  # float64, sums of a dozen terms in another order, and the slopes of maps beside them
NAMES = sorted(name for name in MAPS if name != "uniform")


def case(B, T, H, d, R, seed):
    draw = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(R, H * d, dtype=torch.float64, generator=draw, requires_grad=True) for _ in range(3)]
    index = torch.randint(R, (B, T), generator=draw)
    place = torch.randperm(B * T, generator=draw)[: max(1, B * T * 3 // 4)]
    return tensors, index, place


def everywhere(map, tensors, H, index, place, bias, mlp=None):
    """Attention at all B·T places, and of that the results at `place`."""
    q, k, v = (x[index].unflatten(-1, (H, -1)).transpose(1, 2) for x in tensors)
    mask = torch.ones(index.shape[1], index.shape[1], dtype=torch.bool).tril()
    out, _ = attend(map, q, k, v, mask=mask, bias=bias, mlp=mlp)
    return out.transpose(1, 2).flatten(2).flatten(0, 1)[place]


@pytest.mark.parametrize("map", NAMES)
def test_every_map_as_at_every_place(map):
    H = 3
    tensors, index, place = case(B=4, T=7, H=H, d=5, R=9, seed=1)
    bias = torch.randn(H, dtype=torch.float64, requires_grad=True) if MAPS[map].takes_bias else None
    mlp = feature_mlp(5).double() if "mlp" in MAPS[map].parameters else None
    q, k, v = tensors
    features = [features_of(map, x.unflatten(-1, (H, -1)), mlp).flatten(-2) for x in (q, k)]
    found = attend_rows(map, *features, v, H, index, place, bias)
    plain = everywhere(map, tensors, H, index, place, bias, mlp)
    torch.testing.assert_close(found, plain, rtol=EXACT, atol=EXACT)
    variables = [*tensors, *([] if bias is None else [bias])]
    pull = torch.randn_like(plain)
    gradients = (torch.autograd.grad(out, variables, pull) for out in (found, plain))
    for one, other in zip(*gradients):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


@settings(deadline=None, max_examples=40)
@given(B=st.integers(1, 5), T=st.integers(1, 20), H=st.integers(1, 4), d=st.integers(1, 9), R=st.integers(1, 30))
def test_every_shape(B, T, H, d, R):
    tensors, index, place = case(B, T, H, d, R, seed=B + 7 * T)
    found, plain = (
        attend_rows("softmax", *tensors, H, index, place, None),
        everywhere("softmax", tensors, H, index, place, None),
    )
    torch.testing.assert_close(found, plain, rtol=EXACT, atol=EXACT)
    pull = torch.randn_like(plain)
    for one, other in zip(*(torch.autograd.grad(out, tensors, pull) for out in (found, plain))):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


def test_keys_that_are_hidden_may_hold_anything():
    tensors, index, place = case(B=1, T=5, H=1, d=2, R=5, seed=0)
    index, place = torch.arange(5)[None], torch.tensor([2])
    q, k, v = (x.detach().clone() for x in tensors)
    k[3:], v[3:] = torch.inf, torch.nan
    found = attend_rows("softmax", q, k, v, 1, index, place, None)
    torch.testing.assert_close(found, attend_rows("softmax", *tensors, 1, index, place, None))


@pytest.mark.parametrize(("row", "place"), [(5, 0), (0, 5), (-1, 0), (0, -1)])
def test_what_is_not_there_is_refused(row, place):
    x = torch.zeros(5, 2)
    with pytest.raises(SpecError, match="must be among 5 and 5"):
        attend_rows("softmax", x, x, x, 1, torch.full((1, 5), row), torch.tensor([place]), None)


def test_where_it_pays_off(monkeypatch):
    x, short, long = torch.zeros(2, 4), torch.zeros(1, 12), torch.zeros(1, rows.LONGEST + 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert pays_off(x, short)
    assert not pays_off(x, long)
    assert not pays_off(x.bfloat16(), short)
    assert not pays_off(x.to("meta"), short)
    with torch.autocast("cpu"):
        assert not pays_off(x, short)
    monkeypatch.setattr(torch, "get_num_threads", lambda: rows.THREADS + 1)
    assert not pays_off(x, short)
