"""Samples of the scores' Gaussian parts: the expectation over them is the loss.

    X = (χ*_1 … χ*_F, ξ_1 … ξ_H) of every token, all standard normal but χ*_{·,0} = θ̂ + normal in the token 0 that is to
    be found (the tokens are exchangeable); θ̂ = L_pᵀ θ, p = L_p L_pᵀ

`symmetric` draws scrambled Sobol points, χ* on the first coordinates, which are the most even, and uses each point in
several images, so that the sampled loss has the symmetries of the prior:

    Gaussian         χ*_{·,0} ~ N(0, I + L_pᵀ C L_p) without drawing θ, and χ* → −χ*; ξ is kept
    flipping spike   the second atom uses the normals of the first with the sign of feature 2 changed
    one-hot spikes   atom f uses the normals of atom 0 with the features rolled by f
    discrete         all atoms use the same normals, weighted by their probabilities
    others           θ = f(u) with F more Sobol coordinates, one image

Without them the samples, not the start, choose how a symmetry is broken.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.errors import SpecError
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.priors import FlippingSpike, Gaussian, OneHotSpikes, Prior, uniforms

SOBOL_DIMENSIONS = 21201  # as many as SciPy has direction numbers for
# numbers of X in one chunk: its temporaries stay in a core's cache, and are small enough that a thread's allocator keeps
# them; with 2^16 it gives them back to the system after every use, which made flows in threads ten times slower
CHUNK = 2**14
DEFAULT_SAMPLES = 2**15  # of a flow, all images counted: m of Figure 1 is then within .02 up to tau = 100
LEAST_POINTS = 2**10

Seed = int | tuple[int, str, int]


@dataclass(frozen=True)
class Samples:
    """X [feature and head, token, sample] and the samples' weights, which sum to 1.

    `quasi` tells whether the points are Sobol's.
    """

    X: np.ndarray
    weight: np.ndarray
    quasi: bool = True

    @cached_property
    def chunks(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Contiguous parts (X, weight), small enough for a core's cache."""
        n, L, N = self.X.shape
        parts = max(1, round(n * L * N / CHUNK))
        cuts = np.linspace(0, N, parts + 1).astype(int)
        return [
            (np.ascontiguousarray(self.X[:, :, i:j]), np.ascontiguousarray(self.weight[i:j])) for i, j in pairwise(cuts)
        ]


def default_points(prior: Prior) -> int:
    """How many base points a flow uses unless told otherwise: 2^13 for four one-hot spikes, 2^14 with two images."""
    return max(LEAST_POINTS, 2 ** round(np.log2(DEFAULT_SAMPLES / images(prior))))


def images(prior: Prior) -> int:
    """How many samples `symmetric` makes of each base point."""
    if isinstance(prior, Gaussian):
        return 2
    atoms = prior.atoms()
    return 1 if atoms is None else len(atoms[1])


def symmetric(model: SingleLocation, points: int, seed: Seed, p: np.ndarray | None = None) -> Samples:
    """Quasi-random samples with the symmetries of the prior, from `points` (rounded up to a power of two) base points.

    `seed` is a number, or a number with a name and an index for one of many independent sets.
    """
    prior, F = model.prior, model.features
    L_p = np.eye(F) if p is None else np.linalg.cholesky(p)
    atoms = prior.atoms()
    drawn = F if atoms is None and not isinstance(prior, Gaussian) else 0  # coordinates that θ itself takes
    u, quasi = _uniforms(drawn + model.length * (F + model.heads), points, seed)
    X = _normals(u[:, drawn:], model)
    if isinstance(prior, Gaussian):
        X[:F, 0] = _root(np.eye(F) + L_p.T @ prior.matrix() @ L_p) @ X[:F, 0]
        parts, P = [X, _reflected(X, slice(F))], np.array([0.5, 0.5])
    elif atoms is None:
        X[:F, 0] += (prior.theta(u[:, :drawn]) @ L_p).T
        parts, P = [X], np.ones(1)
    else:
        theta, P = atoms
        parts = [_image(prior, X, i) for i in range(len(P))]
        for image, theta_hat in zip(parts, theta @ L_p):
            image[:F, 0] += theta_hat[:, None]
    each = X.shape[-1]
    return Samples(np.concatenate(parts, axis=-1), np.repeat(P / each, each), quasi)


def plain(model: SingleLocation, points: int, seed: Seed | np.random.Generator, p: np.ndarray | None = None) -> Samples:
    """Independent samples, as in Appendix B; a generator in place of a seed is drawn from."""
    rng = seed if isinstance(seed, np.random.Generator) else _generator(seed)
    F = model.features
    X = rng.standard_normal((F + model.heads, model.length, points))
    theta = model.prior.theta(_open(rng.random((points, F))))
    X[:F, 0] += (theta if p is None else theta @ np.linalg.cholesky(p)).T
    return Samples(X, np.full(points, 1 / points), quasi=False)


def _generator(seed: Seed) -> np.random.Generator:
    number, *name = seed if isinstance(seed, tuple) else (seed, "samples")
    return generator(number, "/".join(["specialization", *map(str, name)]))


def _uniforms(dimension: int, points: int, seed: Seed) -> tuple[np.ndarray, bool]:
    """Points [point, dimension] of the unit cube, and whether they are Sobol's, which end at some dimension."""
    if points < 1:
        raise SpecError(f"samples must be at least 1, got {points}")
    rng = _generator(seed)
    log2_points = (points - 1).bit_length()
    if dimension > SOBOL_DIMENSIONS:
        return _open(rng.random((2**log2_points, dimension))), False
    return uniforms(dimension, log2_points, seed=int(rng.integers(2**63))), True


def _open(u: np.ndarray) -> np.ndarray:
    """Without 0, where a normal quantile is infinite."""
    return np.maximum(u, 2.0**-54)


def _normals(u: np.ndarray, model: SingleLocation) -> np.ndarray:
    """X [F + H, L, point] of uniforms: χ* token by token, then ξ."""
    from scipy.special import ndtri

    L, F, H = model.length, model.features, model.heads
    z = ndtri(u).T
    chi, xi = z[: L * F].reshape(L, F, -1), z[L * F :].reshape(L, H, -1)
    return np.ascontiguousarray(np.concatenate([chi, xi], axis=1).swapaxes(0, 1))


def _image(prior: Prior, X: np.ndarray, i: int) -> np.ndarray:
    """The normals that atom i uses."""
    if isinstance(prior, FlippingSpike) and i == 1:
        return _reflected(X, slice(1, 2))
    F = prior.features
    if isinstance(prior, OneHotSpikes):
        return np.concatenate([np.roll(X[:F], i, axis=0), X[F:]])
    return X.copy()


def _reflected(X: np.ndarray, features: slice) -> np.ndarray:
    image = X.copy()
    image[features] *= -1
    return image


def _root(C: np.ndarray) -> np.ndarray:
    """The symmetric root, which keeps features apart that C keeps apart."""
    values, vectors = np.linalg.eigh(C)
    return vectors * np.sqrt(values) @ vectors.T
