"""GELU and its slope in one pass, as straight-line float32 arithmetic, which LLVM turns into vector instructions.

    g(x) = x Φ(x),   g'(x) = Φ(x) + x φ(x),   Φ(−|x|) = ½ E(z) e^(−z²),   z = |x|/√2,   E(z) = e^(z²) erfc(z)

E is a polynomial in t = 1/(1 + P z), fitted with the least relative error on 0 ≤ z ≤ 6. One exponential serves Φ and φ.
"""

import numpy as np

from softmaxlab.core.jit import entry_sum, inner_sum

F = np.float32
P = F(0.42)
C1, C2, C3, C4 = F(0.236727590), F(0.240946599), F(0.186828720), F(0.293251886)
C5, C6, C7, C8 = F(-0.174522690), F(0.486447345), F(-0.345873466), F(0.076194048)
HALF, ONE, SQRT_HALF, PER_SQRT_2PI = F(0.5), F(1.0), F(0.5**0.5), F((2 * np.pi) ** -0.5)
PER_LOG_2, LOG_2_HIGH, LOG_2_LOW = F(1.4426950408889634), F(0.693359375), F(-2.12194440e-4)
SHIFT = F(1.5 * 2**23)  # adding it rounds to an integer, which then stands in the lowest bits
LOWEST = F(-87.0)  # below it e^y is not a normal number
B2, B3, B4, B5, B6, B7 = F(1 / 2), F(1 / 6), F(1 / 24), F(1 / 120), F(1 / 720), F(1 / 5040)


@inner_sum
def _exp(y):
    """e^y for y ≤ 0, 1e-38 below LOWEST."""
    y = y if y > LOWEST else LOWEST
    shifted = y * PER_LOG_2 + SHIFT
    n = shifted - SHIFT
    r = (y - n * LOG_2_HIGH) - n * LOG_2_LOW
    tail = B2 + r * (B3 + r * (B4 + r * (B5 + r * (B6 + r * B7))))
    two_to_n = np.int32((F(shifted).view(np.int32) << 23) + np.int32(127 << 23)).view(np.float32)
    return (ONE + (r + r * r * tail)) * two_to_n


@entry_sum
def bias_gelu(x, bias, out):
    """out = g(x + bias), and x becomes g'(x + bias); x and out [rows, features]."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y = x[i, j] + bias[j]
            size = y if y > F(0) else -y
            t = ONE / (ONE + P * SQRT_HALF * size)
            e = _exp(-HALF * y * y)
            below = HALF * e * t * (C1 + t * (C2 + t * (C3 + t * (C4 + t * (C5 + t * (C6 + t * (C7 + t * C8)))))))
            phi = ONE - below if y > F(0) else below
            phi = phi if y == y else y  # NaN stays NaN
            out[i, j] = y * phi
            x[i, j] = phi + y * e * PER_SQRT_2PI
