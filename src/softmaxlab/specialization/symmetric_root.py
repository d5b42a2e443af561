"""The symmetric root of symmetric matrices."""

import numpy as np


def symmetric_root(C: np.ndarray) -> np.ndarray:
    """A with A A = C for C [..., n, n]; eigenvalues that are negative by rounding count as 0.

    Unlike Cholesky's factor it is continuous where C is singular, and keeps features apart that C keeps apart.
    """
    values, vectors = np.linalg.eigh(C)
    return (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ vectors.swapaxes(-1, -2)
