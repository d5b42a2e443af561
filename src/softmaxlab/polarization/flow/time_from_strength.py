"""Time from strength: t = ∫ dΓ/γ = Γ + ∫ e^m dΓ for the logistic loss, in the logarithm, since e^m is beyond floats.

z = e^{−m} ∫ e^m dΓ obeys a linear equation, dz/dΓ = 1 − m′z with m′ = dm/dΓ = ‖∇m‖² and z(0) = 0, so that from a to b

    z(b) = e^{−D(a)} z(a) + ∫_a^b e^{−D(Γ)} dΓ,   D(Γ) = m(b) − m(Γ) = ∫_Γ^b m′ dΓ.

Only m′ is taken from the orbit: differences of m, which may be 1e12, would be lost to rounding. Where D is large the
past is forgotten, z → 1/m′, which is the rule log t ≈ m − log m′.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from softmaxlab.polarization.flow.field import Field

Pieces = Sequence[tuple[float, Callable, Any]]  # of each step: its end, its interpolant, the mode of the map
Growth = Callable[[float], float]  # m′ at a strength

SAMPLES, NODES = 12, 64  # of m′ in a patch, a polynomial there; of the integral
REFINED = 16  # parts of an interval for a loss of one's own: log t to 1e-4 on 400 points (tested on the logistic)
LEAST = 1e-300  # an m′ that is 0, as at a saddle, bounds no patch
PATCH = 0.2  # of 1 + Γ: the longest patch, over which such a polynomial is m′ to rounding
FORGOTTEN = 60.0  # of D: e^−60 is below rounding, also beside a z that was a million times larger


def log_time(field: Field, pieces: Pieces, strength: np.ndarray, m: np.ndarray) -> np.ndarray:
    """log t at each strength, where the margin is m; −inf at strength 0. `field` is that of the linear loss."""
    borders = np.expm1([end for end, _, _ in pieces])
    log_z = np.full(len(strength), -np.inf)
    now, here = -np.inf, strength[0]
    for k, asked in enumerate(strength[1:], start=1):
        for border in [*borders[(here < borders) & (borders < asked)], asked]:
            piece = pieces[min(int(np.searchsorted(borders, border)), len(pieces) - 1)]
            now, here = _carried(_growth(field, piece), here, border, now), border
        log_z[k] = now
    with np.errstate(divide="ignore"):  # at strength 0
        return np.logaddexp(np.log(strength), m + log_z)


def refined(strength: np.ndarray) -> np.ndarray:
    """The grid with every interval cut into REFINED equal parts."""
    fine = np.linspace(strength[:-1], strength[1:], REFINED, endpoint=False, axis=1).ravel()
    return np.append(fine, strength[-1])


def log_time_on_grid(strength: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """log ∫ dΓ/γ on a grid, with 1/γ taken as exponential between its points; −inf at strength 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        g = -np.log(gamma)
        rise = np.abs(np.diff(g))
        mean = np.where(rise > 0, -np.expm1(-rise) / np.where(rise > 0, rise, 1.0), 1.0)
        pieces = np.log(np.diff(strength)) + np.maximum(g[:-1], g[1:]) + np.log(mean)
    return np.append(-np.inf, np.logaddexp.accumulate(pieces))


def _growth(field: Field, piece: tuple[float, Callable, Any]) -> Growth:
    """Return m′ as a function of the strength, in one mode of the map."""
    _, dense, field.kinks = piece
    return lambda strength: field.margin_growth(dense(np.log1p(strength)))


def _carried(growth: Growth, a: float, b: float, log_z: float) -> float:
    """log z at b from that at a: patch by patch backwards, until a or until the rest is forgotten."""
    samples, weights, integral = _rules()
    logs, D = [], 0.0  # of the patches' parts of z; over those already passed
    while a < b and D < FORGOTTEN:
        length = min(b - a, PATCH * (1.0 + b), FORGOTTEN / max(growth(b), LEAST))
        inside = length * integral @ [growth(b - length * part) for part in samples]
        logs.append(np.log(length * weights @ np.exp(-inside[:-1])) - D)
        D += inside[-1]
        b = a if length == b - a else b - length
    return float(np.logaddexp.reduce([*logs, log_z - D] if a == b else logs))


@cache
def _rules() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On parts of a patch, 0 at its end b and 1 at its start.

    Where m′ is sampled; weights of the integral; and from samples the integral of m′ up to each node, and up to 1.
    """
    from numpy.polynomial import legendre

    at, _ = legendre.leggauss(SAMPLES)
    nodes, weights = legendre.leggauss(NODES)
    coefficients = np.linalg.inv(legendre.legvander(at, SAMPLES - 1))
    primitive = legendre.legint(coefficients, lbnd=-1)
    integral = legendre.legvander(np.append(nodes, 1.0), SAMPLES) @ primitive
    return (1.0 + at) / 2.0, weights / 2.0, integral / 2.0
