"""The three models: parameters → weights s and output β, and the velocity −∇L of the parameters.

    value    β = V s,  s = σ(a)             V [d, p], a [p]       V′ = r sᵀ              a′ = x,     x = Jᵀ Vᵀ r
    tied     β = U s,  s = σ(z), z = U a    U [d, d], a [d]       U′ = r sᵀ + x aᵀ       a′ = Uᵀ x,  x = Jᵀ Uᵀ r
    matrix   β = S V,  S = σ(A) by rows     A [T, T], V [T, d]    V′ = Sᵀ R              A′ = X,     X = Jᵀ R Vᵀ
             L is the mean of ℓ over the T rows of β

r = −∇ℓ(β), and R has the rows r_t/T. J = ∂s/∂z is the map's; what it acts on, g = Vᵀr, is the signal, and what comes
out, x = Jᵀg, is the velocity of the scores through the map. `forward` takes any leading axes, such as time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from softmaxlab.polarization.losses import Loss
from softmaxlab.polarization.maps import VectorMap

Parameters = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Model:
    """`axes` names the axes of each parameter; `scored` is the parameter that makes the scores, `valued` the values."""

    axes: Mapping[str, tuple[str, ...]]
    scored: str
    valued: str
    weight_axes: tuple[str, ...]
    scores: Callable[[Parameters], np.ndarray]
    output: Callable[[Parameters, np.ndarray], np.ndarray]
    signal: Callable[[Parameters, np.ndarray], np.ndarray]  # g of (parameters, r)
    push: Callable[[Parameters, np.ndarray, np.ndarray, np.ndarray], dict[str, np.ndarray]]  # of (…, s, r, x)

    def forward(self, map: VectorMap, at: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Weights and output."""
        s = map.weights(self.scores(at))
        return s, self.output(at, s)

    def loss(self, loss: Loss, output: np.ndarray) -> np.ndarray:
        """L of outputs with the model's own axes last: the mean over rows where there are rows."""
        value = loss.value(output)
        return value.mean(axis=-1) if len(self.weight_axes) > 1 else value

    def pull(
        self, map: VectorMap, at: Parameters, z: np.ndarray, s: np.ndarray, r: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The velocity of each parameter, from scores, weights and r."""
        return self.push(at, s, r, map.pullback(z, s, self.signal(at, r)))

    def velocity(self, loss: Loss, map: VectorMap, at: Parameters, log_scale: float = 0.0) -> dict[str, np.ndarray]:
        """−e^log_scale ∇L for each parameter."""
        z = self.scores(at)
        s = map.weights(z)
        return self.pull(map, at, z, s, -loss.gradient(self.output(at, s), log_scale))


def _columns(values: np.ndarray, s: np.ndarray) -> np.ndarray:
    return (values @ s[..., None])[..., 0]


MODELS: dict[str, Model] = {
    "value": Model(
        axes={"V": ("feature", "token"), "a": ("token",)},
        scored="a",
        valued="V",
        weight_axes=("token",),
        scores=lambda at: at["a"],
        output=lambda at, s: _columns(at["V"], s),
        signal=lambda at, r: r @ at["V"],
        push=lambda at, s, r, x: {"V": np.outer(r, s), "a": x},
    ),
    "tied": Model(
        axes={"U": ("feature", "token"), "a": ("token",)},
        scored="a",
        valued="U",
        weight_axes=("token",),
        scores=lambda at: _columns(at["U"], at["a"]),
        output=lambda at, s: _columns(at["U"], s),
        signal=lambda at, r: r @ at["U"],
        push=lambda at, s, r, x: {"U": np.outer(r, s) + np.outer(x, at["a"]), "a": x @ at["U"]},
    ),
    "matrix": Model(
        axes={"A": ("query", "token"), "V": ("token", "feature")},
        scored="A",
        valued="V",
        weight_axes=("query", "token"),
        scores=lambda at: at["A"],
        output=lambda at, s: s @ at["V"],
        signal=lambda at, r: r @ at["V"].T / len(r),
        push=lambda at, s, r, x: {"V": s.T @ r / len(r), "A": x},
    ),
}
