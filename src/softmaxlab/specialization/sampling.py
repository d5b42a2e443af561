"""Samples of the scores' Gaussian parts: the expectation over them is the loss.

    X = (χ*_1 … χ*_F, ξ_1 … ξ_H) of every token, all standard normal but χ*_{·,0} = θ̂ + normal in the token 0 that is to
    be found (the tokens are exchangeable); θ̂ = L_pᵀ θ, p = L_p L_pᵀ

`symmetric` draws scrambled Sobol points, χ* on the first coordinates, which are the most even, and uses each point in
several images, so that the sampled loss has the symmetries of the prior:

    Gaussian         χ*_{·,0} ~ N(0, I + L_pᵀ C L_p) without drawing θ, and χ* → −χ*; ξ is kept
    one-hot spikes   atom f uses the normals of atom 0 with the features rolled by f
    discrete         the atom S θ uses the normals S z where the atom θ uses z, for all signed permutations S of the
                     features that leave the prior as it is (flipping spike: the sign of feature 2); atoms that no S
                     connects use the same normals
    others           θ = f(u) with F more Sobol coordinates, one image; so do more than MOST_IMAGES atoms, with one more

Without them the samples, not the start, choose how a symmetry is broken. A flow also has its points in pairs ±ξ: the
sampled gradient in r then vanishes at r = 0 as the true one does, and heads that have come there do not fit noise. Far
from r = 0 pairs are worth less than as many points of their own, so a mere loss has none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from typing import Self

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.errors import SpecError
from softmaxlab.specialization.priors import Gaussian, OneHotSpikes, Prior, checked_theta, chosen_atoms
from softmaxlab.specialization.problem import Problem
from softmaxlab.specialization.quasi_random import opened, uniforms
from softmaxlab.specialization.symmetric_root import symmetric_root

SOBOL_DIMENSIONS = 21201  # as many as SciPy has direction numbers for
# numbers of X in one chunk: its temporaries stay in a core's cache, and are so small that a thread's allocator keeps
# them; with 2^16 it gives them back to the system after every use, which made flows in threads ten times slower
CHUNK = 2**14
DEFAULT_SAMPLES = 2**15  # of a flow, all images counted: m of Figure 1 is then within .02 up to tau = 100
LEAST_POINTS = 2**10
MOST_IMAGES = 64
MOST_PERMUTED, MOST_SIGNED = 4, 6  # features: 384 signed permutations, 64 changes of signs
SAME_ATOM = 1e-9  # relative to the largest
LEAST_BASE = 4  # base points in a set, however few samples are asked for
LARGEST_X = 2**30  # numbers in the samples: 8 GB

Seed = int | tuple[int, str, int]
SignedPermutation = tuple[np.ndarray, np.ndarray]  # θ becomes signs · θ[order]


@dataclass(frozen=True)
class Samples:
    """`chunks` of samples, each X [feature and head, token, sample] with the samples' weights; all weights sum to 1.

    `quasi` tells whether the points are Sobol's.
    """

    chunks: list[tuple[np.ndarray, np.ndarray]]
    quasi: bool = True

    @classmethod
    def of(cls, X: np.ndarray, weight: np.ndarray, quasi: bool = True) -> Self:
        """Samples given whole."""
        cuts = pairwise(_cuts(X.shape[0] * X.shape[1], X.shape[2]))
        return cls([(np.ascontiguousarray(X[:, :, i:j]), weight[i:j].copy()) for i, j in cuts], quasi)

    @property
    def size(self) -> int:
        return sum(len(weight) for _, weight in self.chunks)

    @property
    def X(self) -> np.ndarray:
        """A copy of all of them together."""
        return np.concatenate([X for X, _ in self.chunks], axis=-1)

    @property
    def weight(self) -> np.ndarray:
        return np.concatenate([weight for _, weight in self.chunks])


def _cuts(numbers: int, samples: int) -> np.ndarray:
    """Return where samples of so many numbers each are cut into chunks small enough for a core's cache."""
    parts = min(max(1, round(numbers * samples / CHUNK)), samples)
    return np.linspace(0, samples, parts + 1).astype(int)


def default_points(prior: Prior) -> int:
    """The default number of base points of a flow: 2^13 for four one-hot spikes, 2^14 with two images."""
    return max(LEAST_POINTS, 2 ** round(np.log2(DEFAULT_SAMPLES / images(prior))))


def images(prior: Prior) -> int:
    """The number of samples that `symmetric` makes of each base point."""
    if isinstance(prior, Gaussian):
        return 2
    atoms = prior.atoms()
    return 1 if atoms is None or len(atoms[1]) > MOST_IMAGES else len(_atom_images(prior, *atoms))


def base_points(prior: Prior, samples: int) -> int:
    """The number of base points that give so many samples with all their images, or a few more."""
    return max(LEAST_BASE, -(-samples // images(prior)))


def symmetric(
    model: Problem,
    points: int,
    seed: Seed,
    p: np.ndarray | None = None,
    own: int | None = None,
    paired: bool = False,
) -> Samples:
    """Quasi-random samples with the symmetries of the prior, from `points` (rounded up to a power of two) base points.

    `seed` is a number, or a number with a name and an index for one of many independent sets. `own` is how many ξ there
    are, as many as heads if not given; `paired` makes half of the base points the other half with ξ → −ξ.
    """
    own = model.heads if own is None else own
    prior, F = model.prior, model.features
    L_p = np.eye(F) if p is None else np.linalg.cholesky(p)
    if points < 1:
        raise SpecError(f"samples must be at least 1, got {points}")
    log2_points = (points - 1).bit_length()
    _require_room(model, 2**log2_points * images(prior))
    atoms = prior.atoms()
    if isinstance(prior, Gaussian) or (atoms and len(atoms[1]) <= MOST_IMAGES):
        drawn = 0  # coordinates that θ itself takes
    else:
        drawn = 1 if atoms else F
    paired = paired and log2_points > 0 and own > 0
    u, quasi = _uniforms(drawn + model.length * (F + own), log2_points - paired, seed)
    X = _normals(u[:, drawn:], model, own)
    if paired:
        u, X = np.concatenate([u, u]), np.concatenate([X, _reflected(slice(F, None))(X)], axis=-1)
    if isinstance(prior, Gaussian):
        X[:F, 0] = symmetric_root(np.eye(F) + L_p.T @ prior.matrix() @ L_p) @ X[:F, 0]
        return _imaged(X, [_same, _reflected(slice(F))], np.array([0.5, 0.5]), quasi)
    if atoms and not drawn:
        theta, P = atoms
        chosen = _atom_images(prior, theta, P)
        atom = np.array([which for _, which in chosen])
        weights = (P / np.bincount(atom, minlength=len(P)))[atom]
        made = [_image(S, theta_hat) for (S, _), theta_hat in zip(chosen, (theta @ L_p)[atom])]
        return _imaged(X, made, weights, quasi)
    theta = chosen_atoms(*atoms, u[:, 0]) if atoms else checked_theta(prior, u[:, :drawn])
    X[:F, 0] += (theta @ L_p).T
    return _imaged(X, [_same], np.ones(1), quasi)


def plain(
    model: Problem,
    points: int,
    seed: Seed | np.random.Generator,
    p: np.ndarray | None = None,
    own: int | None = None,
) -> Samples:
    """Independent samples, as in Appendix B; a generator in place of a seed is drawn from."""
    rng = seed if isinstance(seed, np.random.Generator) else _generator(seed)
    F = model.features
    _require_room(model, points)
    X = rng.standard_normal((F + (model.heads if own is None else own), model.length, points))
    theta = checked_theta(model.prior, opened(rng.random((points, F))))
    X[:F, 0] += (theta if p is None else theta @ np.linalg.cholesky(p)).T
    return Samples.of(X, np.full(points, 1 / points), quasi=False)


def _require_room(model: Problem, samples: int) -> None:
    numbers = samples * model.length * (model.features + model.heads)
    if numbers > LARGEST_X:
        raise SpecError(
            f"{samples} samples of L (F + H) = {numbers // samples} numbers take {8 * numbers / 2**30:.3g} GB, "
            f"more than {8 * LARGEST_X / 2**30:.3g}; ask for fewer samples, or a smaller model"
        )


def _generator(seed: Seed) -> np.random.Generator:
    number, *name = seed if isinstance(seed, tuple) else (seed, "samples")
    return generator(number, "/".join(["specialization", *map(str, name)]))


def _uniforms(dimension: int, log2_points: int, seed: Seed) -> tuple[np.ndarray, bool]:
    """Points [point, dimension] of the unit cube, and whether they are Sobol's, which end at some dimension."""
    rng = _generator(seed)
    if dimension > SOBOL_DIMENSIONS:
        return opened(rng.random((2**log2_points, dimension))), False
    return uniforms(dimension, log2_points, seed=int(rng.integers(2**63))), True


def _normals(u: np.ndarray, model: Problem, own: int) -> np.ndarray:
    """X [F + own, L, point] of uniforms: χ* token by token, then ξ."""
    from scipy.special import ndtri

    L, F, N = model.length, model.features, len(u)
    z = ndtri(u).T
    chi, xi = z[: L * F].reshape(L, F, N), z[L * F :].reshape(L, own, N)
    return np.ascontiguousarray(np.concatenate([chi, xi], axis=1).swapaxes(0, 1))


Image = Callable[[np.ndarray], np.ndarray]


def _imaged(X: np.ndarray, images: list[Image], P: np.ndarray, quasi: bool) -> Samples:
    """All images of base points X, one after the other, each weighted by its P; made chunk by chunk."""
    n, L, each = X.shape
    chunks = []
    for i, j in pairwise(_cuts(n * L, each * len(P))):
        within = [(k, max(i - k * each, 0), min(j - k * each, each)) for k in range(i // each, -(-j // each))]
        parts = [images[k](X[:, :, a:b]) for k, a, b in within]
        weight = np.concatenate([np.full(b - a, P[k] / each) for k, a, b in within])
        chunks.append((parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1), weight))
    return Samples(chunks, quasi)


def _same(X: np.ndarray) -> np.ndarray:
    return X.copy()


def _reflected(features: slice) -> Image:
    def image(X: np.ndarray) -> np.ndarray:
        X = X.copy()
        X[features] *= -1
        return X

    return image


def _image(S: SignedPermutation, theta_hat: np.ndarray) -> Image:
    """The samples of an atom that base points give when their features are changed by S."""
    order, signs = S
    F = len(order)

    def image(X: np.ndarray) -> np.ndarray:
        X = np.concatenate([X[:F][order] * signs[:, None, None], X[F:]])
        X[:F, 0] += theta_hat[:, None]
        return X

    return image


def _atom_images(prior: Prior, theta: np.ndarray, P: np.ndarray) -> list[tuple[SignedPermutation, int]]:
    """Pairs of an S and the atom S θ, for the first θ of every orbit: the prior's symmetries make them one another.

    Whatever S is, the normals that it gives are normal, so every atom has its law also for spikes that overlap.
    """
    F = theta.shape[1]
    if isinstance(prior, OneHotSpikes):
        rolls = [(np.roll(np.arange(F), f), np.ones(F)) for f in range(F)]
        return [(S, f) for f, S in enumerate(rolls)]
    for group in _groups(F):
        kept = [(S, atoms) for S in group if (atoms := _moved_atoms(S, theta, P)) is not None]
        first = np.unique(np.min([atoms for _, atoms in kept], axis=0)) if kept else np.arange(0)
        if 0 < len(kept) * len(first) <= MOST_IMAGES:
            return [(S, int(atoms[i])) for i in first for S, atoms in kept]
    return [((np.arange(F), np.ones(F)), i) for i in range(len(P))]


def _groups(F: int) -> Iterator[list[SignedPermutation]]:
    """Groups of signed permutations of the features, the largest first, the identity at the head of each."""
    signs = [np.array(each) for each in product((1.0, -1.0), repeat=F if F <= MOST_SIGNED else 0)]
    if F <= MOST_PERMUTED:
        yield [(np.array(order), each) for order in permutations(range(F)) for each in signs]
    if F <= MOST_SIGNED:
        yield [(np.arange(F), each) for each in signs]
    yield [(np.arange(F), np.full(F, sign)) for sign in (1.0, -1.0)]


def _moved_atoms(S: SignedPermutation, theta: np.ndarray, P: np.ndarray) -> np.ndarray | None:
    """Return which atom each atom becomes under S, or None if S changes the prior."""
    order, signs = S
    gaps = np.abs((theta[:, order] * signs)[:, None] - theta).max(axis=2)
    moved = gaps.argmin(axis=1)
    known = gaps.min(axis=1).max() <= SAME_ATOM * np.abs(theta).max() and len(set(moved)) == len(P)
    return moved if known and np.allclose(P[moved], P, rtol=SAME_ATOM, atol=0) else None
