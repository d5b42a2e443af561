"""An oracle for people who write attention kernels: `check_attention(fn, "softmax1")`.

Values and gradients of `fn(q, k, v, mask, bias)` are compared with the dense definition of a map, computed in float64
from the same inputs, over the cases in which kernels go wrong: masks, rows that see nothing, large offsets of the
scores, groups of heads that share keys (GQA), odd lengths, and half precision.

The error of a tensor is max|x − x*| / max(1, max|x*|), and what is allowed depends on the type alone (TOLERANCES). A
non-finite entry is an infinite error.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softmaxlab.attention.attend import attend
from softmaxlab.attention.registry import MAPS
from softmaxlab.errors import SpecError, unknown

if TYPE_CHECKING:
    import pandas

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None], Tensor]

# Of the largest entry. Inputs are rounded to the type before the reference sees them, so only the kernel's own sums
# count: some hundred roundings of float32; in half precision some twenty (of 2⁻⁸, 2⁻¹¹), since weights are rounded too.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 8e-2, torch.float16: 1e-2}
OFFSET = 80.0  # added to all scores of a query: e^80 overflows float16, e^160 float32
HEADS, WIDTH = 4, 16
COLUMNS = ("case", "dtype", "tensor", "error", "allowed", "ok", "note")


@dataclass(frozen=True)
class Case:
    """One kind of input: lengths, heads that share a key, what is hidden, and how large scores are."""

    name: str
    queries: int = 24
    keys: int = 24
    groups: int = 1  # query heads that share a key head
    mask: str = "none"  # none, causal, padding, window, empty
    offset: float = 0.0
    scale: float = 1.0  # of the scores


CASES = (
    Case("plain"),
    Case("odd lengths", queries=17, keys=31),
    Case("one query", queries=1, keys=33),
    Case("causal", mask="causal"),
    Case("padding", mask="padding"),
    Case("sliding window", queries=32, keys=32, mask="window"),
    Case("empty rows", mask="empty"),
    Case("large positive offset", offset=OFFSET),
    Case("large negative offset", offset=-OFFSET),
    Case("sharp scores", scale=30.0, mask="causal"),
    Case("GQA", groups=2, mask="causal"),
    Case("GQA with empty rows", groups=2, mask="empty"),
)


def check_attention(
    fn: Kernel,
    map: str = "softmax",
    *,
    bias: bool = True,
    dtypes: Sequence[torch.dtype] = (torch.float64, torch.float32, torch.bfloat16),
    cases: Iterable[str] | None = None,
    gradients: bool = True,
    device: str | torch.device = "cpu",
    seed: int = 0,
) -> "pandas.DataFrame":
    """Return a row per case, dtype and tensor: the largest difference from the dense definition, and if it is allowed.

    `fn(q, k, v, mask, bias)` gets q [2, 4, query, 16], k and v [2, 4 or 2, key, 16] (query head h reads key head h//2
    where there are two), a boolean mask [2, 1, query, key] (True = visible) or None, and for maps with a bias b [4] (0
    if `bias` is False; None for the others). It returns the output [2, 4, query, 16] with scores q·k/√16; rows that see
    no key must give 0. `cases` are names of CASES; all if None.
    """
    entry = MAPS[map]
    if "mlp" in entry.parameters:
        raise SpecError(f"map {map!r} needs its feature network, so there is no single reference to check against")
    known = {case.name: case for case in CASES}
    chosen = list(known if cases is None else cases)
    for name in chosen:
        if name not in known:
            raise unknown("case", name, known)
    for dtype in dtypes:
        if dtype not in TOLERANCES:
            raise unknown("dtype", str(dtype), [str(known_dtype) for known_dtype in TOLERANCES])
    rows = []
    for i, name in enumerate(chosen):
        for dtype in dtypes:
            draw = torch.Generator().manual_seed(seed + 1000 * i)
            inputs = _Inputs.draw(known[name], dtype, device, draw, bias if entry.takes_bias else None)
            rows += _compared(fn, map, inputs, gradients)
    from pandas import DataFrame

    return DataFrame(rows, columns=list(COLUMNS))


@dataclass(frozen=True, eq=False)
class _Inputs:
    case: Case
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    bias: Tensor | None
    upstream: Tensor  # gradient of the output

    @classmethod
    def draw(
        cls, case: Case, dtype: torch.dtype, device: str | torch.device, draw: torch.Generator, bias: bool | None
    ) -> "_Inputs":
        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=draw, dtype=torch.float64)

        q, k = normal(2, HEADS, case.queries, WIDTH), normal(2, HEADS // case.groups, case.keys, WIDTH)
        v, upstream = normal(2, HEADS // case.groups, case.keys, WIDTH), normal(2, HEADS, case.queries, WIDTH)
        q = q * case.scale
        if case.offset:  # the first coordinate adds the same number to all scores
            q[..., 0], k[..., 0] = math.copysign(abs(case.offset) ** 0.5, case.offset) * 2, abs(case.offset) ** 0.5 * 2
        b = None if bias is None else normal(HEADS) if bias else torch.zeros(HEADS, dtype=torch.float64)
        mask = _mask(case)
        to = {"dtype": dtype, "device": device}
        b = None if b is None else b.to(**to)
        mask = None if mask is None else mask.to(device)
        return cls(case, q.to(**to), k.to(**to), v.to(**to), mask, b, upstream.to(**to))

    def leaves(self, dtype: torch.dtype, gradients: bool) -> dict[str, Tensor]:
        """Copies of the inputs, of which gradients may be taken."""
        named = {"q": self.q, "k": self.k, "v": self.v} | ({} if self.bias is None else {"bias": self.bias})
        return {name: x.detach().to(dtype).requires_grad_(gradients) for name, x in named.items()}


def _mask(case: Case) -> Tensor | None:
    """Visible keys [2, 1, query, key]."""
    query, key = torch.arange(case.queries)[:, None], torch.arange(case.keys)
    causal = key <= query + (case.keys - case.queries)
    visible = {"causal": causal, "window": causal & (key > query - 7), "padding": key < case.keys - 5}
    if case.mask == "none":
        return None
    mask = visible.get(case.mask, causal).expand(case.queries, case.keys).expand(2, 1, -1, -1).clone()
    if case.mask == "padding":
        mask[1] = True  # the second sequence has none
    if case.mask == "empty":
        mask[0, :, 3] = False
        mask[1, :, :5] = False
    return mask


def _compared(fn: Kernel, map: str, inputs: _Inputs, gradients: bool) -> Iterator[dict]:
    dtype = inputs.q.dtype
    expected = dict(_run(_reference(map, inputs.case.groups), inputs, torch.float64, gradients))
    about = {"case": inputs.case.name, "dtype": str(dtype).removeprefix("torch."), "allowed": TOLERANCES[dtype]}
    try:
        computed = dict(_run(fn, inputs, dtype, gradients))
    except Exception as error:  # the user's kernel may fail in any way, and that is a finding
        note = " ".join(f"{type(error).__name__}: {error}".split())
        return iter([about | {"tensor": "output", "error": math.inf, "ok": False, "note": note}])
    rows = []
    for name, right in expected.items():
        error, note = _error(computed.get(name), right)
        rows.append(about | {"tensor": name, "error": error, "ok": error <= TOLERANCES[dtype], "note": note})
    return iter(rows)


def _run(fn: Kernel, inputs: _Inputs, dtype: torch.dtype, gradients: bool) -> Iterator[tuple[str, Tensor]]:
    leaves = inputs.leaves(dtype, gradients)
    out = fn(leaves["q"], leaves["k"], leaves["v"], inputs.mask, leaves.get("bias"))
    yield "output", out.detach()
    if not gradients:
        return
    grads = torch.autograd.grad(out, list(leaves.values()), inputs.upstream.to(out.dtype), allow_unused=True)
    for (name, leaf), grad in zip(leaves.items(), grads):
        yield f"d{name}", torch.zeros_like(leaf) if grad is None else grad


def _reference(map: str, groups: int) -> Kernel:
    def dense(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
        return attend(map, q, k, v, mask, bias)[0]

    return dense


def _error(x: Tensor | None, right: Tensor) -> tuple[float, str]:
    if x is None or x.shape != right.shape:
        return math.inf, f"shape {None if x is None else tuple(x.shape)}, expected {tuple(right.shape)}"
    x = x.to(right)
    if not x.isfinite().all():
        return math.inf, f"{int((~x.isfinite()).sum())} entries are not finite"
    if not x.numel():
        return 0.0, ""
    return float((x - right).abs().max() / right.abs().max().clamp(min=1.0)), ""
