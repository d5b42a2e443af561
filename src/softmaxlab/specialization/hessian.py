"""The Hessian of the sampled loss in closed form, at the cost of a few gradients.

All three maps are exponential families in their scores: with P the weights within a head (softmax-1: and its null
token; Bayes-softmax: within all heads), Z_l = X_l a token's coordinates (and 1 for b_h), and μ_h = Σ_l P_hl Z_l,

    ∂w_l = g Σ_h P_hl (Z_l − μ_h),   Σ_l U_l ∂²w_l = Σ_hl c_hl (Z_l − μ_h)(Z_l − μ_h)ᵀ / 2
    ∇² loss = 2 Σ_l ∂w_l ∂w_lᵀ + Σ_hl c_hl (Z_l − μ_h)(Z_l − μ_h)ᵀ

with c of heads.py. For Bayes-softmax every head moves the weights of all, so Z_l − μ has parts in every head's
coordinates; there Σ_hl c_hl = 0 leaves Σ_hl c_hl Z_l Z_lᵀ − g μᵀ − μ gᵀ, g the sample's gradient.
"""

from collections.abc import Callable

import numpy as np

from softmaxlab.specialization.heads import forward, residual
from softmaxlab.specialization.sampling import Samples


def hessian_over(map: str, K: np.ndarray, b: np.ndarray, v: float, samples: Samples) -> np.ndarray:
    """∇²Ẽ over samples, in the order K [head, coordinate], then b [head] and v where the map learns them."""
    parts = [_PARTS[map](K, b, v, X, weight) for X, weight in samples.chunks]
    return sum(parts[1:], start=parts[0])


def _softmax(K: np.ndarray, b: np.ndarray, v: float, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    H, n = K.shape
    heads = forward("softmax", np.tensordot(K, X, 1), b, v)
    c = heads.pullback(residual(heads.w) * weight)[0]
    Y = X - np.einsum("hlN,alN->haN", heads.sigma, X)[:, :, None]  # [head, coordinate, token, sample]
    moved = Y * ((1 / H) * np.sqrt(2 * weight) * heads.sigma)[:, None]
    whole = _gram(moved.reshape(H * n, -1))
    whole = whole.reshape(H, n, H, n)
    for h in range(H):
        whole[h, :, h] += (Y[h] * c[h]).reshape(n, -1) @ Y[h].reshape(n, -1).T
    return whole.reshape(H * n, H * n)


def _softmax1(K: np.ndarray, b: np.ndarray, v: float, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The null token comes last, with the score b_h; b_h is one more coordinate of a head."""
    H, n = K.shape
    L, N = X.shape[1:]
    heads = forward("softmax1", np.tensordot(K, X, 1), b, 1.0)
    s, mean = heads.sigma, heads.w
    U = residual(v * mean) * weight
    c, db, _ = heads.pullback(U)  # at v = 1, where they are the derivatives by v of those at v
    null = 1 - s.sum(axis=1)
    Z = np.zeros((n + 1, L + 1, N))
    Z[:n, :L], Z[n, L] = X, 1.0
    P = np.concatenate([s, null[:, None]], axis=1)
    Y = Z - np.einsum("hlN,alN->haN", P, Z)[:, :, None]
    moved = Y[:, :, :L] * ((v / H) * np.sqrt(2 * weight) * s)[:, None]
    by_gain = np.sqrt(2 * weight) * mean
    every = np.concatenate([moved.reshape(H * (n + 1), -1), by_gain.reshape(1, -1)])
    whole = _gram(every)
    within = whole[:-1, :-1].reshape(H, n + 1, H, n + 1)
    both = v * np.concatenate([c, db[:, None]], axis=1)
    for h in range(H):
        within[h, :, h] += (Y[h] * both[h]).reshape(n + 1, -1) @ Y[h].reshape(n + 1, -1).T
    slope = np.concatenate([np.einsum("hlN,alN->ha", c, X), db.sum(axis=1)[:, None]], axis=1).ravel()
    whole[-1, :-1] += slope
    whole[:-1, -1] += slope
    return _bias_last(whole, H, n)


def _bayes_softmax(K: np.ndarray, b: np.ndarray, v: float, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    H, n = K.shape
    L, N = X.shape[1:]
    heads = forward("bayes_softmax", np.tensordot(K, X, 1), b, v)
    P = heads.sigma / H
    c = heads.pullback(residual(heads.w) * weight)[0]
    Z = np.concatenate([X, np.ones((1, L, N))])
    each = P[:, None] * Z  # [head, coordinate, token, sample]
    mean = each.sum(axis=2)
    moved = (each - mean[:, :, None] * heads.w) * np.sqrt(2 * weight)
    D = H * (n + 1)
    whole = _gram(moved.reshape(D, -1))
    pulled = c[:, None] * Z
    crossed = pulled.sum(axis=2).reshape(D, -1) @ mean.reshape(D, -1).T
    whole -= crossed + crossed.T
    within = whole.reshape(H, n + 1, H, n + 1)
    for h in range(H):
        within[h, :, h] += pulled[h].reshape(n + 1, -1) @ Z.reshape(n + 1, -1).T
    return _bias_last(whole, H, n)


def _gram(rows: np.ndarray) -> np.ndarray:
    return rows @ rows.T


def _bias_last(whole: np.ndarray, H: int, n: int) -> np.ndarray:
    """Coordinates (K_h, b_h) of one head after the other, and maybe v, as K, then b, then v."""
    own = np.arange(H * (n + 1)).reshape(H, n + 1)
    order = np.concatenate([own[:, :n].ravel(), own[:, n], np.arange(H * (n + 1), len(whole))])
    return whole[np.ix_(order, order)]


_PARTS: dict[str, Callable[..., np.ndarray]] = {
    "softmax": _softmax,
    "softmax1": _softmax1,
    "bayes_softmax": _bayes_softmax,
}
