"""The block's MLP, y = W₂ g(W₁ x + b₁) + b₂ with g = GELU: on the CPU g and its slope are computed in one pass."""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from softmaxlab.core import kernels
from softmaxlab.training.compiled.gelu import bias_gelu

RATIO = 4
SMALL = 2**16  # hidden numbers below which torch's own functions are as fast
THREADS = 4  # the pass uses one thread, torch's functions all


class MLP(nn.Sequential):
    """Two linear layers with GELU between them."""

    def __init__(self, width: int, precision: kernels.Precision):
        first, second = (
            kernels.Linear(*sizes, precision) for sizes in ((width, RATIO * width), (RATIO * width, width))
        )
        super().__init__(first, nn.GELU(), second)
        self.precision: kernels.Precision = precision

    def forward(self, input: Tensor) -> Tensor:
        if not self._one_pass(input):
            return super().forward(input)
        first, _, second = self
        rows = input.reshape(-1, input.shape[-1])
        out = _MLP.apply(rows, first.weight, first.bias, second.weight, second.bias, self.precision)
        return out.view(*input.shape[:-1], -1)

    def _one_pass(self, x: Tensor) -> bool:
        fitting = x.device.type == "cpu" and x.dtype is torch.float32 and not torch.is_autocast_enabled("cpu")
        return fitting and RATIO * x.numel() >= SMALL and torch.get_num_threads() <= THREADS


class _MLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w1, b1, w2, b2, precision):
        x = kernels.factor(x, precision)
        slope = kernels.forward(x, w1, None, precision)  # for now W₁ x
        hidden = torch.empty_like(slope)
        bias_gelu(slope.numpy(), b1.numpy(), hidden.numpy())
        hidden = kernels.factor(hidden, precision)
        ctx.save_for_backward(x, w1, w2, hidden, slope)
        ctx.precision = precision
        return kernels.forward(hidden, w2, b2, precision)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, w1, w2, hidden, slope = ctx.saved_tensors
        dy, db2 = kernels.factor(dy.contiguous(), ctx.precision), dy.sum(0)
        dh = kernels.input_gradient(dy, w2, ctx.precision).mul_(slope)
        dh, db1 = kernels.factor(dh, ctx.precision), dh.sum(0)
        dx = kernels.input_gradient(dh, w1, ctx.precision)
        dw1, dw2 = (kernels.weight_gradient(d, value, ctx.precision) for d, value in ((dh, x), (dy, hidden)))
        return dx, dw1, db1, dw2, db2, None
