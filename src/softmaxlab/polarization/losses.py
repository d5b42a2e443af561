"""Losses ℓ(β) of the output β = V s, over the last axis: any number of outputs at once.

    logistic        log(1 + e^{−⟨β*, β⟩})                     field beta = β* [d]
    square          ½‖β* − β‖²                                beta [d]
    regression      ‖β* − Xβ‖²                                beta [n], X [n, d]
    cross_entropy   −⟨p*, log softmax(β)⟩                     target = p* [d]
    kl              −⟨p*, log β⟩, literal, needs β > 0        target = p* [d]
    dataset         mean_i log(1 + e^{−y_i ⟨x_i, β⟩})         X [n, d], target = y [n] (±1; all 1 if not given)

Logistic and square carry γ, the speed at which the strength Γ = ∫γ dt grows: ∇ℓ = −γ β* for logistic, and for square
when β ∥ β*. `log_scale` multiplies a gradient by e^log_scale inside the exponent, so that t·γ has full precision where
t is huge and γ underflows.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from softmaxlab.core.registry import Registry, numbers_of, required_of
from softmaxlab.errors import SpecError

FIELDS = ("beta", "X", "target")  # what of a problem a loss may use


class Loss:
    """The interface that the engines use.

    `settles` says that a minimum lies at a finite β, or may: then the flow ends up stiff.
    """

    settles: ClassVar[bool] = True

    def value(self, output: np.ndarray) -> np.ndarray:
        """ℓ of outputs [..., d], shaped [...]."""
        raise NotImplementedError

    def gradient(self, output: np.ndarray, log_scale: float = 0.0) -> np.ndarray:
        """e^log_scale ∇ℓ of outputs [..., d], of the same shape."""
        raise NotImplementedError

    def gamma(self, output: np.ndarray, log_scale: float = 0.0) -> np.ndarray:
        """e^log_scale γ, for the losses that have one."""
        raise NotImplementedError(f"{type(self).__name__} has no direction, so no strength")


@dataclass(frozen=True)
class Logistic(Loss):
    beta: np.ndarray
    settles = False

    def value(self, output):
        return np.logaddexp(0.0, -(output @ self.beta))

    def gamma(self, output, log_scale=0.0):
        """γ = 1/(1 + e^m) with m = ⟨β*, β⟩."""
        return np.exp(log_scale - np.logaddexp(0.0, output @ self.beta))

    def gradient(self, output, log_scale=0.0):
        return -self.gamma(output, log_scale)[..., None] * self.beta


@dataclass(frozen=True)
class Linear(Loss):
    """−⟨β*, β⟩, for which γ = 1: the orbit that all losses along β* share. Unbounded below, so not a loss to name."""

    beta: np.ndarray
    settles = False

    def value(self, output):
        return -(output @ self.beta)

    def gradient(self, output, log_scale=0.0):
        return np.broadcast_to(-np.exp(log_scale) * self.beta, output.shape)


@dataclass(frozen=True)
class Square(Loss):
    beta: np.ndarray

    def value(self, output):
        return 0.5 * np.square(self.beta - output).sum(axis=-1)

    def gamma(self, output, log_scale=0.0):
        """γ = 1 − m/b, written as ⟨β*, β* − β⟩/b, which keeps its digits as β → β*."""
        return np.exp(log_scale) * ((self.beta - output) @ self.beta) / (self.beta @ self.beta)

    def gradient(self, output, log_scale=0.0):
        return np.exp(log_scale) * (output - self.beta)


@dataclass(frozen=True)
class Regression(Loss):
    beta: np.ndarray
    X: np.ndarray

    def value(self, output):
        return np.square(self.beta - output @ self.X.T).sum(axis=-1)

    def gradient(self, output, log_scale=0.0):
        return 2.0 * np.exp(log_scale) * ((output @ self.X.T - self.beta) @ self.X)


@dataclass(frozen=True)
class CrossEntropy(Loss):
    target: np.ndarray

    def value(self, output):
        peak = output.max(axis=-1, keepdims=True)
        log_total = peak[..., 0] + np.log(np.exp(output - peak).sum(axis=-1))
        return log_total * self.target.sum() - output @ self.target

    def gradient(self, output, log_scale=0.0):
        weights = np.exp(output - output.max(axis=-1, keepdims=True))
        return np.exp(log_scale) * (weights / weights.sum(axis=-1, keepdims=True) * self.target.sum() - self.target)


@dataclass(frozen=True)
class LiteralKL(Loss):
    """Classes with p* = 0 do not count; where p* > 0, β ≤ 0 has infinite loss."""

    target: np.ndarray

    def value(self, output):
        counts = self.target > 0
        inside = output[..., counts]
        logs = np.log(np.where(inside > 0, inside, 1.0))
        value = -(logs @ self.target[counts])
        return np.where((inside > 0).all(axis=-1), value, np.inf)

    def gradient(self, output, log_scale=0.0):
        counts = self.target > 0
        return -np.exp(log_scale) * np.where(counts, self.target / np.where(counts, output, 1.0), 0.0)


@dataclass(frozen=True)
class Dataset(Loss):
    X: np.ndarray
    target: np.ndarray | None = None

    @property
    def signed(self) -> np.ndarray:
        """The rows y_i x_i."""
        return self.X if self.target is None else self.target[:, None] * self.X

    def value(self, output):
        return np.logaddexp(0.0, -(output @ self.signed.T)).mean(axis=-1)

    def gradient(self, output, log_scale=0.0):
        margins = output @ self.signed.T
        return -np.exp(log_scale - np.logaddexp(0.0, margins)) @ self.signed / len(self.X)


@dataclass(frozen=True)
class UserLoss(Loss):
    """A torch function of one output [d]; its gradient comes from autograd."""

    function: Callable
    data: tuple[tuple[str, np.ndarray], ...] = ()

    def value(self, output):
        return np.reshape([float(self._torch(row)[1].detach()) for row in _rows(output)], output.shape[:-1])

    def gradient(self, output, log_scale=0.0):
        import torch

        slopes = [torch.autograd.grad(loss, row)[0].numpy() for row, loss in map(self._torch, _rows(output))]
        return np.exp(log_scale) * np.reshape(slopes, output.shape)

    def _torch(self, row: np.ndarray) -> tuple[Any, Any]:
        import torch

        leaf = torch.tensor(row, requires_grad=True)
        try:
            loss = self.function(leaf, **{name: torch.tensor(value) for name, value in self.data})
        except (RuntimeError, TypeError, IndexError) as error:
            raise SpecError(f"{self._name()} fails on an output of size {len(row)}: {error}") from error
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise SpecError(f"{self._name()} must return one number that depends on the output")
        return leaf, loss

    def _name(self) -> str:
        function = self.function.func if isinstance(self.function, partial) else self.function
        return f"loss {function.__name__!r}"


@dataclass(frozen=True)
class MarginLoss(Loss):
    """A torch function ℓ(m) of the margins m = ⟨β*, β⟩, any number at once: its gradient is −γ β* with γ = −ℓ′(m)."""

    function: Callable
    beta: np.ndarray

    def value(self, output):
        return self._torch(output)[1].detach().numpy().reshape(output.shape[:-1])

    def gamma(self, output, log_scale=0.0):
        import torch

        m, loss = self._torch(output)
        slope = torch.autograd.grad(loss.sum(), m)[0].numpy().reshape(output.shape[:-1])
        return -np.exp(log_scale) * slope

    def gradient(self, output, log_scale=0.0):
        return -self.gamma(output, log_scale)[..., None] * self.beta

    def _torch(self, output: np.ndarray) -> tuple[Any, Any]:
        import torch

        m = torch.tensor(np.ravel(output @ self.beta), dtype=torch.float64, requires_grad=True)
        loss = self.function(m)
        if not isinstance(loss, torch.Tensor) or loss.shape != m.shape or not loss.requires_grad:
            raise SpecError("a loss of the margin must return one number for each margin, of the same shape")
        return m, loss


def _rows(output: np.ndarray) -> np.ndarray:
    return output.reshape(-1, output.shape[-1])


@dataclass(frozen=True)
class Recipe:
    """The way to build a loss: the fields of a problem that it needs, and those that it may have.

    `along_beta` says that its gradient is along β* whatever the output.
    """

    build: Callable[..., Loss]
    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()
    along_beta: bool = False


LOSSES: Registry[Recipe] = Registry("loss")
LOSSES.add("logistic", Recipe(Logistic, needs=("beta",), along_beta=True))
LOSSES.add("square", Recipe(Square, needs=("beta",)))
LOSSES.add("regression", Recipe(Regression, needs=("beta", "X")))
LOSSES.add("cross_entropy", Recipe(CrossEntropy, needs=("target",)))
LOSSES.add("kl", Recipe(LiteralKL, needs=("target",)))
LOSSES.add("dataset", Recipe(Dataset, needs=("X",), may_have=("target",)))


def names() -> tuple[str, ...]:
    """The names of all registered losses."""
    return LOSSES.names()


def register(function: Callable | None = None, /, *, name: str | None = None, margin: bool = False):
    """Make a loss of your own torch function of the output β [d], under its own name: `@sl.polarization.register`.

    Further parameters called `beta`, `X` or `target` receive those fields of the problem; one with a default may be
    left out of the problem. With `margin=True` the function is one of the margins m = ⟨β*, β⟩, elementwise: its
    gradient is along β*, so that results have u and the strength, and `StrengthFlow` takes it. Other parameters with a
    number as default can be given with the name: `focal(m, gamma=2.0)` is also "focal:1".
    """

    def add(f: Callable) -> Callable:
        if not callable(f):
            raise SpecError(f"register takes a function, got {type(f).__name__}")
        numbers = numbers_of(f, FIELDS)
        if margin and len(needed := required_of(f)) != 1:
            raise SpecError(
                f"a loss of the margin is a function of the margins and of numbers with a default (gamma=2.0), got "
                f"{f.__name__}({', '.join(needed)})"
            )
        needs, may_have = (("beta",), ()) if margin else _data_of(f, numbers)
        build = _margin_loss if margin else _user_loss

        def with_parameters(*values: float) -> Recipe:
            return Recipe(partial(build, partial(f, **dict(zip(numbers, values)))), needs, may_have, margin)

        own = Recipe(partial(build, f), needs, may_have, margin)
        LOSSES.add(name or f.__name__, own, defined_by=f, parameters=numbers, with_parameters=with_parameters)
        return f

    return add if function is None else add(function)


def _data_of(f: Callable, numbers: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields a user's function needs, and those it may have, from its signature without its `numbers`."""
    parameters = [p for p in inspect.signature(f).parameters.values() if p.name not in numbers]
    if not parameters or any(p.name not in FIELDS for p in parameters[1:]):
        raise SpecError(f"a loss is a function of the output, then any of {', '.join(FIELDS)}, got {f.__name__}")
    optional = [p.default is not inspect.Parameter.empty for p in parameters[1:]]
    names = [p.name for p in parameters[1:]]
    return (
        tuple(n for n, may in zip(names, optional) if not may),
        tuple(n for n, may in zip(names, optional) if may),
    )


def _margin_loss(f: Callable, beta: np.ndarray) -> Loss:
    return MarginLoss(f, beta)


def _user_loss(f: Callable, **data: np.ndarray | None) -> Loss:
    return UserLoss(f, tuple((name, value) for name, value in data.items() if value is not None))
