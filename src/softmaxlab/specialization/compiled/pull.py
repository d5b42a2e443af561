"""The loss of samples and its gradient in their scores, in one pass over blocks that stay in a core's first cache.

`chi` [head, token, sample] holds scores χ and gets c of heads.py (at U = res, weighted); `b` [head] are the biases, and
∂b is added to `db` [head]. The rest is room for a block: `s` [head, token, BLOCK], `w` [token, BLOCK] and `rows`
[4, BLOCK]. Innermost loops run over the samples of a block, which LLVM turns into vector instructions; e^x is that of
core/exponential.py, since a call of the C library would keep it from that.
"""

from softmaxlab.core.exponential import exp
from softmaxlab.core.jit import entry_sum, inner_sum

BLOCK = 64  # samples: scores of 8 heads and 5 tokens take 20 KB


@entry_sum
def pull_softmax(chi, weight, b, v, s, w, rows, db):
    """The loss; b, v and db are left alone."""
    H, L, N = chi.shape
    top, total, weights, loss = rows[0], rows[1], rows[3], 0.0
    for start in range(0, N, BLOCK):
        _take(chi, weight, start, s, w, weights)
        for h in range(H):
            for i in range(BLOCK):
                top[i] = s[h, 0, i]
                total[i] = 0.0
            _weights(s, h, w, top, total)
        loss += _residual(w, weights, 1.0 / H, 2.0 / H)
        for h in range(H):
            for i in range(BLOCK):
                total[i] = 0.0
            for k in range(L):
                for i in range(BLOCK):
                    total[i] += s[h, k, i] * w[k, i]
            for k in range(L):
                for i in range(BLOCK):
                    s[h, k, i] *= w[k, i] - total[i]
        _give(s, chi, start)
    return loss, 0.0


@entry_sum
def pull_softmax1(chi, weight, b, v, s, w, rows, db):
    """The loss and ∂v."""
    H, L, N = chi.shape
    top, total, null, weights, loss, dv = rows[0], rows[1], rows[2], rows[3], 0.0, 0.0
    for start in range(0, N, BLOCK):
        _take(chi, weight, start, s, w, weights)
        for h in range(H):
            for i in range(BLOCK):
                top[i] = b[h]
            for k in range(L):
                for i in range(BLOCK):
                    top[i] = top[i] if top[i] > s[h, k, i] else s[h, k, i]
            for i in range(BLOCK):
                total[i] = exp(b[h] - top[i])
            _weights(s, h, w, top, total)
        loss += _residual(w, weights, v / H, 2.0 / H)
        for h in range(H):
            bias = 0.0
            for i in range(BLOCK):
                total[i] = 0.0
                null[i] = 1.0
            for k in range(L):
                for i in range(BLOCK):
                    total[i] += s[h, k, i] * w[k, i]
                    null[i] -= s[h, k, i]
            for i in range(BLOCK):
                dv += total[i]
                bias += null[i] * total[i]
            db[h] -= v * bias
            for k in range(L):
                for i in range(BLOCK):
                    s[h, k, i] *= v * (w[k, i] - total[i])
        _give(s, chi, start)
    return loss, dv


@entry_sum
def pull_bayes_softmax(chi, weight, b, v, s, w, rows, db):
    """The loss; v is left alone."""
    H, L, N = chi.shape
    top, total, weights, loss = rows[0], rows[1], rows[3], 0.0
    for start in range(0, N, BLOCK):
        _take(chi, weight, start, s, w, weights)
        for i in range(BLOCK):
            top[i] = s[0, 0, i] + b[0]
            total[i] = 0.0
        for h in range(H):
            for k in range(L):
                for i in range(BLOCK):
                    x = s[h, k, i] + b[h]
                    top[i] = top[i] if top[i] > x else x
        for h in range(H):
            for k in range(L):
                for i in range(BLOCK):
                    e = exp(s[h, k, i] + b[h] - top[i])
                    total[i] += e
                    w[k, i] += e
                    s[h, k, i] = e
        for i in range(BLOCK):
            total[i] = 1.0 / total[i]
            top[i] = 0.0  # from here on w·U
        for k in range(L):
            for i in range(BLOCK):
                share = w[k, i] * total[i]
                res = share - (1.0 if k == 0 else 0.0)
                U = weights[i] * res
                loss += res * U
                top[i] += share * U
                w[k, i] = U
        for h in range(H):
            bias = 0.0
            for k in range(L):
                for i in range(BLOCK):
                    c = 2.0 * total[i] * s[h, k, i] * (w[k, i] - top[i])
                    s[h, k, i] = c
                    bias += c
            db[h] += bias
        _give(s, chi, start)
    return loss, 0.0


@inner_sum
def _take(chi, weight, start, s, w, weights):
    """A block of scores and of weights, filled up with zeros, and no weights of heads yet."""
    H, L, N = chi.shape
    count = min(BLOCK, N - start)
    for h in range(H):
        for k in range(L):
            for i in range(count):
                s[h, k, i] = chi[h, k, start + i]
            for i in range(count, BLOCK):
                s[h, k, i] = 0.0
    for i in range(BLOCK):
        weights[i] = weight[start + i] if i < count else 0.0
        for k in range(L):
            w[k, i] = 0.0


@inner_sum
def _give(s, chi, start):
    H, L, N = chi.shape
    for h in range(H):
        for k in range(L):
            for i in range(min(BLOCK, N - start)):
                chi[h, k, start + i] = s[h, k, i]


@inner_sum
def _weights(s, h, w, top, total):
    """Turn a head's scores into its weights, with `total` more than those in their sum, and add them to w."""
    for k in range(s.shape[1]):
        for i in range(BLOCK):
            top[i] = top[i] if top[i] > s[h, k, i] else s[h, k, i]
    for k in range(s.shape[1]):
        for i in range(BLOCK):
            e = exp(s[h, k, i] - top[i])
            total[i] += e
            s[h, k, i] = e
    for i in range(BLOCK):
        total[i] = 1.0 / total[i]
    for k in range(s.shape[1]):
        for i in range(BLOCK):
            share = s[h, k, i] * total[i]
            s[h, k, i] = share
            w[k, i] += share


@inner_sum
def _residual(w, weights, scale, factor):
    """Turn the heads' sum w into `factor` U = factor · weight · res, res = scale · w − e_0; their loss."""
    loss = 0.0
    for k in range(w.shape[0]):
        for i in range(BLOCK):
            res = scale * w[k, i] - (1.0 if k == 0 else 0.0)
            U = weights[i] * res
            loss += res * U
            w[k, i] = factor * U
    return loss
