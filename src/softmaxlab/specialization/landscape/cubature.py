"""Exact cubature of the population loss for small L, H and F, differentiable by torch in float64.

    Ẽ(m, r, b, v) = E Σ_l (w_l − δ_{l,1})²,   w = (v/H) Σ_h map(χ)_h,   χ = K X,   K = [m | r]           eq. (10), p = I
    X [F + H, L] standard normal, plus θ ~ P_θ on the first token:   Ẽ ≈ Σ_i ω_i loss(K, X_i)

X_i runs over the tensor product of Gauss–Hermite nodes, `nodes` for each coordinate, with every atom θ of the prior (a
Gaussian θ is absorbed: the first token then has covariance I + Cov θ).

What is exact. A derivative of total order k in (m, r) at m = r = 0 is the mean of a polynomial of degree k in X, which
the rule integrates without error for k ≤ 2·nodes − 1, whatever the derivatives in b and v: 2 nodes give the Hessian, 3
the fourth derivatives. Elsewhere the error falls geometrically with the nodes: compare two numbers of nodes.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from softmaxlab.attention import weights
from softmaxlab.errors import SpecError
from softmaxlab.specialization.heads import learns_bias, learns_gain
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.priors import Gaussian, Prior

MAX_POINTS = 4_000_000  # beyond it the points no longer fit in memory together with autograd's records


@dataclass(frozen=True)
class Cubature:
    """Points X [coordinate, token, point] and their weights ω [point]; `loss` is Ẽ as a torch scalar."""

    model: SingleLocation
    X: Tensor
    weight: Tensor

    def loss(self, m: Tensor, r: Tensor | None = None, b: Tensor | None = None, v: Tensor | float = 1.0) -> Tensor:
        """Ẽ at m [head, feature], r [head, head] (0 if not given), b [head] (0 if not given) and v."""
        F = self.model.features
        chi = torch.einsum("hf,fln->nhl", m, self.X[:F])
        if r is not None:
            if len(self.X) == F:
                raise SpecError("r needs a cubature over ξ, built with orthogonal=True")
            chi = chi + torch.einsum("hk,kln->nhl", r, self.X[F:])
        given = {"bias": b} if b is not None and learns_bias(self.model.map) else {}
        w = weights(self.model.map, chi[:, :, None, :], **given)[:, :, 0].mean(dim=1)
        w = v * w if learns_gain(self.model.map) else w
        target = torch.zeros_like(w)
        target[:, 0] = 1.0
        return self.weight @ ((w - target) ** 2).sum(dim=1)


def cubature(model: SingleLocation, nodes: int, orthogonal: bool = False) -> Cubature:
    """The rule with that many nodes for each coordinate; `orthogonal` includes ξ, which only r ≠ 0 needs."""
    F, L = model.features, model.length
    n = F + (model.heads if orthogonal else 0)
    mixing, shifts, P = _first_token(model.prior)
    points = nodes ** (n * L) * len(P)
    if nodes < 1 or points > MAX_POINTS:
        raise SpecError(f"nodes must be ≥ 1 and give at most {MAX_POINTS} points, got {nodes}: {points} points")
    z, omega = _tensor_rule(n * L, nodes)
    X = np.repeat(z.reshape(n, L, 1, -1), len(P), axis=2)
    X[:F, 0] = np.einsum("fg,gkn->fkn", mixing, X[:F, 0]) + shifts.T[:, :, None]
    return Cubature(model, torch.from_numpy(X.reshape(n, L, -1)), torch.from_numpy(np.outer(P, omega).ravel()))


def _first_token(prior: Prior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A [feature, feature], shifts [atom, feature] and their probabilities: χ* of the first token is A z + shift."""
    atoms = prior.atoms()
    if atoms is not None:
        return np.eye(prior.features), *atoms
    if isinstance(prior, Gaussian):
        F = prior.features
        return np.linalg.cholesky(np.eye(F) + prior.matrix()), np.zeros((1, F)), np.ones(1)
    raise SpecError(f"a cubature needs a discrete or Gaussian prior, got {type(prior).__name__}")


def _tensor_rule(dimension: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Points [dimension, point] and weights [point] whose mean is that of a standard normal vector."""
    z, omega = np.polynomial.hermite_e.hermegauss(nodes)
    omega = omega / omega.sum()
    grid = np.array(np.meshgrid(*[z] * dimension, indexing="ij")).reshape(dimension, -1)
    return grid, reduce(lambda left, right: np.outer(left, right).ravel(), [omega] * dimension)
