"""Uniform numbers that a normal quantile can take: the ends of [0, 1] are left out."""

import numpy as np


def uniforms(dimension: int, log2_points: int, seed: int) -> np.ndarray:
    """2^log2_points quasi-random points of the open unit cube, [point, dimension]."""
    from scipy.stats import qmc

    points = qmc.Sobol(dimension, rng=np.random.default_rng(seed)).random_base2(log2_points)
    return opened(points, 2.0**-32)  # scrambled points lie on a grid of 2^-30


def opened(u: np.ndarray, least: float = 2.0**-53) -> np.ndarray:
    """Numbers of [0, 1] moved off its ends, where a normal quantile is infinite."""
    return np.clip(u, least, 1 - least)
