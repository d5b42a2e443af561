"""Maps z → s, each an elementwise function and a normaliser, and their pullback.

With J = ∂s/∂z, every map here has   (Jᵀw)_i = k_i (w_i − c ⟨s, w⟩):

    none     s = f(z)                   k = f'            c = 0
    share    s = f(z)/S, S = Σf(z)      k = f'/S          c = 1
    bounded  s = f(z)/max(|S|, 1)       k = f'/max(|S|,1) c = sign S, or 0 where |S| < 1
    exp      s = e^f(z)/Σe^f(z)         k = s f'          c = 1
    exp1     s = e^f(z)/(1 + Σe^f(z))   k = s f'          c = 1

The forms are those of softmaxlab.attention: sigmoid_norm and elu_norm are softmaxes of log f, exact where f underflows.
S = 0 gives s = 0/0, which the loop reports as a singularity.
"""

from math import exp, inf, log1p

from softmaxlab.core import exponential
from softmaxlab.core.jit import inner
from softmaxlab.polarization.descent.compiled.linear import total

IDENTITY, SIGMOID, LOG_SIGMOID, ELU, LOG_ELU, RELU, SQUARE, ABSOLUTE, ONE = range(9)
NONE, SHARE, BOUNDED, EXP, EXP1 = range(5)

CODES = {
    "softmax": (IDENTITY, EXP),
    "bayes_softmax": (IDENTITY, EXP),  # with one head
    "softmax1": (IDENTITY, EXP1),
    "sigmoid": (SIGMOID, NONE),
    "sigmoid_norm": (LOG_SIGMOID, EXP),
    "elu": (ELU, NONE),
    "elu_norm": (LOG_ELU, EXP),
    "linear": (IDENTITY, NONE),
    "linear_norm": (IDENTITY, BOUNDED),
    "sum": (IDENTITY, SHARE),
    "relu": (RELU, NONE),
    "relu_norm": (RELU, SHARE),
    "square": (SQUARE, NONE),
    "square_norm": (SQUARE, SHARE),
    "abs": (ABSOLUTE, NONE),
    "abs_norm": (ABSOLUTE, SHARE),
    "uniform": (ONE, SHARE),
}


@inner
def function(f, x):
    """f(x) and f'(x)."""
    if f == IDENTITY:
        return x, 1.0
    if f == RELU:
        return (x, 1.0) if x > 0 else (0.0, 0.0 * x)  # NaN stays NaN
    if f == SQUARE:
        return x * x, 2 * x
    if f == ABSOLUTE:
        return abs(x), 1.0 if x > 0 else -1.0 if x < 0 else 0.0
    if f == ONE:
        return 1.0, 0.0
    e = exp(-abs(x))
    if f == ELU:
        return (x + 1, 1.0) if x > 0 else (e, e)
    if f == LOG_ELU:
        return (log1p(x), 1 / (1 + x)) if x > 0 else (x, 1.0)
    s = (1.0 if x > 0 else e) / (1 + e)
    if f == SIGMOID:
        return s, e / (1 + e) ** 2
    return min(x, 0.0) - log1p(e), (e if x > 0 else 1.0) / (1 + e)


@inner
def weigh(map, z, s, k):
    """Fill s and k from z; return c."""
    f, normaliser = map
    if f == IDENTITY:
        for i in range(z.size):
            s[i] = z[i]
            k[i] = 1.0
    else:
        for i in range(z.size):
            s[i], k[i] = function(f, z[i])
    if normaliser in (EXP, EXP1):
        soften(s, k, 0.0 if normaliser == EXP1 else -inf)
        return 1.0
    if normaliser == NONE:
        return 0.0
    S = total(s)
    if normaliser == BOUNDED:
        divide(s, k, max(abs(S), 1.0))
        return 0.0 if abs(S) < 1 else 1.0 if S > 0 else -1.0
    divide(s, k, S)
    return 1.0


@inner
def divide(s, k, by):
    for i in range(s.size):
        s[i] /= by
        k[i] /= by


@inner
def soften(s, k, nowhere):
    """s ← e^s/(e^nowhere + Σe^s) and k ← s k."""
    peak = nowhere
    for i in range(s.size):
        if s[i] > peak:
            peak = s[i]
    for i in range(s.size):
        s[i] = exponential.exp(s[i] - peak)
    share = 1 / (total(s) + (exp(nowhere - peak) if nowhere > -inf else 0.0))
    for i in range(s.size):
        s[i] *= share
        k[i] *= s[i]
