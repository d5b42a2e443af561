"""Products with a matrix W of rows W_j: `combine` is Σ_j x_j W_j, `project` is ⟨W_j, g⟩ for each j."""

from softmaxlab.core.jit import inner, inner_sum


@inner_sum
def combine(W, x, out):
    """out ← Wᵀx, four rows at a time: `out` is read and written once for all four."""
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


@inner_sum
def project(W, g, out):
    """out ← W g."""
    for j in range(out.size):
        total = 0.0
        for i in range(g.size):
            total += W[j, i] * g[i]
        out[j] = total


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


@inner_sum
def dot(x, y):
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@inner_sum
def total(x):
    sum = 0.0
    for i in range(x.size):
        sum += x[i]
    return sum
