"""Gram matrices without vectors, against the vectors themselves."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma

from softmaxlab.specialization.sgd.wishart import bartlett, cholesky, gram, merged, product, rotation_block

SAMPLES = 20_000
CERTAIN = 5.0  # standard errors, for each of a few dozen numbers under a fixed seed
SAME_LAW = 1e-4  # p-value, likewise
ROUNDING = 1e-12  # of matrices of order 10
DECISIVE = 1e-10


def draw(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def assert_mean(values: np.ndarray, expected: np.ndarray) -> None:
    """The mean over the last axis, within its standard errors."""
    error = values.std(axis=-1) / np.sqrt(values.shape[-1])
    assert (np.abs(values.mean(axis=-1) - expected) <= CERTAIN * error + ROUNDING).all()


def random_grams(size: int, rank: int, samples: int) -> np.ndarray:
    return gram(draw(7).standard_normal((size, rank, samples)))


@pytest.mark.parametrize("freedom", [3, 4, 50])
def test_bartlett_has_the_moments_of_wishart(freedom):
    H = 3
    W = gram(bartlett(draw(), H, freedom, SAMPLES))
    assert_mean(W, freedom * np.eye(H))
    # Var W_ij = k (1 + δ_ij)
    assert_mean((W - freedom * np.eye(H)[..., None]) ** 2, freedom * (1 + np.eye(H)))
    # E log det W = Σ_i ψ((k − i)/2) + H log 2, which the two moments leave open
    log_det = np.log(np.linalg.det(np.moveaxis(W, -1, 0)))
    assert_mean(log_det, digamma((freedom - np.arange(H)) / 2).sum() + H * np.log(2))


@pytest.mark.parametrize("rank", [1, 2, 4, 6])
def test_cholesky_of_any_rank(rank):
    Q = random_grams(4, rank, 500)
    R = cholesky(Q)
    np.testing.assert_allclose(gram(R), Q, atol=ROUNDING)
    assert np.all(R[np.triu_indices(4, 1)] == 0)


def test_cholesky_of_nothing_is_nothing_and_of_the_infinite_is_not_finite():
    assert not cholesky(np.zeros((2, 2, 1))).any()
    for bad in (np.nan, np.inf):
        with np.errstate(invalid="ignore"):
            assert np.isnan(cholesky(np.full((2, 2, 1), bad))).any()


def uniform_frames(rng: np.random.Generator, shape: tuple[int, ...], d: int, H: int) -> np.ndarray:
    """H orthonormal columns of R^d, [..., d, H]. LAPACK chooses their signs; R's make them uniform again."""
    Q, R = np.linalg.qr(rng.standard_normal((*shape, d, H)))
    return Q * np.sign(np.einsum("...ii->...i", R))[..., None, :]


@pytest.mark.parametrize("d", [4, 9])
def test_rotation_block_against_orthonormal_frames(d):
    H, samples = 2, 4000
    B = rotation_block(draw(1), H, d, samples)
    O_A, O_B = np.moveaxis(uniform_frames(draw(2), (samples, 2), d, H), 1, 0)
    direct = np.moveaxis(np.swapaxes(O_B, 1, 2) @ O_A, 0, -1)
    # entries, and what makes the block more than independent entries: its determinant and its norm
    for f in (lambda b: b[0, 0], lambda b: b[1, 0], lambda b: b[0, 0] * b[1, 1] - b[0, 1] * b[1, 0]):
        assert stats.ks_2samp(f(B), f(direct)).pvalue > SAME_LAW
    assert stats.ks_2samp((B**2).sum(axis=(0, 1)), (direct**2).sum(axis=(0, 1))).pvalue > SAME_LAW
    assert_mean(B[0, 0] ** 2, np.array(1 / d))


def sums_of_vectors(parts: np.ndarray, d: int, samples: int) -> np.ndarray:
    """Gram matrices [H, H, sample] of Σ_i R_i O_i with uniform frames O_i: `parts` are the R_i [part, H, H]."""
    frames = uniform_frames(draw(3), (samples, len(parts)), d, parts.shape[1])
    total = np.einsum("phk,spdk->shd", parts, frames)
    return np.moveaxis(total @ np.swapaxes(total, 1, 2), 0, -1)


def merged_sums(R: np.ndarray, d: int, samples: int) -> np.ndarray:
    rng = draw(4)
    Q = np.moveaxis(R @ np.swapaxes(R, 1, 2), 0, -1)
    return np.concatenate([merged(rng, Q, d) for _ in range(samples)], axis=-1)


@pytest.mark.parametrize(("parts", "d"), [(2, 4), (5, 4), (7, 30)])
def test_merged_parts_have_the_law_of_sums_of_vectors(parts, d):
    samples = 2000
    R = np.tril(draw(5).standard_normal((parts, 2, 2)))
    R[0, 1, 1] = 0  # a singular part
    ours, direct = merged_sums(R, d, samples), sums_of_vectors(R, d, samples)
    for i, j in ((0, 0), (1, 0), (1, 1)):
        assert stats.ks_2samp(ours[i, j], direct[i, j]).pvalue > SAME_LAW
    det = [x[0, 0] * x[1, 1] - x[0, 1] ** 2 for x in (ours, direct)]
    assert stats.ks_2samp(*det).pvalue > SAME_LAW


def test_a_wrong_dimension_is_noticed():
    R = np.tril(draw(5).standard_normal((5, 2, 2)))
    ours, wrong = merged_sums(R, 4, 2000), sums_of_vectors(R, 8, 2000)
    assert stats.ks_2samp(ours[0, 0], wrong[0, 0]).pvalue < DECISIVE


def test_merging_to_a_few_parts_keeps_the_mean():
    Q = random_grams(3, 2, 300)
    parts = merged(draw(), Q, 40, parts=32)
    assert parts.shape == (3, 3, 19)  # 300 → 150 → 75 → 38 → 19
    totals = np.stack([merged(draw(seed), Q, 40, parts=32).sum(axis=-1) for seed in range(300)], axis=-1)
    assert_mean(totals, Q.sum(axis=-1))


def test_products_of_stacks():
    A, B = draw().standard_normal((2, 3, 3, 5))
    np.testing.assert_allclose(product(A, B)[..., 4], A[..., 4] @ B[..., 4], atol=ROUNDING)
    np.testing.assert_allclose(gram(A)[..., 4], A[..., 4] @ A[..., 4].T, atol=ROUNDING)
