"""Priors P_θ of the features' strengths in the relevant token, k̂ = Σ_f θ_f k*_f.

    flipping spike   θ = (√ν1, ±√ν2), each with probability ½
    one-hot spikes   θ = √ν e_f, f uniform over F
    Gaussian         θ ~ N(0, C); variances linear from ν1 to ν2 over the features, or any covariance C
    discrete         θ = points[i] with probability probabilities[i]
    sampled          θ = f(u) for uniform u, with f of the user's own

A prior is discrete (it has `atoms`), Gaussian, or known by `theta`, its values at uniform numbers. Strengths ν and
variances are at most LARGEST, |θ| its root: the scores' squares are finite then.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.arrays import Array
from softmaxlab.core.registry import Named, Registry, numbers_of
from softmaxlab.core.spec import Record
from softmaxlab.errors import SpecError
from softmaxlab.specialization.quasi_random import uniforms
from softmaxlab.specialization.symmetric_root import symmetric_root

SUM_TOLERANCE = 1e-6  # probabilities may come from float32
SYMMETRY = 1e-9  # of a covariance, relative to its largest entry
MOMENT_POINTS, FEWEST = 14, 8  # log2 of the quasi-random points that give the moments of a sampled prior
MOMENT_NUMBERS = 20  # log2 of the numbers in them: many features have fewer points
LARGEST = 1e100
MOST_FEATURES = 1000  # covariances and the atoms of one-hot spikes have as many squared numbers
Strength = Annotated[float, Field(gt=0, le=LARGEST)]
Features = Annotated[int, Field(ge=1, le=MOST_FEATURES)]
Theta = Callable[[np.ndarray], np.ndarray]
PRIORS: Registry[Theta] = Registry("prior")


class Prior(Record):
    """P_θ. A prior of your own derives from it and gives `atoms`, or `features` and `theta`; or see `register`."""

    @property
    def features(self) -> int:
        """F, the number of features."""
        return self._given_atoms("features")[0].shape[1]

    def theta(self, u: np.ndarray) -> np.ndarray:
        """θ [sample, feature] at uniform numbers u in (0, 1), of the same shape."""
        return chosen_atoms(*self._given_atoms("theta"), u[:, 0])

    def atoms(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The values [atom, feature] and probabilities [atom] of a discrete prior; None for others."""
        return None

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """E θ [feature] and Cov θ [feature, feature]."""
        theta, P = self.representatives
        mean = P @ theta
        return mean, ((theta - mean) * P[:, None]).T @ (theta - mean)

    @cached_property
    def representatives(self) -> tuple[np.ndarray, np.ndarray]:
        """Values [value, feature] and probabilities: the atoms, or many quasi-random values of equal probability."""
        atoms = self.atoms()
        if atoms is not None:
            return atoms
        log2_points = max(FEWEST, min(MOMENT_POINTS, MOMENT_NUMBERS - (self.features - 1).bit_length()))
        theta = checked_theta(self, uniforms(self.features, log2_points, seed=0))
        return theta, np.full(len(theta), 1 / len(theta))

    def _given_atoms(self, missing: str) -> tuple[np.ndarray, np.ndarray]:
        atoms = self.atoms()
        if atoms is None:
            raise NotImplementedError(f"{type(self).__name__} gives neither `{missing}` nor `atoms`")
        return atoms


class FlippingSpike(Prior):
    """θ = (√ν1, ±√ν2): a constant direction and one that changes its sign."""

    nu: tuple[Strength, Strength] = (2.0, 2.0)

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        constant, flipping = np.sqrt(self.nu)
        return np.array([[constant, flipping], [constant, -flipping]]), np.array([0.5, 0.5])


class OneHotSpikes(Prior):
    """θ = √ν e_f with f uniform over F features."""

    F: Features = 4
    nu: Strength = 10.0

    @property
    def features(self) -> int:
        return self.F

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        return np.sqrt(self.nu) * np.eye(self.F), np.full(self.F, 1 / self.F)


class Discrete(Prior):
    """θ = points[i], a row of [atom, feature], with probability probabilities[i]; all equal if not given."""

    points: Array
    probabilities: Array | None = None

    @model_validator(mode="after")
    def _distribution(self) -> Self:
        if self.points.ndim != 2 or 0 in self.points.shape:
            raise ValueError(f"points must be [atom, feature], got shape {list(self.points.shape)}")
        _bounded("points", self.points, np.sqrt(LARGEST))
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
        _bounded("covariance", C, LARGEST)
        if np.abs(C - C.T).max() > SYMMETRY * np.abs(C).max():
            raise ValueError("covariance must be symmetric")
        if (least := np.linalg.eigvalsh(C)[0]) < -SYMMETRY * np.abs(C).max():
            raise ValueError(f"covariance must be positive semidefinite, got an eigenvalue {least:g}")
        return self

    @property
    def features(self) -> int:
        return self.F or len(self.matrix())

    def matrix(self) -> np.ndarray:
        """C."""
        if self.covariance is not None:
            return self.covariance
        first, last = self.nu or (0.0, 0.0)
        return np.diag(np.linspace(first, last, self.F or 0))

    def root(self) -> np.ndarray:
        """The symmetric A with A A = C."""
        return symmetric_root(self.matrix())

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
        checked_theta(self, uniforms(self.F, 1, seed=0))
        return self

    @property
    def features(self) -> int:
        return self.F

    def theta(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(PRIORS[self.name](u), dtype=np.float64)


def register(function: Theta | None = None, /, *, name: str | None = None) -> Any:
    """Make a prior of your own function θ = f(u), used as `Sampled("f", F=2)`: `@sl.specialization.register`.

    u [sample, feature] is uniform on the unit cube, and θ has its shape. Parameters with a number as default can be
    given with the name: `f(u, scale=2.0)` is also "f:3".
    """

    def add(f: Theta) -> Theta:
        if not callable(f):
            raise SpecError(f"register takes a function, got {type(f).__name__}")
        numbers = numbers_of(f, ())

        def with_parameters(*values: float) -> Theta:
            return partial(f, **dict(zip(numbers, values)))

        PRIORS.add(name or f.__name__, f, defined_by=f, parameters=numbers, with_parameters=with_parameters)
        return f

    return add if function is None else add(function)


def checked_theta(prior: Prior, u: np.ndarray) -> np.ndarray:
    """θ at uniform numbers u [sample, feature], refused if it is not finite or of another shape."""
    name = f"prior {prior.name!r}" if isinstance(prior, Sampled) else type(prior).__name__
    theta = np.asarray(prior.theta(u))
    if theta.shape != u.shape:
        raise SpecError(f"{name} must give θ of the shape of u, got {theta.shape} for {u.shape}")
    bad = ~(np.abs(theta) <= np.sqrt(LARGEST)).all(axis=1)
    if bad.any():
        where = int(np.argmax(bad))
        seen = f"{np.array2string(theta[where], threshold=4)} at u = {np.array2string(u[where], threshold=4)}"
        raise SpecError(f"{name} must give finite θ up to {np.sqrt(LARGEST):g}, got {seen}")
    return theta


def require_usable(prior: Prior) -> None:
    """Refuse a prior of the user's own that gives no θ, or a bad one: before work starts, not in it."""
    if isinstance(prior, Gaussian):
        return
    try:
        features = prior.features
        if not isinstance(features, int) or not 1 <= features <= MOST_FEATURES:
            raise SpecError(f"prior must have from 1 to {MOST_FEATURES} features, got {features!r}")
        theta, P = prior.representatives
    except SpecError:
        raise
    except Exception as error:  # whatever the user's code raises
        raise SpecError(f"prior {type(prior).__name__} cannot be used: {type(error).__name__}: {error}") from None
    if theta.shape != (len(P), features) or not np.isfinite(theta).all() or abs(P.sum() - 1) > SUM_TOLERANCE:
        raise SpecError(
            f"the atoms of {type(prior).__name__} must be finite [atom, {features}] with probabilities that sum to 1, "
            f"got shapes {theta.shape} and {P.shape}"
        )


def chosen_atoms(theta: np.ndarray, P: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The atoms [sample, feature] that uniform numbers u [sample] choose."""
    return theta[np.minimum(np.searchsorted(np.cumsum(P), u), len(P) - 1)]


def _bounded(name: str, values: np.ndarray, largest: float) -> None:
    if (most := np.abs(values).max()) > largest:
        raise ValueError(f"{name} must hold numbers up to {largest:g}, got {most:g}")
