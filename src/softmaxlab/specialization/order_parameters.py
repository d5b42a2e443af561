"""Order parameters: all that the loss and its flow know of heads k_h and spikes k*_f.

    m_hf = k_h·k*_f,   q_hh' = k_h·k_h',   p_ff' = k*_f·k*_f',   r rᵀ = q⊥ = q − m p⁻¹ mᵀ           eqs. (8), (9)

r is any square root: only r rᵀ matters, and the flow leaves the symmetric matrices (docs/errata.md). With
p = L_p L_pᵀ the heads have coordinates K = [m̂ | r], m̂ = m L_p⁻ᵀ, in an orthonormal basis of the spikes and of the
heads' own directions; a signal θ has coordinates θ̂ = L_pᵀ θ there, so everything is the case p = I.
"""

from typing import Any, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.arrays import Array, frozen_array
from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.core.spec import Record
from softmaxlab.errors import SpecError
from softmaxlab.specialization.problem import Problem
from softmaxlab.specialization.symmetric_root import symmetric_root

ROUNDING = 1e-9  # how negative an eigenvalue of a Gram matrix may be, relative to its largest, before it is an error


class OrderParameters(Record):
    """m [head, feature], r [head, head], b [head] (0 if not given), v, and p [feature, feature] (I if not given)."""

    m: Array
    r: Array
    b: Array = Field(default_factory=lambda given: np.zeros(np.atleast_1d(given["m"]).shape[0]))
    v: float = 1.0
    p: Array = Field(default_factory=lambda given: np.eye(np.atleast_1d(given["m"]).shape[-1]))

    @model_validator(mode="before")
    @classmethod
    def _given(cls, fields: Any) -> Any:
        """Leave out arguments that are None: they are the same as arguments not given."""
        return {n: value for n, value in fields.items() if value is not None} if isinstance(fields, dict) else fields

    @model_validator(mode="after")
    def _shaped(self) -> Self:
        if self.m.ndim != 2 or 0 in self.m.shape:
            raise ValueError(f"m must be [head, feature], got shape {list(self.m.shape)}")
        H, F = self.m.shape
        for name, value, shape in (("r", self.r, (H, H)), ("b", self.b, (H,)), ("p", self.p, (F, F))):
            if value.shape != shape:
                raise ValueError(f"{name} must have shape {list(shape)} for m {[H, F]}, got {list(value.shape)}")
        _require_positive("p", self.p, strictly=True)
        return self

    @classmethod
    def from_q(cls, m: Any, q: Any, b: Any = None, v: float = 1.0, p: Any = None) -> Self:
        """The order parameters with overlaps q, r being the symmetric root of q⊥."""
        m, q = (_array(name, value) for name, value in (("m", m), ("q", q)))
        order = cls(m=m, r=np.zeros((m.shape[:1] or (0,)) * 2), b=b, v=v, p=p)
        if q.shape != order.r.shape:
            raise SpecError(f"q must have shape {list(order.r.shape)} for m {list(m.shape)}, got {list(q.shape)}")
        q_perp = q - order.m_hat @ order.m_hat.T
        _require_positive("q − m p⁻¹ mᵀ", q_perp, scale=float(np.abs(q).max()))
        return order.replace(r=symmetric_root(q_perp))

    @classmethod
    def at(cls, result: Result, row: int = -1) -> Self:
        """The order parameters at one recorded time of a result of Flow or SGD; the last time if `row` is not given."""
        if not isinstance(result, Result) or result.axes.get("m") != ("tau", "head", "feature"):
            kind = type(result).__name__
            if isinstance(result, Result):
                kind = f"a result of {result.spec.kind}" if result.spec else "a result without a spec"
            raise SpecError(f"order parameters need a result of Flow or SGD with m [tau, head, feature], got {kind}")
        times = len(result["m"])
        if not isinstance(row, (int, np.integer)) or not -times <= row < times:
            raise SpecError(f"row must be one of {times} recorded times, from {-times} to {times - 1}, got {row!r}")
        values = {name: result[name][row] for name in ("m", "r", "q", "b", "v") if name in result}
        values |= {"p": result.arrays.get("p"), "v": float(values.get("v", 1.0))}
        if "r" in values:
            return cls(**{name: value for name, value in values.items() if name != "q"})
        if "q" not in values:
            raise SpecError("order parameters need r or q beside m, and the result has neither")
        return cls.from_q(**values)

    def of(self, model: Problem) -> Self:
        """Itself, if it fits the model."""
        expected = (model.heads, model.features)
        if self.m.shape != expected:
            raise SpecError(f"m must be [head, feature] = {list(expected)} for this model, got {list(self.m.shape)}")
        return self

    @property
    def L_p(self) -> np.ndarray:
        return np.linalg.cholesky(self.p)

    @property
    def m_hat(self) -> np.ndarray:
        return np.linalg.solve(self.L_p, self.m.T).T

    @property
    def K(self) -> np.ndarray:
        """[m̂ | r], [head, feature and head]."""
        return np.hstack([self.m_hat, self.r])

    @property
    def q(self) -> np.ndarray:
        return self.K @ self.K.T


def noisy_start(model: Problem, eta: float, noise: float, seed: int) -> OrderParameters:
    """m = 0 and r = η I, each entry with normal noise of that standard deviation: the start of Appendix B."""
    H, F = model.heads, model.features
    normal = generator(seed, "specialization/start").standard_normal((H, F + H))
    return OrderParameters(m=noise * normal[:, :F], r=eta * np.eye(H) + noise * normal[:, F:])


def random_start(model: Problem, dim: int, eta: float, seed: int) -> OrderParameters:
    """The order parameters of k*_f ~ N(0, I/D) and k_h ~ N(0, η² I/D), drawn without a vector of length D.

    The Gram matrix of F + H standard normal vectors is T Tᵀ with Bartlett's T: normal below the diagonal, the root of a
    χ² with D − i degrees of freedom at i.
    """
    F, n = model.features, model.features + model.heads
    if dim < n:
        raise SpecError(f"dim must be at least F + H = {n}, got {dim}")
    draw = generator(seed, "specialization/random start")
    T = np.tril(draw.standard_normal((n, n)), -1) + np.diag(np.sqrt(draw.chisquare(dim - np.arange(n))))
    T /= np.sqrt(dim)
    L_p, m_hat, r = T[:F, :F], eta * T[F:, :F], eta * T[F:, F:]
    return OrderParameters(m=m_hat @ L_p.T, r=r, p=L_p @ L_p.T)


def _array(name: str, value: Any) -> np.ndarray:
    try:
        return frozen_array(value)
    except ValueError as error:
        raise SpecError(f"{name} {error}") from None


def _require_positive(name: str, matrix: np.ndarray, scale: float | None = None, strictly: bool = False) -> None:
    """An error if a matrix is not symmetric and positive, up to rounding."""
    if not np.isfinite(matrix).all():
        raise SpecError(f"{name} must be finite, but its entries overflow")
    rounding = ROUNDING * float(np.abs(matrix).max() if scale is None else scale)
    gap = np.abs(matrix - matrix.T)
    if gap.max() > rounding:
        i, j = sorted(int(k) for k in np.unravel_index(gap.argmax(), gap.shape))
        pair = f"[{i}, {j}] = {matrix[i, j]:g} and [{j}, {i}] = {matrix[j, i]:g}"
        raise SpecError(f"{name} must be symmetric, its entries {pair} differ")
    least = np.linalg.eigvalsh(matrix)[0]
    if least < -rounding or (strictly and least <= rounding):
        kind = "definite" if strictly else "semidefinite"
        raise SpecError(f"{name} must be positive {kind}, got an eigenvalue {least:g}")
