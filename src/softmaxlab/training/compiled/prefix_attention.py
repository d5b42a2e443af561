"""Causal attention between rows that stand at several places, without a copy for each place.

Rows x [R, H·d_h] stand at index [B, T]; `place` [P] names the queries, t of sample b as b·T + t. Query p of head h sees
keys j ≤ t:

    a_phj = q_r·k_m / √d_h,   out_ph = Σ_j w_phj v_m,   r = index[b, t], m = index[b, j]

Scores and weights are [P, H, keys], keys ≥ T; what lies beyond t is left as it is. Gradients are
added to what is there.
"""

import numpy as np

from softmaxlab.core.jit import entry_sum, inlined_sum


@inlined_sum
def _dot(x, i, y, j, start, d):
    total = x.dtype.type(0)
    for c in range(d):
        total += x[i, start + c] * y[j, start + c]
    return total


@inlined_sum
def _add(x, i, weight, y, j, start, d):
    """x_i += weight y_j."""
    for c in range(d):
        x[i, start + c] += weight * y[j, start + c]


@entry_sum
def scores(q, k, index, place, a):
    T, H = index.shape[1], a.shape[1]
    d = q.shape[1] // H
    scale = q.dtype.type(1 / np.sqrt(d))
    for p in range(len(place)):
        b, t = divmod(place[p], T)
        for h in range(H):
            for j in range(t + 1):
                a[p, h, j] = scale * _dot(q, index[b, t], k, index[b, j], h * d, d)


@entry_sum
def scores_backward(da, q, k, index, place, dq, dk):
    T, H = index.shape[1], da.shape[1]
    d = q.shape[1] // H
    scale = q.dtype.type(1 / np.sqrt(d))
    for p in range(len(place)):
        b, t = divmod(place[p], T)
        r = index[b, t]
        for h in range(H):
            for j in range(t + 1):
                weight, m = scale * da[p, h, j], index[b, j]
                _add(dq, r, weight, k, m, h * d, d)
                _add(dk, m, weight, q, r, h * d, d)


@entry_sum
def mixed(w, v, index, place, out):
    T, H = index.shape[1], w.shape[1]
    d = v.shape[1] // H
    for p in range(len(place)):
        b, t = divmod(place[p], T)
        for h in range(H):
            for j in range(t + 1):
                _add(out, p, w[p, h, j], v, index[b, j], h * d, d)


@entry_sum
def mixed_backward(dout, w, v, index, place, dw, dv):
    T, H = index.shape[1], w.shape[1]
    d = v.shape[1] // H
    for p in range(len(place)):
        b, t = divmod(place[p], T)
        for h in range(H):
            for j in range(t + 1):
                m = index[b, j]
                dw[p, h, j] = _dot(dout, p, v, m, h * d, d)
                _add(dv, m, w[p, h, j], dout, p, h * d, d)
