"""Matrix products of linear layers by the fastest kernel of this machine: the one place that knows of kernels.

A linear layer y = x Wᵀ + b needs three products: `forward` x Wᵀ, `input_gradient` dy W and `weight_gradient` dyᵀ x. On
the CPU torch has two libraries for them: its default BLAS and oneDNN. Which is faster depends on the processor and on
the shape, so each is timed once per process and shape class, and the faster one is used from then on. Both compute in
float32 and differ by rounding only. Small products, other devices and other types go to plain torch.

In bfloat16 the factors and the product are rounded to bfloat16 and sums are float32. Processors without bfloat16
instructions are faster with a float32 product of rounded factors, which gives the same up to the order of sums.
`SOFTMAXLAB_KERNEL=torch` (or `onednn`) takes one kernel without measuring.
"""

import ctypes
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from softmaxlab.errors import SpecError, unknown

Precision = Literal["float32", "bfloat16"]
Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # x [M, K], w [N, K], b [N] → x wᵀ + b [M, N]

SMALL = 2**22  # multiplications below which a product takes some 0.1 ms, and choosing costs more than it can save
CLEARLY = 0.8  # of torch's time: another kernel is taken only if it is faster than noise explains
REPEATS = 5  # a kernel's time is the least of these, taken in turns with the others'
VARIABLE = "SOFTMAXLAB_KERNEL"
MMAP_THRESHOLD, TRIM_THRESHOLD = 2**26, 2**30  # bytes: a run's activations are a few MB each

_chosen: dict[str, str] = {}  # shape class → kernel
_used: dict[str, str] = {}  # the same, of classes met since `forget_used`


def _onednn(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(_packed(x), _packed(w), b, "none", [], "")


def _packed(x: Tensor) -> Tensor:
    """x, copied if neither its rows nor its columns are contiguous: oneDNN multiplies such views 1,000 times slower."""
    return x if x.is_contiguous() or x.t().is_contiguous() else x.contiguous()


def available() -> dict[str, Product]:
    """The float32 kernels that may be used: those of this build of torch, or the one that the environment names."""
    kernels = _of_this_build()
    name = os.environ.get(VARIABLE)
    if name is None:
        return kernels
    if name not in kernels:
        raise unknown(f"kernel in {VARIABLE}", name, kernels)
    return {name: kernels[name]}


@cache
def _of_this_build() -> dict[str, Product]:
    has_onednn = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return {"torch": functional.linear} | ({"onednn": _onednn} if has_onednn else {})


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, precision: Precision = "float32") -> Tensor:
    """x Wᵀ + b for x [..., K] and W [N, K]. Differentiable once where it does not go to plain torch."""
    if precision == "float32" and not _worth_choosing(x, weight):
        return functional.linear(x, weight, bias)
    return _Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias, precision).unflatten(0, x.shape[:-1])


class Linear(nn.Linear):
    """`nn.Linear` through `linear`."""

    precision: Precision = "float32"

    def __init__(self, in_features: int, out_features: int, precision: Precision = "float32"):
        super().__init__(in_features, out_features)
        self.precision = precision

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias, self.precision)


@contextmanager
def fast_linears(model: nn.Module) -> Iterator[None]:
    """Have all `nn.Linear` layers of any model compute through `linear`; afterwards they are as before."""
    layers = [module for module in model.modules() if type(module) is nn.Linear]
    try:
        for layer in layers:
            layer.__class__ = Linear
        yield
    finally:
        for layer in layers:
            layer.__class__ = nn.Linear


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, precision):
        x = factor(x, precision)
        ctx.save_for_backward(x, weight)
        ctx.precision = precision
        return forward(x, weight, bias, precision)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        db = dy.sum(0) if ctx.needs_input_grad[2] else None
        dy = factor(dy, ctx.precision)
        dx = input_gradient(dy, weight, ctx.precision) if ctx.needs_input_grad[0] else None
        dw = weight_gradient(dy, x, ctx.precision) if ctx.needs_input_grad[1] else None
        return dx, dw, db, None


def factor(x: Tensor, precision: Precision) -> Tensor:
    """x as products read it: what is a factor of several is rounded once."""
    if precision == "float32":
        return x
    if x.dtype not in (torch.float32, torch.bfloat16):
        raise SpecError(f"precision='bfloat16' rounds float32 tensors, got {x.dtype}")
    return x.bfloat16()


def forward(x: Tensor, weight: Tensor, bias: Tensor | None, precision: Precision = "float32") -> Tensor:
    """x Wᵀ + b [M, N] of x [M, K], W [N, K] and b [N]."""
    return _product("forward", x, weight, bias, precision)


def input_gradient(dy: Tensor, weight: Tensor, precision: Precision = "float32") -> Tensor:
    """dy W [M, K] of dy [M, N] and W [N, K]."""
    return _product("input_gradient", dy, weight.t(), None, precision)


def weight_gradient(dy: Tensor, x: Tensor, precision: Precision = "float32") -> Tensor:
    """dyᵀ x [N, K] of dy [M, N] and x [M, K]. Kernels copy their first factor here, so it is the smaller one."""
    if dy.shape[1] > x.shape[1]:
        return weight_gradient(x, dy, precision).t()
    return _product("weight_gradient", dy.t(), x.t(), None, precision)


def used() -> dict[str, str]:
    """The kernel of each shape class met since `forget_used`: part of a result's provenance."""
    return dict(sorted(_used.items()))


def forget_used() -> None:
    """Begin a new record of the kernels that are used."""
    _used.clear()


def _worth_choosing(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype is weight.dtype is torch.float32
        and not torch.is_autocast_enabled("cpu")
        and x.numel() * len(weight) >= SMALL
    )


def _product(which: str, x: Tensor, w: Tensor, b: Tensor | None, precision: Precision) -> Tensor:
    if precision == "bfloat16":
        return _bfloat16_product(which, x, w, b)
    if not _worth_choosing(x, w):
        return functional.linear(x, w, b)
    return _fastest(which, x, w, available())(x, w, b)


def _bfloat16_product(which: str, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    x = factor(x, "bfloat16")

    def rounded(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        product = _rounded(_product(which, _rounded(x), _rounded(w), None, "float32"))
        return product if b is None else product.add_(b)

    if x.device.type != "cpu":
        return _native_bfloat16(x, w, b)
    return _fastest(f"bfloat16 {which}", x, w, {"bfloat16": _native_bfloat16, "rounded": rounded})(x, w, b)


def _native_bfloat16(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    product = functional.linear(x.bfloat16(), w.bfloat16()).float()
    return product if b is None else product.add_(b)


def _rounded(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def _fastest(which: str, x: Tensor, w: Tensor, kernels: dict[str, Product]) -> Product:
    """The kernel of the shape class of x wᵀ, timed when the class is first met."""
    M, K, N = (_class(size) for size in (x.shape[0], x.shape[1], len(w)))
    shape = f"{which} {M}x{K}x{N}"
    if len(kernels) == 1:
        (_used[shape],) = kernels
    else:
        if shape not in _chosen:
            _chosen[shape] = _choose(_seconds(kernels, x, w))
        _used[shape] = _chosen[shape]
    return kernels[_used[shape]]


def _class(size: int) -> int:
    """The power of two from `size` on: batches differ by a few rows."""
    return 1 << (size - 1).bit_length()


def _choose(seconds: dict[str, float]) -> str:
    """The first kernel, unless another one is clearly faster."""
    first, *_ = seconds
    best = min(seconds, key=seconds.__getitem__)
    return best if seconds[best] < CLEARLY * seconds[first] else first


def _seconds(kernels: dict[str, Product], x: Tensor, w: Tensor) -> dict[str, float]:
    """The least time of each kernel."""
    least = dict.fromkeys(kernels, math.inf)
    with torch.no_grad():
        for kernel in kernels.values():
            kernel(x, w, None)  # the first call sets the kernel up
        for _ in range(REPEATS):
            for name, kernel in kernels.items():
                began = time.perf_counter()
                kernel(x, w, None)
                least[name] = min(least[name], time.perf_counter() - began)
    return least


@cache
def keep_memory() -> None:
    """Have glibc keep freed memory for the next step. By default it gives it back and asks for zeroed pages again."""
    if not sys.platform.startswith("linux"):
        return
    m_trim_threshold, m_mmap_threshold = -1, -3  # glibc's malloc.h
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library
        return
    mallopt(m_mmap_threshold, MMAP_THRESHOLD)
    mallopt(m_trim_threshold, TRIM_THRESHOLD)
