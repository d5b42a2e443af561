"""Gradients g = ∇ℓ(β) of the losses of softmaxlab.polarization.losses, where their formulas stand.

`data` is (y, X, Xᵀ): y is β* or p*; for `dataset` the rows of X are y_i x_i; for `regression`, g = 2XᵀX β − 2Xᵀβ*, they
are 2Xᵀβ* and 2XᵀX, so that a step takes one product in place of two. Where ℓ is undefined, g is NaN, which the loop
reports as a singularity.
"""

from math import exp, inf, nan

from softmaxlab.core import exponential
from softmaxlab.core.jit import inner
from softmaxlab.polarization.descent.compiled.linear import combine, dot, total

LOGISTIC, SQUARE, REGRESSION, CROSS_ENTROPY, KL, DATASET = range(6)
CODES = {
    "logistic": LOGISTIC,
    "square": SQUARE,
    "regression": REGRESSION,
    "cross_entropy": CROSS_ENTROPY,
    "kl": KL,
    "dataset": DATASET,
}


@inner
def loss_gradient(loss, data, beta, g, residual):
    """Fill g from β; return γ for logistic and square, else 0. `residual` is work space, one number per sample."""
    y, X, X_T = data
    if loss == LOGISTIC:
        return logistic(y, beta, g)
    if loss == SQUARE:
        return square(y, beta, g)
    if loss == CROSS_ENTROPY:
        cross_entropy(y, beta, g)
    elif loss == KL:
        literal_kl(y, beta, g)
    elif loss == REGRESSION:
        combine(X, beta, g)
        for i in range(g.size):
            g[i] -= y[i]
    else:
        combine(X_T, beta, residual)
        for i in range(residual.size):
            residual[i] = -1 / (1 + exp(residual[i])) / residual.size
        combine(X, residual, g)
    return 0.0


@inner
def logistic(y, beta, g):
    gamma = 1 / (1 + exp(dot(y, beta)))
    for i in range(g.size):
        g[i] = -gamma * y[i]
    return gamma


@inner
def square(y, beta, g):
    for i in range(g.size):
        g[i] = beta[i] - y[i]
    return -dot(y, g) / dot(y, y)


@inner
def cross_entropy(y, beta, g):
    peak = -inf
    for i in range(g.size):
        if beta[i] > peak:
            peak = beta[i]
    for i in range(g.size):
        g[i] = exponential.exp(beta[i] - peak)
    share = total(y) / total(g)
    for i in range(g.size):
        g[i] = g[i] * share - y[i]


@inner
def literal_kl(y, beta, g):
    for i in range(g.size):
        g[i] = 0.0 if y[i] == 0 else -y[i] / beta[i] if beta[i] > 0 else nan
