"""Figures 12, 13 and 14: two heads on flipping spikes of all strengths, for three maps.

The paper finds softmax-1 to be much like softmax. So it is at first, and where the constant direction is strong; where
that is weak (ν₁ = 1), its heads go on, some hundreds of τ later, to the values of θ.
"""

import numpy as np

DIGITS = 9  # of ν, which is known by its root


NEAR = 0.1  # of |θ|: a head that has found a value of θ


def extremes(nu: np.ndarray) -> list[float]:
    return sorted({float(nu.min()), float(nu.max())})


def strengths(panels: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """ν1 and ν2 of every panel, from its values of θ."""
    nu1, nu2 = np.square([signal[0] for _, signal in panels]).round(DIGITS).T
    return nu1, nu2


def corners(panels: list[tuple[np.ndarray, np.ndarray]], values: np.ndarray) -> dict[str, float]:
    """The values of the panels with the least and the largest ν1 and ν2, which all presets draw."""
    nu1, nu2 = strengths(panels)
    at_corner = np.isin(nu1, extremes(nu1)) & np.isin(nu2, extremes(nu2))
    found = zip(nu1[at_corner], nu2[at_corner], values[at_corner])
    return {f"ν = ({first:g}, {second:g})": float(value) for first, second, value in found}


def farthest_atom(panels: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The distance of the most neglected value of θ from all heads at the end, in |θ|."""
    gaps = [np.linalg.norm(path[-1, :, None] - signal, axis=-1).min(axis=0).max() for path, signal in panels]
    return np.array(gaps) / [np.linalg.norm(signal[0]) for _, signal in panels]
