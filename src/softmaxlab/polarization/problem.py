"""The problem to be learned, shared by Flow and Descent: a loss of a model's output, and where the parameters start.

    L(V σ(a))   with ℓ from losses.py, σ from softmaxlab.attention, the model from models.py

Everything that can be wrong with the fields together is said here, in one line, before any work.
"""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import model_validator

from softmaxlab.attention import MAPS
from softmaxlab.core.arrays import Array
from softmaxlab.core.registry import Named
from softmaxlab.core.spec import Spec
from softmaxlab.polarization.losses import FIELDS, LOSSES, Loss
from softmaxlab.polarization.maps import VectorMap, vector_map
from softmaxlab.polarization.models import MODELS, Model

SUM_TOLERANCE = 1e-6  # a target distribution may come from float32
HUGE_WEIGHT = 1e12  # a share f(a)/Σf(a) this large has a Σf(a) that is zero but for rounding
BYTES = 2**28  # values that would take more are kept at the first and the last time only
COPIES, OF_A_TIME = 3, 4  # batches, their concatenation and a result; parameters, scores, u and loss of a time
DIMENSIONS = {"beta": 1, "V": 2, "a": 1, "U": 2, "A": 2, "X": 2, "target": 1}
# axes that must agree, as (field, axis): of the model's parameters, and of the loss's data with the output
SHARED_AXES = {
    "value": ("V", 1, "a", 0),
    "tied": ("U", 1, "a", 0),
    "matrix": ("A", 1, "V", 0),
}
SQUARE_FIELDS = {"tied": "U", "matrix": "A"}
OUTPUT_AXIS = {"value": ("V", 0), "tied": ("U", 0), "matrix": ("V", 1)}


class Problem(Spec):
    """A loss, a map, a model and the parameters at t = 0. Which arrays are needed depends on model and loss.

    `beta` is β*, `X` and `target` are the loss's data (see losses.py); `V`, `a`, `U`, `A` are the parameters of the
    model (see models.py). `freeze` keeps the values ("V") or the scores ("a"; A of the matrix model) where they start.
    """

    loss: Annotated[str, Named(LOSSES)]
    map: Annotated[str, Named(MAPS)] = "softmax"
    model: Literal["value", "tied", "matrix"] = "value"
    beta: Array | None = None
    V: Array | None = None
    a: Array | None = None
    U: Array | None = None
    A: Array | None = None
    X: Array | None = None
    target: Array | None = None
    freeze: Literal["V", "a"] | None = None

    @model_validator(mode="after")
    def _sound(self) -> Self:
        self._check_map()
        self._check_presence()
        self._check_shapes()
        self._check_loss_data()
        self._check_start()
        return self

    def model_of(self) -> Model:
        return MODELS[self.model]

    def map_of(self) -> VectorMap:
        return vector_map(self.map)

    def loss_of(self) -> Loss:
        recipe = LOSSES[self.loss]
        return recipe.build(**{name: getattr(self, name) for name in (*recipe.needs, *recipe.may_have)})

    def given(self, name: str) -> np.ndarray:
        """An array that this problem has."""
        array = getattr(self, name)
        if array is None:
            raise ValueError(f"{name} is required here")
        return array

    def start(self) -> dict[str, np.ndarray]:
        """The parameters at t = 0, frozen ones included."""
        return {name: self.given(name) for name in self.model_of().axes}

    def size(self) -> int:
        """The number of numbers in the parameters."""
        return sum(array.size for array in self.start().values())

    def record_memory(self, points: int) -> float:
        """Bytes of the record of so many times, with the copies that are made of it."""
        values, numbers = self.given(self.model_of().valued), self.size()
        wide = 0 if too_large(values, points) else values.size
        return COPIES * 8.0 * (points * (wide + OF_A_TIME * (numbers - values.size) + OF_A_TIME) + numbers)

    def frozen(self) -> str | None:
        """The name of the parameter that does not move, if any."""
        if self.freeze is None:
            return None
        return self.model_of().valued if self.freeze == "V" else self.model_of().scored

    def _check_map(self) -> None:
        if MAPS[self.map].features is not None:
            raise ValueError(f"map {self.map!r} acts on queries and keys, not on scores, so it has no flow here")
        if self.model == "tied" and self.freeze == "V":
            raise ValueError("freeze='V' has no meaning in the tied model, where U makes both values and scores")

    def _check_presence(self) -> None:
        recipe = LOSSES[self.loss]
        needed = {name: f"model {self.model!r}" for name in self.model_of().axes}
        needed |= {name: f"loss {self.loss!r}" for name in recipe.needs}
        for name, owner in needed.items():
            if getattr(self, name) is None:
                raise ValueError(f"{name} is required for {owner}")
        for name in DIMENSIONS:
            if getattr(self, name) is not None and name not in needed and name not in recipe.may_have:
                owner = f"loss {self.loss!r}" if name in FIELDS else f"model {self.model!r}"
                raise ValueError(f"{name} is not used by {owner}, leave it out")

    def _check_shapes(self) -> None:
        for name, dimensions in DIMENSIONS.items():
            array = getattr(self, name)
            if array is not None and (array.ndim != dimensions or array.size == 0):
                kind = "vector" if dimensions == 1 else "matrix"
                raise ValueError(f"{name} must be a non-empty {kind}, got shape {list(array.shape)}")
        square = SQUARE_FIELDS.get(self.model)
        if square and len(set(getattr(self, square).shape)) > 1:
            raise ValueError(f"{square} must be square, got shape {list(getattr(self, square).shape)}")
        first, i, second, j = SHARED_AXES[self.model]
        self._check_same(first, i, second, j)

    def _check_same(self, first: str, i: int, second: str, j: int) -> None:
        shapes = [getattr(self, name).shape for name in (first, second)]
        if shapes[0][i] != shapes[1][j]:
            raise ValueError(
                f"{second} must match {first}: axis {j} of {second} and axis {i} of {first} must be equal, "
                f"got {second} of shape {list(shapes[1])} and {first} of shape {list(shapes[0])}"
            )

    def _check_loss_data(self) -> None:
        values, axis = OUTPUT_AXIS[self.model]
        if self.beta is not None and not self.beta.any():
            raise ValueError("beta must not be zero: it gives no direction to learn")
        if self.X is not None:
            self._check_same(values, axis, "X", 1)
        if self.loss == "regression":
            self._check_same("X", 0, "beta", 0)
        elif self.beta is not None:
            self._check_same(values, axis, "beta", 0)
        if self.loss == "dataset" and self.target is not None:
            self._check_same("X", 0, "target", 0)
            if not (np.abs(self.target) == 1).all():
                raise ValueError("target must hold labels, each 1 or -1")
        elif self.loss in ("cross_entropy", "kl"):
            self._check_same(values, axis, "target", 0)
            least, total = self.given("target").min(), self.given("target").sum()
            if least < 0 or abs(total - 1) > SUM_TOLERANCE:
                raise ValueError(
                    f"target must be a distribution (not negative, sum 1), got least {least:.4g} and sum {total:.6g}"
                )

    def _check_start(self) -> None:
        """The loss must be finite at t = 0, and the weights must be defined and able to move."""
        at, map, model = self.start(), self.map_of(), self.model_of()
        scores = "U a" if self.model == "tied" else model.scored
        with np.errstate(all="ignore"):
            z = model.scores(at)
            s, output = model.forward(map, at)
            value = self.loss_of().value(output)
        if not (np.abs(s) < HUGE_WEIGHT).all():
            raise ValueError(f"{scores} is a point where map {self.map!r} divides by zero: Σf({scores}) = 0")
        still = ~s.any(axis=-1) & ~map.pullback(z, s, np.arange(1.0, s.shape[-1] + 1) + np.zeros_like(s)).any(axis=-1)
        if still.any():
            raise ValueError(f"{scores} gives weights that are all 0 under map {self.map!r} and can never move")
        if self.loss == "kl" and not np.isfinite(value).all():
            raise ValueError("V s must be positive where target is, for loss 'kl' is infinite at β_i ≤ 0")
        if not np.isfinite(value).all():
            raise ValueError(f"loss {self.loss!r} is not finite at the start, got {value}")


def too_large(values: np.ndarray, points: int) -> bool:
    """Whether the values (V, or U) at `points` times are too much to keep."""
    return values.nbytes * points > BYTES
