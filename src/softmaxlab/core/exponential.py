"""e^x for x ≤ 0 as straight-line arithmetic, which LLVM turns into vector instructions.

The C library's exp is called once per number and takes most of a step of descent; this one is three times as fast and
within 1 unit in the last place. With n the integer next to x/log 2 and r = x − n log 2, |r| ≤ ½ log 2,

    e^x = 2^n e^r,    e^r = Σ_{k ≤ 13} r^k/k!  (the next term is 4e-18),

summed as a tree, to keep the chain of operations that wait for each other short.
"""

from math import factorial

import numpy as np

from softmaxlab.core.jit import inner

PER_LOG_2 = 1.4426950408889634
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # n·LOG_2_HIGH is exact
SHIFT = 1.5 * 2**52  # adding it rounds to an integer, which then stands in the lowest bits
LOWEST = -708.0  # below it e^x is not a normal number; it is 0 here
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = (1 / factorial(k) for k in range(2, 14))


@inner
def exp(x):
    """e^x for x ≤ 0; NaN for NaN."""
    y = x if x > LOWEST else LOWEST
    shifted = y * PER_LOG_2 + SHIFT
    n = shifted - SHIFT
    r = (y - n * LOG_2_HIGH) - n * LOG_2_LOW
    r2 = r * r
    r4 = r2 * r2
    high = (C6 + C7 * r) + r2 * (C8 + C9 * r) + r4 * ((C10 + C11 * r) + r2 * (C12 + C13 * r))
    tail = (C2 + C3 * r) + r2 * (C4 + C5 * r) + r4 * high
    two_to_n = np.int64((np.float64(shifted).view(np.int64) << 52) + (1023 << 52)).view(np.float64)
    value = (1 + (r + r2 * tail)) * two_to_n
    return value if x >= LOWEST else 0.0 if x < LOWEST else x
