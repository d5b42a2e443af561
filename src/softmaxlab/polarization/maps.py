"""Attention maps on score vectors, in NumPy: s = σ(a) and the pullback Jᵀg, with J = ∂s/∂a.

Over the last axis, any number of rows at once. Heads do not occur here: a bias is 0, and bayes_softmax, with its
one head, is softmax. softpick, clipped_softmax and maps registered by a user go through torch; the flow
steps over their kinks, and stops, saying so, where a score sticks at one (softpick's at 0).

Three families. Elementwise, s = f(a): Jᵀg = f′(a) g. Shares, s = f(a)/Σf(a): Jᵀg = f′(a)/Σf · (g − ⟨s,g⟩), where the
difference is formed from g minus its value at the winner, so that it keeps its digits when s is nearly one-hot.
And those with a file of their own in softmaxlab.attention: softmax1, linear_norm, sparsemax, entmax15.
Derivatives at a kink are torch's: 0 at 0 for relu and |x|.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softmaxlab.attention import MAPS

Weights = Callable[[np.ndarray], np.ndarray]
Pullback = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class VectorMap:
    """`weights(a)` is s; `pullback(a, s, g)` is Jᵀg."""

    weights: Weights
    pullback: Pullback


def vector_map(name: str) -> VectorMap:
    """The map of that name on score vectors."""
    return BUILT_IN.get(name) or _through_torch(name)


def centred(s: np.ndarray, g: np.ndarray) -> np.ndarray:
    """g − ⟨s,g⟩ for Σs = 1."""
    winner = np.abs(s).argmax(axis=-1)
    from_winner = g - (g[winner] if g.ndim == 1 else np.take_along_axis(g, winner[..., None], axis=-1))
    return from_winner - (s * from_winner).sum(axis=-1, keepdims=True)


def _softmax(logits: np.ndarray) -> np.ndarray:
    w = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return w / w.sum(axis=-1, keepdims=True)


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -a))


def _elu(a: np.ndarray) -> np.ndarray:
    return np.where(a > 0, a + 1.0, np.exp(np.minimum(a, 0.0)))


# elementwise: f and f′
FUNCTIONS: dict[str, tuple[Weights, Weights]] = {
    "sigmoid": (_sigmoid, lambda a: _sigmoid(a) * _sigmoid(-a)),
    "elu": (_elu, lambda a: np.exp(np.minimum(a, 0.0))),
    "linear": (lambda a: a, np.ones_like),
    "relu": (lambda a: np.maximum(a, 0.0), lambda a: (a > 0).astype(float)),
    "square": (np.square, lambda a: 2.0 * a),
    "abs": (np.abs, np.sign),
}


# shares that may divide by zero: map → its f
SHARES = {"sum": "linear", "relu_norm": "relu", "square_norm": "square", "abs_norm": "abs"}


def _elementwise(name: str) -> VectorMap:
    f, slope = FUNCTIONS[name]
    return VectorMap(f, lambda a, s, g: slope(a) * g)


def _share(name: str) -> VectorMap:
    f, slope = FUNCTIONS[name]

    def weights(a: np.ndarray) -> np.ndarray:
        w = f(a)
        return w / w.sum(axis=-1, keepdims=True)

    def pullback(a: np.ndarray, s: np.ndarray, g: np.ndarray) -> np.ndarray:
        return slope(a) / f(a).sum(axis=-1, keepdims=True) * centred(s, g)

    return VectorMap(weights, pullback)


def _softmax_of(log_f: Weights, log_slope: Weights) -> VectorMap:
    """A share written as the softmax of log f, exact where f itself underflows; `log_slope` is f′/f."""
    return VectorMap(lambda a: _softmax(log_f(a)), lambda a, s, g: log_slope(a) * s * centred(s, g))


def _softmax1(a: np.ndarray) -> np.ndarray:
    peak = np.maximum(a.max(axis=-1, keepdims=True), 0.0)
    w = np.exp(a - peak)
    return w / (np.exp(-peak) + w.sum(axis=-1, keepdims=True))


def _softmax1_pullback(a: np.ndarray, s: np.ndarray, g: np.ndarray) -> np.ndarray:
    # J is the softmax's on one more key, of score 0 and g = 0
    nowhere = np.zeros((*a.shape[:-1], 1))
    all_s = _softmax(np.concatenate([a, nowhere], axis=-1))
    return s * centred(all_s, np.concatenate([g, nowhere], axis=-1))[..., :-1]


def _linear_norm(a: np.ndarray) -> np.ndarray:
    return a / np.maximum(np.abs(a.sum(axis=-1, keepdims=True)), 1.0)


def _linear_norm_pullback(a: np.ndarray, s: np.ndarray, g: np.ndarray) -> np.ndarray:
    total = a.sum(axis=-1, keepdims=True)
    outside = np.abs(total) >= 1.0
    return (g - outside * np.sign(total) * (s * g).sum(axis=-1, keepdims=True)) / np.maximum(np.abs(total), 1.0)


def _sparsemax(a: np.ndarray) -> np.ndarray:
    z = a - a.max(axis=-1, keepdims=True)
    ordered = -np.sort(-z, axis=-1)
    count = np.arange(1.0, z.shape[-1] + 1)
    sums = ordered.cumsum(axis=-1)
    size = (1.0 + count * ordered > sums).sum(axis=-1, keepdims=True)
    tau = (np.take_along_axis(sums, size - 1, axis=-1) - 1.0) / size
    return np.maximum(z - tau, 0.0)


def _sparsemax_pullback(a: np.ndarray, s: np.ndarray, g: np.ndarray) -> np.ndarray:
    support = (s > 0).astype(float)
    return support * centred(support / support.sum(axis=-1, keepdims=True), g)


def _entmax15(a: np.ndarray) -> np.ndarray:
    z = (a - a.max(axis=-1, keepdims=True)) / 2.0
    ordered = np.maximum(-np.sort(-z, axis=-1), -2.0)  # a key 1 below the peak has weight 0 already
    count = np.arange(1.0, z.shape[-1] + 1)
    mean = ordered.cumsum(axis=-1) / count
    spread = np.square(ordered).cumsum(axis=-1) - count * np.square(mean)
    tau = mean - np.sqrt(np.maximum((1.0 - spread) / count, 0.0))
    size = (tau <= ordered).sum(axis=-1, keepdims=True)
    return np.square(np.maximum(z - np.take_along_axis(tau, size - 1, axis=-1), 0.0))


def _entmax15_pullback(a: np.ndarray, s: np.ndarray, g: np.ndarray) -> np.ndarray:
    root = np.sqrt(s)
    return root * centred(root / root.sum(axis=-1, keepdims=True), g)


def _log_elu(a: np.ndarray) -> np.ndarray:
    return np.where(a > 0, np.log1p(np.maximum(a, 0.0)), a)


SOFTMAX = _softmax_of(lambda a: a, np.ones_like)

BUILT_IN: dict[str, VectorMap] = {
    "softmax": SOFTMAX,
    "bayes_softmax": SOFTMAX,
    "softmax1": VectorMap(_softmax1, _softmax1_pullback),
    "sigmoid": _elementwise("sigmoid"),
    "sigmoid_norm": _softmax_of(lambda a: -np.logaddexp(0.0, -a), lambda a: _sigmoid(-a)),
    "elu": _elementwise("elu"),
    "elu_norm": _softmax_of(_log_elu, lambda a: 1.0 / (1.0 + np.maximum(a, 0.0))),
    "linear": _elementwise("linear"),
    "linear_norm": VectorMap(_linear_norm, _linear_norm_pullback),
    "relu": _elementwise("relu"),
    "square": _elementwise("square"),
    "abs": _elementwise("abs"),
    **{name: _share(f) for name, f in SHARES.items()},
    "sparsemax": VectorMap(_sparsemax, _sparsemax_pullback),
    "entmax15": VectorMap(_entmax15, _entmax15_pullback),
    "uniform": VectorMap(lambda a: np.full_like(a, 1.0 / a.shape[-1]), lambda a, s, g: np.zeros_like(a)),
}


def _through_torch(name: str) -> VectorMap:
    """A user's map, as one head of softmaxlab.attention; its pullback comes from autograd."""
    import torch

    def apply(a: np.ndarray) -> tuple["torch.Tensor", "torch.Tensor"]:
        scores = torch.tensor(a.reshape(1, -1, a.shape[-1]), requires_grad=True)
        bias = torch.zeros(1, 1, 1, dtype=scores.dtype) if MAPS[name].takes_bias else None
        return scores, MAPS[name].weigh(scores, None, bias)

    def weights(a: np.ndarray) -> np.ndarray:
        return apply(a)[1].detach().numpy().reshape(a.shape)

    def pullback(a: np.ndarray, s: np.ndarray, g: np.ndarray) -> np.ndarray:
        scores, w = apply(a)
        if not w.requires_grad:  # a constant map
            return np.zeros_like(a)
        (pulled,) = torch.autograd.grad(w, scores, torch.tensor(g.reshape(w.shape)), allow_unused=True)
        return np.zeros_like(a) if pulled is None else pulled.numpy().reshape(a.shape)

    return VectorMap(weights, pullback)
