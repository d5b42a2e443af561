"""One step of an optimizer on one tensor, as torch.optim defines it: SGD, SGD with momentum, Adam (λ in the gradient),
AdamW (λ on the parameter). `first` and `second` are the optimizer's memory, `step` counts from 1.
"""

from math import sqrt

from softmaxlab.core.jit import inner
from softmaxlab.polarization.descent.settings import DescentSettings

GD, MOMENTUM, ADAM, ADAMW = range(4)
CODES = {"gd": GD, "momentum": MOMENTUM, "adam": ADAM, "adamw": ADAMW}


def settings(spec: DescentSettings) -> tuple[float, ...]:
    """The numbers that `update` needs."""
    return (spec.lr, spec.weight_decay, spec.momentum, *spec.betas, spec.eps)


@inner
def update(optimizer, settings, x, grad, first, second, step):
    lr, decay, momentum, beta1, beta2, eps = settings
    if optimizer == GD:
        for i in range(x.size):
            x[i] -= lr * (grad[i] + decay * x[i])
    elif optimizer == MOMENTUM:
        for i in range(x.size):
            g = grad[i] + decay * x[i]
            first[i] = g if step == 1 else momentum * first[i] + g
            x[i] -= lr * first[i]
    else:
        size = lr / (1 - beta1**step)
        root = sqrt(1 - beta2**step)
        in_gradient = decay if optimizer == ADAM else 0.0
        keep = 1.0 if optimizer == ADAM else 1 - lr * decay
        for i in range(x.size):
            g = grad[i] + in_gradient * x[i]
            first[i] += (1 - beta1) * (g - first[i])
            second[i] = beta2 * second[i] + (1 - beta2) * g * g
            x[i] = keep * x[i] - size * first[i] / (sqrt(second[i]) / root + eps)
