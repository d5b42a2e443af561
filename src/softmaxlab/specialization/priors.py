"""Priors P_θ of the features' strengths in the relevant token, k̂ = Σ_f θ_f k*_f.

    flipping spike   θ = (√ν1, ±√ν2), each with probability ½
    one-hot spikes   θ = √ν e_f, f uniform over F
    Gaussian         θ ~ N(0, C); variances linear from ν1 to ν2 over the features, or any covariance C
    discrete         θ = points[i] with probability probabilities[i]
    sampled          θ = f(u) for uniform u, with f of the user's own

A prior is discrete (it has `atoms`), Gaussian, or known by `theta`, its values at uniform numbers.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.arrays import Array
from softmaxlab.core.registry import Named, Registry
from softmaxlab.core.spec import Record
from softmaxlab.errors import SpecError

SUM_TOLERANCE = 1e-6  # probabilities may come from float32
SYMMETRY = 1e-9  # of a covariance, relative to its largest entry
MOMENT_POINTS = 14  # log2 of the quasi-random points that give the moments of a sampled prior
Strength = Annotated[float, Field(gt=0)]
Features = Annotated[int, Field(ge=1, le=10_000)]
Theta = Callable[[np.ndarray], np.ndarray]
PRIORS: Registry[Theta] = Registry("prior")


class Prior(Record):
    """P_θ. A prior of your own derives from it and gives `features` and `theta`, or is registered by `register`."""

    @property
    def features(self) -> int:
        """F, the number of features."""
        raise NotImplementedError(f"{type(self).__name__} gives no number of features")

    def theta(self, u: np.ndarray) -> np.ndarray:
        """θ [sample, feature] at uniform numbers u in (0, 1), of the same shape."""
        raise NotImplementedError(f"{type(self).__name__} gives no θ")

    def atoms(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The values [atom, feature] and probabilities [atom] of a discrete prior; None for others."""
        return None

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """E θ [feature] and Cov θ [feature, feature]."""
        theta, P = self._representatives
        mean = P @ theta
        return mean, ((theta - mean) * P[:, None]).T @ (theta - mean)

    @cached_property
    def _representatives(self) -> tuple[np.ndarray, np.ndarray]:
        """The atoms, or many quasi-random values of equal probability."""
        found = self.atoms()
        if found is not None:
            return found
        theta = self.theta(uniforms(self.features, MOMENT_POINTS, seed=0))
        return theta, np.full(len(theta), 1 / len(theta))


class FiniteSupport(Prior):
    """A prior with atoms; θ at uniform numbers follows the first of them."""

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError(f"{type(self).__name__} gives no atoms")

    @property
    def features(self) -> int:
        return self.atoms()[0].shape[1]

    def theta(self, u: np.ndarray) -> np.ndarray:
        points, P = self.atoms()
        which = np.searchsorted(np.cumsum(P), u[:, 0])
        return points[np.minimum(which, len(P) - 1)]


class FlippingSpike(FiniteSupport):
    """θ = (√ν1, ±√ν2): a constant direction and one that changes its sign."""

    nu: tuple[Strength, Strength] = (2.0, 2.0)

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        constant, flipping = np.sqrt(self.nu)
        return np.array([[constant, flipping], [constant, -flipping]]), np.array([0.5, 0.5])


class OneHotSpikes(FiniteSupport):
    """θ = √ν e_f with f uniform over F features."""

    F: Features = 4
    nu: Strength = 10.0

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        return np.sqrt(self.nu) * np.eye(self.F), np.full(self.F, 1 / self.F)


class Discrete(FiniteSupport):
    """θ = points[i], a row of [atom, feature], with probability probabilities[i]; all equal if not given."""

    points: Array
    probabilities: Array | None = None

    @model_validator(mode="after")
    def _distribution(self) -> Self:
        if self.points.ndim != 2 or 0 in self.points.shape:
            raise ValueError(f"points must be [atom, feature], got shape {list(self.points.shape)}")
        P = self.probabilities
        if P is None:
            return self
        if P.shape != self.points.shape[:1]:
            raise ValueError(f"probabilities must be one for each of {len(self.points)} points, got {list(P.shape)}")
        if (P <= 0).any():
            raise ValueError(f"probabilities must be positive, got {P.min():g}")
        if abs(P.sum() - 1) > SUM_TOLERANCE:
            raise ValueError(f"probabilities must sum to 1, got {P.sum():g}")
        return self

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        P = np.ones(len(self.points)) if self.probabilities is None else self.probabilities
        return self.points, P / P.sum()


class Gaussian(Prior):
    """θ ~ N(0, C): F variances linear from nu[0] to nu[1], or a covariance of your own."""

    F: Features | None = None
    nu: tuple[Strength, Strength] | None = None
    covariance: Array | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.covariance is None) == (self.F is None) or (self.F is None) != (self.nu is None):
            raise ValueError("needs F and nu=(first, last), or covariance alone")
        C = self.covariance
        if C is None:
            return self
        if C.ndim != 2 or C.shape[0] != C.shape[1] or not C.size:
            raise ValueError(f"covariance must be square, got shape {list(C.shape)}")
        if np.abs(C - C.T).max() > SYMMETRY * np.abs(C).max():
            raise ValueError("covariance must be symmetric")
        if (least := np.linalg.eigvalsh(C)[0]) < -SYMMETRY * np.abs(C).max():
            raise ValueError(f"covariance must be positive semidefinite, got an eigenvalue {least:g}")
        return self

    @property
    def features(self) -> int:
        return len(self.matrix())

    def matrix(self) -> np.ndarray:
        """C."""
        if self.covariance is not None:
            return self.covariance
        first, last = self.nu or (0.0, 0.0)
        return np.diag(np.linspace(first, last, self.F or 0))

    def root(self) -> np.ndarray:
        """The symmetric A with A A = C."""
        values, vectors = np.linalg.eigh(self.matrix())
        return vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T

    def theta(self, u: np.ndarray) -> np.ndarray:
        from scipy.special import ndtri

        return ndtri(u) @ self.root()

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(self.features), self.matrix()


class Sampled(Prior):
    """A prior registered by `register`, over F features."""

    name: Annotated[str, Named(PRIORS)]
    F: Features

    @model_validator(mode="after")
    def _shaped(self) -> Self:
        theta = self.theta(uniforms(self.F, 1, seed=0))
        if theta.shape != (2, self.F) or not np.isfinite(theta).all():
            raise ValueError(
                f"prior {self.name!r} must give finite θ of the shape of u, got {theta.shape} for (2, {self.F})"
            )
        return self

    @property
    def features(self) -> int:
        return self.F

    def theta(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(PRIORS[self.name](u), dtype=np.float64)


def register(function: Theta | None = None, /, *, name: str | None = None) -> Any:
    """Make a prior of your own function θ = f(u), used as `Sampled("f", F=2)`: `@sl.specialization.register`.

    u [sample, feature] is uniform on the unit cube, and θ has its shape.
    """

    def add(f: Theta) -> Theta:
        if not callable(f):
            raise SpecError(f"register takes a function, got {type(f).__name__}")
        PRIORS.add(name or f.__name__, f, defined_by=f)
        return f

    return add if function is None else add(function)


def uniforms(dimension: int, log2_points: int, seed: int) -> np.ndarray:
    """2^log2_points quasi-random points of the open unit cube, [point, dimension]."""
    from scipy.stats import qmc

    points = qmc.Sobol(dimension, rng=np.random.default_rng(seed)).random_base2(log2_points)
    # scrambled points lie on a grid of 2^-30 that includes 0, where a normal quantile is infinite
    return np.clip(points, 2.0**-32, 1 - 2.0**-32)
