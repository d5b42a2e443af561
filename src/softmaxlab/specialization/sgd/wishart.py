"""Gram matrices of random vectors in R^d without the vectors: Wishart factors, and sums of rotation-invariant parts.

    W = T Tᵀ ~ Wishart_H(k), the Gram matrix of H standard normal vectors of R^k, has Bartlett's factor T: normal below
    the diagonal, the root of a χ² with k − i degrees of freedom at i.
    H vectors of R^d whose law no rotation changes are R O, with R Rᵀ their Gram matrix and O [H, d] independent
    orthonormal rows in a uniform direction. Two independent such parts add up to a third, of Gram matrix
    Q_A + Q_B + R_B B R_Aᵀ + (R_B B R_Aᵀ)ᵀ,   B = O_B O_Aᵀ = C⁻¹ N,   N [H, H] normal,   C Cᵀ = N Nᵀ + Wishart_H(d − H):
    O_B is C⁻¹ times d normal columns, of which N are those along O_A.

Matrices are stacked along the last axis, [row, column, sample].
"""

import numpy as np

PIVOT = 8 * np.finfo(float).eps  # times the diagonal: what is left of it below this is rounding
LARGEST = np.finfo(float).max


def bartlett(draw: np.random.Generator, size: int, freedom: int, samples: int) -> np.ndarray:
    """Lower triangular factors of Wishart matrices with at least `size` degrees of freedom."""
    T = np.zeros((size, size, samples))
    for i in range(size):
        draw.standard_normal(out=T[i, :i])
        T[i, i] = np.sqrt(2 * draw.standard_gamma((freedom - i) / 2, samples))
    return T


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B of each sample."""
    return np.einsum("ijn,jkn->ikn", A, B)


def gram(A: np.ndarray) -> np.ndarray:
    """A Aᵀ of each sample; A may have any number of columns."""
    return np.einsum("ijn,kjn->ikn", A, A)


def cholesky(Q: np.ndarray) -> np.ndarray:
    """Lower triangular R with R Rᵀ = Q; a singular Q, as of more heads than tokens, gives columns of zeros."""
    R = np.zeros_like(Q)
    for j in range(len(Q)):
        rest = Q[j:, j] - np.einsum("ikn,kn->in", R[j:, :j], R[j, :j]) if j else Q[:, 0]
        # bounded, so that an infinite Q becomes NaN, not 0
        rounding = rest[0] <= np.minimum(PIVOT * Q[j, j], LARGEST)
        R[j:, j] = np.where(rounding, 0.0, rest / np.sqrt(np.where(rounding, 1.0, rest[0])))
    return R


def rotation_block(draw: np.random.Generator, size: int, dimension: int, samples: int) -> np.ndarray:
    """B = O_B O_Aᵀ of pairs of independent uniform orthonormal frames in R^dimension ≥ 2 size: C⁻¹ N."""
    B = draw.standard_normal((size, size, samples))
    C = cholesky(gram(B) + gram(bartlett(draw, size, dimension - size, samples)))
    for i in range(size):
        B[i] = (B[i] - np.einsum("kn,kjn->jn", C[i, :i], B[:i])) / C[i, i]
    return B


def merged(draw: np.random.Generator, Q: np.ndarray, dimension: int, parts: int = 1) -> np.ndarray:
    """Gram matrices of at most `parts` sums of independent rotation-invariant parts, whose Gram matrices are Q.

    Two by two: the number of vectorised rounds is the logarithm of the number of parts.
    """
    while Q.shape[-1] > parts:
        half = Q.shape[-1] // 2
        R = cholesky(Q[..., : 2 * half])
        R_A, R_B = R[..., :half], R[..., half:]
        B = rotation_block(draw, len(Q), dimension, half)
        cross = product(product(R_B, B), R_A.swapaxes(0, 1))
        pairs = Q[..., :half] + Q[..., half : 2 * half] + cross + cross.swapaxes(0, 1)
        Q = np.concatenate([pairs, Q[..., 2 * half :]], axis=-1)
    return Q
