"""The gradient of L = mean over rows of ℓ(β), β = Wᵀσ(z): one formula for the three models.

W [p, d] has one row per token and `a` [rows, p] one row of scores per output.

    value   W = Vᵀ, one row,  z = a               ∇_a = h,     h = Jᵀ W g       ∇_W = s gᵀ
    matrix  W = V, T rows,    z = A[row]          the same, with g = ∇ℓ/T       ∇_W = Σ_rows s gᵀ
    tied    W = Uᵀ, one row,  z = U a = Wᵀa       ∇_a = W h                     ∇_W = s gᵀ + a hᵀ
"""

from softmaxlab.core.jit import inlined, inner
from softmaxlab.polarization.descent.compiled.linear import add_outer, combine, dot, project
from softmaxlab.polarization.descent.compiled.losses import loss_gradient
from softmaxlab.polarization.descent.compiled.maps import weigh

VALUE, MATRIX, TIED = range(3)
CODES = {"value": VALUE, "matrix": MATRIX, "tied": TIED}
HUGE = 1e100  # beyond it a run has diverged; squares of it, and so the losses, are still finite


@inlined
def gradient(problem, data, a, W, grad_a, into, scale, work, fresh):
    """Fill `grad_a`; fill `into` with scale·∇_W if `fresh`, or add it (to W itself, in the value model).

    Returns whether all numbers are sane (otherwise W is as before), and γ (see losses).
    """
    model, map, loss = problem
    x, z, s, k, h, beta, g, residual = work
    rows = a.shape[0]
    gamma = 0.0
    sane = True
    for row in range(rows):
        for i in range(x.size):
            x[i] = z[i] = a[row, i]
        if model == TIED:
            combine(W, x, z)
        c = weigh(map, z, s, k)
        combine(W, s, beta)
        gamma = loss_gradient(loss, data, beta, g, residual)
        if rows > 1:
            for i in range(g.size):
                g[i] /= rows
        project(W, g, h)
        mean = c * dot(s, h)
        for i in range(s.size):
            h[i] = k[i] * (h[i] - mean)
        sane = sane and is_sane(beta) and is_sane(h)  # what is wild in z or g makes one of these wild
        if sane:
            add_outer(into, scale, s, g, fresh and row == 0)
        if model == TIED:
            add_outer(into, scale, x, h, False)
            project(W, h, x)
        for i in range(x.size):
            grad_a[row, i] = x[i] if model == TIED else h[i]
    return sane, gamma


@inner
def is_sane(x):
    wild = 0
    for i in range(x.size):
        wild += not abs(x[i]) < HUGE  # also NaN
    return wild == 0
