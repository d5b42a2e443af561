"""Products with a matrix W of rows W_j: `combine` is Σ_j x_j W_j, `project` is ⟨W_j, g⟩ for each j.

Four rows or four partial sums at a time: a processor adds four independent numbers in the time of one, but would wait
for each addition of a plain running sum.
"""

from softmaxlab.polarization.compiled.jit import inner


@inner
def combine(W, x, out):
    """out ← Wᵀx."""
    for i in range(out.size):
        out[i] = 0.0
    fours = x.size - x.size % 4
    for j in range(0, fours, 4):
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(out.size):
            out[i] += (x0 * W[j, i] + x1 * W[j + 1, i]) + (x2 * W[j + 2, i] + x3 * W[j + 3, i])
    for j in range(fours, x.size):
        for i in range(out.size):
            out[i] += x[j] * W[j, i]


@inner
def project(W, g, out):
    """out ← W g."""
    fours = out.size - out.size % 4
    for j in range(0, fours, 4):
        s0 = s1 = s2 = s3 = 0.0
        for i in range(g.size):
            s0 += W[j, i] * g[i]
            s1 += W[j + 1, i] * g[i]
            s2 += W[j + 2, i] * g[i]
            s3 += W[j + 3, i] * g[i]
        out[j], out[j + 1], out[j + 2], out[j + 3] = s0, s1, s2, s3
    for j in range(fours, out.size):
        s0 = 0.0
        for i in range(g.size):
            s0 += W[j, i] * g[i]
        out[j] = s0


@inner
def add_outer(G, scale, x, y, fresh):
    """G ← G + scale x yᵀ, with G = 0 before if `fresh`."""
    for j in range(x.size):
        factor = scale * x[j]
        if fresh:
            for i in range(y.size):
                G[j, i] = factor * y[i]
        else:
            for i in range(y.size):
                G[j, i] += factor * y[i]


@inner
def dot(x, y):
    s0 = s1 = s2 = s3 = 0.0
    fours = x.size - x.size % 4
    for i in range(0, fours, 4):
        s0 += x[i] * y[i]
        s1 += x[i + 1] * y[i + 1]
        s2 += x[i + 2] * y[i + 2]
        s3 += x[i + 3] * y[i + 3]
    for i in range(fours, x.size):
        s0 += x[i] * y[i]
    return (s0 + s1) + (s2 + s3)


@inner
def total(x):
    s0 = s1 = s2 = s3 = 0.0
    fours = x.size - x.size % 4
    for i in range(0, fours, 4):
        s0 += x[i]
        s1 += x[i + 1]
        s2 += x[i + 2]
        s3 += x[i + 3]
    for i in range(fours, x.size):
        s0 += x[i]
    return (s0 + s1) + (s2 + s3)
