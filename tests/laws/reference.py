"""Every built-in map, written once more from its formula: one row at a time, in plain Python.

A function here takes the scores of the visible keys of one row (joint maps: of all heads of one query) and gives
their weights. Slow and obvious on purpose.
"""

import math


def softmax(x):
    total = sum(math.exp(v - max(x)) for v in x)
    return [math.exp(v - max(x)) / total for v in x]


def softmax1(x, b=0.0):
    return softmax([*x, b])[:-1]


def sigmoid(x, b=0.0):
    return [1 / (1 + math.exp(-(v + b))) for v in x]


def elu(x):
    return [v + 1 if v > 0 else math.exp(v) for v in x]


def relu(x):
    return [max(v, 0.0) for v in x]


def by_sum(w):
    total = math.fsum(w)
    return [v / total if total else 0.0 for v in w]


def by_bounded_sum(w):
    return [v / max(abs(math.fsum(w)), 1.0) for v in w]


def bisect(weights_at, x):
    """The τ at which the decreasing total weight is 1, by bisection."""
    low, high = min(x) - 10.0, max(x)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(weights_at(middle)) > 1 else (low, middle)
    return weights_at((low + high) / 2)


def sparsemax(x):
    return bisect(lambda tau: [max(v - tau, 0.0) for v in x], x)


def entmax15(x):
    return bisect(lambda tau: [max(v / 2 - tau, 0.0) ** 2 for v in x], x)


def softpick(x):
    total = math.fsum(abs(math.exp(v) - 1) for v in x)
    return [max(math.exp(v) - 1, 0.0) / total for v in x]


def clipped_softmax(x):
    return [min(max(1.03 * v - 0.03, 0.0), 1.0) for v in softmax(x)]


ROWS = {
    "softmax": softmax,
    "softmax1": softmax1,
    "sigmoid": sigmoid,
    "sigmoid_norm": lambda x, b=0.0: by_sum(sigmoid(x, b)),
    "elu": elu,
    "elu_norm": lambda x: by_sum(elu(x)),
    "linear": list,
    "linear_norm": by_bounded_sum,
    "sum": by_sum,
    "relu": relu,
    "relu_norm": lambda x: by_sum(relu(x)),
    "square": lambda x: [v * v for v in x],
    "square_norm": lambda x: by_sum([v * v for v in x]),
    "abs": lambda x: [abs(v) for v in x],
    "abs_norm": lambda x: by_sum([abs(v) for v in x]),
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "softpick": softpick,
    "clipped_softmax": clipped_softmax,
    "uniform": lambda x: [1 / len(x)] * len(x),
    # of queries and keys: the scores are built from features first
    "elu_elu": list,
    "elu_elu_norm": by_sum,
    "mlp": list,
    "mlp_norm": by_bounded_sum,
}
# over all heads and keys of a query at once; the caller multiplies by the number of heads
JOINT_ROWS = {"bayes_softmax": lambda x, b: softmax([v + c for v, c in zip(x, b)])}
