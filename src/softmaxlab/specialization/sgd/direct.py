"""SGD as it is written, with vectors of length D: eqs. (2), (3), (5), (6). For checking `reduced`, and for any map.

    X [sample, token, D] normal, plus Σ_f θ_f k*_f in the first token;   χ = X K;   res = w(χ, b, v) − e_1
    error = Σ_l res_l X_l = ŷ − y,   loss = |error|²/D,   U = X·error/D,   ∇K = Σ_l c_l X_l with c of heads.py

Runs on any device of torch, in blocks of bounded memory.
"""

import math
import os
from dataclasses import dataclass

import numpy as np
import torch

from softmaxlab.core.random import generator, torch_generator
from softmaxlab.errors import SpecError
from softmaxlab.specialization.heads import forward
from softmaxlab.specialization.model import SingleLocation
from softmaxlab.specialization.order_parameters import OrderParameters

BLOCK = 2**22  # numbers of X in memory at a time, 32 MB; one sample at least
OPEN = 2.0**-54  # half the grid of NumPy's uniform numbers, which hold 0


@dataclass
class Total:
    """Sums over the samples of a batch: loss, its square, gradients."""

    loss: float
    square: float
    K: torch.Tensor  # [head, D]
    b: np.ndarray
    v: float


class Direct:
    """SGD of K [head, D]. `start` is η, for normal spikes and heads, or the order parameters that they shall have.

    The data looks the same in all directions, so given order parameters may lie along the first F + H axes.
    """

    def __init__(
        self,
        model: SingleLocation,
        dim: int,
        batch: int,
        start: OrderParameters | float,
        seed: int,
        device: str = "cpu",
    ):
        _check_memory(model, dim)
        self.model, self.dim, self.batch, self.device = model, dim, batch, device
        self.normal = torch_generator(seed, "specialization/direct", device)
        self.uniform = generator(seed, "specialization/direct")
        H, F = model.heads, model.features
        if isinstance(start, OrderParameters):
            self.spikes, self.K = self._padded(start.L_p), self._padded(start.K)
            self.b, self.v = start.b, start.v
        else:
            self.spikes = self._normals(F, dim) / math.sqrt(dim)
            self.K = self._normals(H, dim) * (start / math.sqrt(dim))
            self.b, self.v = np.zeros(H), 1.0
        self.p = (self.spikes @ self.spikes.T).cpu().numpy()

    def order(self) -> tuple[np.ndarray, np.ndarray]:
        """m and q."""
        return (self.K @ self.spikes.T).cpu().numpy(), (self.K @ self.K.T).cpu().numpy()

    def gradient(self) -> Total:
        """The sums over a new batch."""
        total = Total(0.0, 0.0, torch.zeros_like(self.K), np.zeros_like(self.b), 0.0)
        size = max(1, BLOCK // (self.model.length * self.dim))
        for first in range(0, self.batch, size):
            self._add(self._tokens(min(size, self.batch - first)), total)
        return total

    def step(self, total: Total, lr: float) -> None:
        """Move against the gradient of a batch."""
        kappa = lr / self.batch
        self.K -= kappa * total.K
        self.b, self.v = self.b - kappa * total.b, self.v - kappa * total.v

    def _tokens(self, samples: int) -> torch.Tensor:
        """X [sample, token, D], the signal in the first token."""
        X = self._normals(samples, self.model.length, self.dim)
        theta = self.model.prior.theta(self.uniform.random((samples, len(self.spikes))) + OPEN)
        X[:, 0] += self._tensor(theta) @ self.spikes
        return X

    def _add(self, X: torch.Tensor, total: Total) -> None:
        """Add the samples X to the sums."""
        chi = (X @ self.K.T).permute(2, 1, 0).cpu().numpy()
        heads = forward(self.model.map, chi, self.b, self.v)
        res = heads.w.copy()
        res[0] -= 1
        error = (self._tensor(res.T)[:, None] @ X)[:, 0]
        U = (X @ error[..., None])[..., 0] / self.dim
        c, b, v = heads.pullback(U.T.cpu().numpy())
        loss = (error**2).sum(dim=1) / self.dim
        total.loss += float(loss.sum())
        total.square += float(loss @ loss)
        total.K += self._tensor(c.swapaxes(1, 2)).reshape(len(c), -1) @ X.reshape(-1, self.dim)
        total.b += b.sum(axis=-1)
        total.v += float(v.sum())

    def _normals(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.normal, dtype=torch.float64, device=self.device)

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=torch.float64, device=self.device)

    def _padded(self, rows: np.ndarray) -> torch.Tensor:
        """Vectors of length D that begin with the rows and go on with zeros."""
        return torch.nn.functional.pad(self._tensor(rows), (0, self.dim - rows.shape[1]))


def _check_memory(model: SingleLocation, dim: int) -> None:
    """Refuse a dimension whose vectors do not fit: the system would end the process, not the allocation."""
    F, H, L = model.features, model.heads, model.length
    vectors = F + 3 * H + L + 1  # spikes; heads, their gradient and a block's; one sample and its error
    needed, there = 8 * vectors * dim, _memory()
    if needed > there:
        raise SpecError(
            f"dim = {dim} needs {needed / 2**30:.3g} GiB for method='direct', got {there / 2**30:.3g} GiB of memory; "
            "use method='reduced', whose cost does not depend on dim"
        )


def _memory() -> float:
    """Return the bytes of memory of this machine, if it says."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return math.inf
