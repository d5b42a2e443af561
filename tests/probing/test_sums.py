"""Sums over tiles do not depend on the tiles, on how heads share keys, or on the length of the sequence."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from softmaxlab.probing import watch
from softmaxlab.probing.streaming import call as calls
from softmaxlab.probing.streaming.call import AttentionCall
from softmaxlab.probing.streaming.fast import fast_sums
from softmaxlab.probing.streaming.sums import sums_of
from softmaxlab.probing.streaming.tiles import softmax_tile, weights_tile
from softmaxlab.probing.streaming.tracker import SequenceLayout
from tests.probing.families import build

AGREES = 1e-5  # float32 scores, per query
LONG = 2048
SHARES = ("sparsity", "sink", "entropy", "entropy_normalised", "effective_keys", "keys_above", "total")


def place_of(real: torch.Tensor, rows: int) -> SequenceLayout:
    start = real.shape[1] - rows
    return SequenceLayout(real[:, start:], real.int().argmax(dim=-1), real, real, 0, start, None)


def sums(call: AttentionCall, layout: SequenceLayout) -> dict[str, torch.Tensor]:
    return sums_of(call, layout, lambda rows, keys, counted: softmax_tile(call, rows, keys, layout.first, counted))[0]


def random_call(seed: int, heads: int, groups: int, rows: int, keys: int, masked: bool, learned: bool) -> AttentionCall:
    draw = torch.Generator().manual_seed(seed)
    q = 2 * torch.randn(2, heads * groups, rows, 4, generator=draw)
    k, v = torch.randn(2, 2, heads, keys, 4, generator=draw)
    mask = torch.rand(2, 1, rows, keys, generator=draw) < 0.7 if masked else None
    sink = torch.randn(heads * groups, generator=draw) if learned else None
    return AttentionCall(torch.nn.Identity(), q, k, v, mask, 0.5, causal=not masked and rows == keys, sink=sink)


calls_of_all_kinds = st.builds(
    lambda seed, heads, groups, rows, more, masked, learned: random_call(
        seed, heads, groups, rows, rows + more, masked, learned
    ),
    st.integers(0, 99), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.integers(0, 4), st.booleans(),
    st.booleans(),
)  # fmt: skip


@given(calls_of_all_kinds, st.integers(1, 400))
def test_tiles_do_not_matter(call, tile):
    layout = place_of(torch.ones(2, call.lengths[1], dtype=torch.bool), call.lengths[0])
    whole = sums(call, layout)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "TILE", tile)
        parts = sums(call, layout)
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=AGREES, atol=AGREES, msg=name)


@given(calls_of_all_kinds)
def test_shared_keys_are_as_copied_ones(call):
    layout = place_of(torch.ones(2, call.lengths[1], dtype=torch.bool), call.lengths[0])
    k, v = (x.repeat_interleave(call.groups, dim=1) for x in (call.k, call.v))
    copied = AttentionCall(call.module, call.q, k, v, call.mask, call.scale, call.causal, sink=call.sink)
    expected, found = sums(copied, layout), sums(call, layout)
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=AGREES, atol=AGREES, msg=name)


@given(calls_of_all_kinds)
def test_softmax_rows_are_rows_of_its_weights(call):
    rows, keys = call.lengths
    if call.mask is not None:
        call.mask[..., 0] = True  # a row that sees nothing is no distribution
    χ = call.scores(slice(0, rows), keys).double()
    if call.sink is not None:
        χ = torch.cat([χ, call.sink.double()[:, None, None].expand(*χ.shape[:-1], 1)], dim=-1)
    w = χ.softmax(dim=-1)[..., :keys]
    first, counted = torch.tensor([0, min(1, keys - 1)]), torch.ones(2, rows)
    found = softmax_tile(call, slice(0, rows), keys, first, counted)
    expected = weights_tile(w, first, counted.double(), leaks_weight=call.sink is not None)
    for name in ("total", "peak", "first", "entropy", "effective_keys", "columns"):
        torch.testing.assert_close(getattr(found, name).double(), getattr(expected, name), rtol=AGREES, atol=AGREES)


def test_float32_holds_over_long_sequences():
    """Sums over 2048 queries of up to 2048 keys, against float64 throughout."""
    call = random_call(0, 2, 2, LONG, LONG, masked=False, learned=False)
    layout = place_of(torch.ones(2, LONG, dtype=torch.bool), LONG)
    exact = AttentionCall(call.module, call.q.double(), call.k.double(), call.v.double(), None, 0.5, causal=True)
    found, expected, (fast, _, _) = sums(call, layout), sums(exact, layout), fast_sums(call, layout)
    for name in SHARES:
        size = expected[name].abs().clamp(min=LONG)
        assert ((found[name] - expected[name]) / size).abs().max() < AGREES, name
        if name in fast:
            assert ((fast[name] - expected[name]) / size).abs().max() < AGREES, name
    torch.testing.assert_close(found["columns"], expected["columns"], rtol=AGREES, atol=AGREES)
    np.testing.assert_allclose(found["columns"].sum(dim=-1), LONG, rtol=1e-6)


def test_wrong_scale_would_be_noticed():
    call = random_call(0, 2, 1, 9, 9, masked=False, learned=False)
    other = AttentionCall(call.module, call.q, call.k, call.v, None, 0.5001, causal=True)
    layout = place_of(torch.ones(2, 9, dtype=torch.bool), 9)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(sums(call, layout)["entropy"], sums(other, layout)["entropy"], rtol=AGREES)


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that an operation gave."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(value, torch.Tensor):
                self.bytes = max(self.bytes, value.untyped_storage().nbytes())
        return out


@pytest.mark.parametrize("statistics", ["full", "fast"])
def test_no_tensor_grows_with_the_square_of_the_length(statistics, monkeypatch):
    monkeypatch.setattr(calls, "TILE", 1 << 12)
    model, largest = build("llama"), {}
    for length in (128, 256):
        with torch.no_grad(), watch(model, statistics=statistics), Largest() as seen:
            model.model(input_ids=torch.zeros(1, length, dtype=torch.long), use_cache=False)
        largest[length] = seen.bytes
    assert largest[256] <= 2.1 * largest[128]
    assert largest[256] < 4 * 4 * 256 * 256  # the weights of one layer: 4 heads in float32


def test_negative_and_empty_rows_of_any_map():
    w = torch.tensor([[[[0.0, 0.0], [2.0, -1.0]]]])
    found = weights_tile(w, torch.tensor([0]), torch.ones(1, 2))
    np.testing.assert_allclose(found.total[0, 0], [0, 1])
    np.testing.assert_allclose(found.effective_keys[0, 0, 1], 9 / 5)
    np.testing.assert_allclose(found.entropy[0, 0, 1], np.log(3) - 2 / 3 * np.log(2), rtol=1e-6)


def test_one_token():
    model = build("gpt2")
    with torch.no_grad(), watch(model) as w:
        model(input_ids=torch.tensor([[5]]))
    table = w.report()
    assert (table["sparsity"] == 1).all()
    assert (table["entropy"] == 0).all()
    assert table["sparsity_se"].isna().all()
