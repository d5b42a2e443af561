"""Exact SGD at any dimension D without a vector of length D: the law of (m, q, b, v), at a cost independent of D.

The heads are K = [m̂ | r] in an orthonormal basis of their span and the spikes' (order_parameters.py), of n = F + H
vectors. What a token has outside, in R^d with d = D − n, is standard normal and independent of its coordinates X
inside: only the norm of one combination of tokens, and the Gram matrix of the gradient, are needed of it.

    inside     χ = K X, w = w(χ, b, v), res = w − e_1, ρ = |res|, o = res/ρ
    outside    the error Σ_l res_l X_l has length ρ t there, t² ~ χ²_d; along it the tokens have the entries t o + g,
               g ~ N(0, I − o oᵀ); across it they are normal in d − 1 dimensions, with no part along o
    U = [X Xᵀ res + ρ t (t o + g)] / D,   loss = res·U,   c = pullback(U) (heads.py)
    gradient   inside Σ_l c_l X_l; outside Gram matrix Q = α αᵀ + L_c T Tᵀ L_cᵀ, α = c (t o + g),
               L_c L_cᵀ = c (I − o oᵀ) cᵀ, T Tᵀ ~ Wishart_H(d − 1), and a uniform direction; summed over the batch by
               wishart.merged
    step       K −= (γ/N_b) Σ gradient inside,  q⊥ = r rᵀ + (γ/N_b)² Q

Samples are drawn in fixed blocks, each with its own generator: the numbers do not depend on the number of threads.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from softmaxlab.core.pool import cores
from softmaxlab.core.random import generator
from softmaxlab.specialization.heads import forward
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters
from softmaxlab.specialization.sampling import plain
from softmaxlab.specialization.sgd.wishart import bartlett, cholesky, gram, merged, product

BLOCK = 2500  # samples: few enough for the cache, enough for vectorised work; four blocks in the paper's batch of 1e4
NUMBERS = 2**20  # that an array of a block may hold, with many tokens or heads
PARTS = 32  # to which a block merges its samples; below, a vectorised round is mostly overhead


@dataclass(frozen=True)
class Total:
    """Sums over the samples of a batch, or of a block of it: loss, its square, gradients inside and outside, ∂b, ∂v."""

    loss: float
    square: float
    inside: np.ndarray  # [head, F + H]
    outside: np.ndarray  # [head, head, part], Gram matrices of independent parts
    b: np.ndarray
    v: float


class Reduced:
    """SGD in the order parameters, from `start`, for the maps with a closed form."""

    def __init__(self, model: SingleLocation, dim: int, batch: int, start: OrderParameters, seed: int):
        self.model, self.dim, self.batch = model, dim, batch
        self.K, self.b, self.v, self.p = start.K, start.b, start.v, start.p
        self.d = dim - self.K.shape[1]
        H, n = self.K.shape
        count = math.ceil(batch / min(BLOCK, max(1, NUMBERS // (n * max(H, model.length)))))
        sizes = [batch // count + (i < batch % count) for i in range(count)]
        self.blocks = [(generator(seed, f"specialization/reduced {i}"), size) for i, size in enumerate(sizes)]
        self.merging = generator(seed, "specialization/reduced")
        self.pool = ThreadPoolExecutor(min(count, cores()))

    def order(self) -> tuple[np.ndarray, np.ndarray]:
        """m and q."""
        F = len(self.p)
        return self.K[:, :F] @ np.linalg.cholesky(self.p).T, self.K @ self.K.T

    def gradient(self) -> Total:
        """The sums over a new batch."""
        each = self.pool.map if len(self.blocks) > 1 else map
        totals = list(each(lambda block: self._block(*block), self.blocks))
        parts = np.concatenate([total.outside for total in totals], axis=-1)
        return Total(
            loss=sum(total.loss for total in totals),
            square=sum(total.square for total in totals),
            inside=np.sum([total.inside for total in totals], axis=0),
            outside=merged(self.merging, parts, self.d),
            b=np.sum([total.b for total in totals], axis=0),
            v=sum(total.v for total in totals),
        )

    def step(self, total: Total, lr: float) -> None:
        """Move against the gradient of a batch."""
        F, kappa = len(self.p), lr / self.batch
        K = self.K - kappa * total.inside
        q_perp = gram(K[:, F:, None]) + kappa * kappa * total.outside
        self.K = np.hstack([K[:, :F], cholesky(q_perp)[..., 0]])
        self.b, self.v = self.b - kappa * total.b, self.v - kappa * total.v

    @np.errstate(all="ignore")  # what is not finite is noticed by whoever asked
    def _block(self, draw: np.random.Generator, samples: int) -> Total:
        X = plain(self.model, samples, draw, self.p).X
        n, L, _ = X.shape
        chi = (self.K @ X.reshape(n, -1)).reshape(-1, L, samples)
        heads = forward(self.model.map, chi, self.b, self.v)
        res = heads.w.copy()
        res[0] -= 1
        rho, o = _polar(res)
        t = np.sqrt(2 * draw.standard_gamma(self.d / 2, samples))
        g = draw.standard_normal((L, samples))
        g -= (o * g).sum(axis=0) * o
        along = t * o + g
        U = self._overlaps(X, res, rho * t * along)
        c, b, v = heads.pullback(U)
        loss = (res * U).sum(axis=0)
        return Total(
            loss=float(loss.sum()),
            square=float(loss @ loss),
            inside=c.reshape(-1, L * samples) @ X.reshape(n, -1).T,
            outside=merged(draw, self._outside(draw, c, o, along), self.d, PARTS),
            b=b.sum(axis=-1),
            v=float(v.sum()),
        )

    def _overlaps(self, X: np.ndarray, res: np.ndarray, outside: np.ndarray) -> np.ndarray:
        """U = (X Xᵀ/D) res: the tokens' overlaps with the error, inside and outside."""
        error = np.einsum("kln,ln->kn", X, res)
        return (np.einsum("kln,kn->ln", X, error) + outside) / self.dim

    def _outside(self, draw: np.random.Generator, c: np.ndarray, o: np.ndarray, along: np.ndarray) -> np.ndarray:
        """Q [head, head, sample]."""
        H, _, samples = c.shape
        alpha = np.einsum("hln,ln->hn", c, along)
        across = c - np.einsum("hln,ln->hn", c, o)[:, None] * o
        factor = product(cholesky(gram(across)), bartlett(draw, H, self.d - 1, samples))
        return gram(factor) + alpha[:, None] * alpha


def _polar(res: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ρ and o; o = 0 where there is no error at all."""
    rho = np.sqrt((res * res).sum(axis=0))
    return rho, np.divide(res, rho, where=rho > 0, out=np.zeros_like(res))
