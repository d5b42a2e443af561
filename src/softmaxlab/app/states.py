"""The states of the four pages, and the specs that compute them. Ranges are what answers while a slider is dragged.

Polarization, with V from u = u(0) and the target fixed, so that a view is a few numbers:

    logistic, square       β* = 1, V = uᵀ: one feature
    cross_entropy, kl      V = diag(u): token i speaks for class i; target p* ∝ p, p − 1, …, 1
"""

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.app.permalink import State
from softmaxlab.attention.compare import Compare
from softmaxlab.attention.registry import MAPS
from softmaxlab.errors import unknown
from softmaxlab.polarization import Descent, Flow
from softmaxlab.polarization.losses import LOSSES
from softmaxlab.polarization.maps import BUILT_IN
from softmaxlab.specialization import FlippingSpike, Gaussian, OneHotSpikes, Prior, SingleLocation
from softmaxlab.specialization import Flow as HeadsFlow

MOST_TOKENS, MOST_HEADS = 8, 8
POINTS = 300  # recorded times of a curve
FLOW_UNTIL, DESCENT_UNTIL = 30.0, 5.5  # largest horizon: log10 of the time, and of the steps
PLAIN_UNTIL = 2.5  # of maps whose descent is not compiled: half a millisecond a step
PLAIN_MAPS = ("sparsemax", "entmax15")
# Maps with a formula in NumPy; the others go through torch, and their flow takes seconds.
VALUE_MAPS = tuple(name for name in BUILT_IN if name != "uniform")
DIRECTED = ("logistic", "square")  # losses whose gradient is along β*
VALUE_LOSSES = (*DIRECTED, "cross_entropy", "kl")

Value = Annotated[float, Field(ge=-3.0, le=3.0)]
Score = Annotated[float, Field(ge=-4.0, le=4.0)]
Wide = Annotated[float, Field(ge=-6.0, le=6.0)]
Strength = Annotated[float, Field(ge=0.1, le=30.0)]


class Polarization(State):
    """A loss, a map, an optimizer and where p tokens start; `horizon` is log10 of the time (flow) or of the steps."""

    loss: str = "logistic"
    map: str = "softmax"
    optimizer: Literal["flow", "gd", "momentum", "adam", "adamw"] = "flow"
    p: int = Field(default=3, ge=2, le=MOST_TOKENS)
    u: tuple[Value, ...] = (0.6, 0.4, 0.0)
    a: tuple[Score, ...] = (0.0, 0.0, 0.0)
    horizon: float = Field(default=5.0, ge=0.0, le=FLOW_UNTIL)
    lr: float = Field(default=0.1, ge=1e-3, le=1.0)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        for name, value, known in (("map", self.map, offered_maps()), ("loss", self.loss, offered_losses())):
            if value.partition(":")[0] not in known:
                raise unknown(name, value, known)
        for name in ("u", "a"):
            if len(getattr(self, name)) != self.p:
                raise ValueError(f"{name} must have p = {self.p} numbers, got {len(getattr(self, name))}")
        if self.horizon > self.longest():
            what = "10^horizon steps" if self.optimizer != "flow" else "time 10^horizon"
            raise ValueError(f"horizon must be at most {self.longest():g} ({what}) here, got {self.horizon:g}")
        self.spec()
        return self

    def longest(self) -> float:
        """The largest horizon of this optimizer and map."""
        if self.optimizer == "flow":
            return FLOW_UNTIL
        is_compiled = self.map in VALUE_MAPS and self.map not in PLAIN_MAPS and self.loss in VALUE_LOSSES
        return DESCENT_UNTIL if is_compiled else PLAIN_UNTIL

    def spec(self, **changes: Any) -> Flow | Descent:
        """Return the spec of this view, with the given changes."""
        fields = {"loss": self.loss, "map": self.map, "a": self.a, "points": POINTS} | self._data()
        if self.optimizer == "flow":
            # 1e-7 is far finer than a pixel, and half as long to wait as the default
            return Flow(**fields | {"t_end": 10.0**self.horizon, "rtol": 1e-7} | changes)
        steps = {"lr": self.lr, "steps": round(10.0**self.horizon), "optimizer": self.optimizer}
        return Descent(**fields | steps | changes)

    def _data(self) -> dict[str, Any]:
        if self.loss in ("cross_entropy", "kl"):
            votes = np.arange(self.p, 0.0, -1.0)
            return {"target": votes / votes.sum(), "V": np.diag(self.u)}
        return {"beta": (1.0,), "V": (self.u,)}


def offered_maps() -> tuple[str, ...]:
    """The maps of the page Polarization: those with a formula in NumPy, and the user's own."""
    return (*VALUE_MAPS, *MAPS.own())


def offered_losses() -> tuple[str, ...]:
    """The losses of the page Polarization: four of ours, and the user's own that need no data but β*."""
    return (*VALUE_LOSSES, *(name for name in LOSSES.own() if set(LOSSES[name].needs) <= {"beta"}))


class Attention(State):
    """The scores of one query's keys, and the bias of the maps that have one."""

    scores: Annotated[tuple[Wide, ...], Field(min_length=2, max_length=MOST_TOKENS)] = (2.0, 1.0, 0.5, 0.0, -1.0)
    bias: float = Field(default=0.0, ge=-6.0, le=6.0)

    def spec(self) -> Compare:
        return Compare(scores=np.array([[self.scores]]), bias=float(self.bias))


class Probe(State):
    """A result below the folder (empty: the first one), a statistic of its heads, and one head to look at."""

    result: str = Field(default="", max_length=200)
    subject: int = Field(default=0, ge=0)
    statistic: Literal["sink", "sparsity", "entropy", "effective_keys", "total", "sink_value", "sink_output"] = "sink"
    layer: int = Field(default=0, ge=0)
    head: int = Field(default=0, ge=0)
    tokens: int = Field(default=32, ge=2, le=64)


class Specialization(State):
    """A prior of strength ν, heads that look for it, and `at`: which part of the time is shown, in percent."""

    prior: Literal["flipping", "onehot", "gaussian"] = "flipping"
    nu: Strength = 4.0
    nu2: Strength = 4.0
    features: int = Field(default=2, ge=2, le=4)
    heads: int = Field(default=2, ge=1, le=MOST_HEADS)
    map: Literal["softmax", "softmax1", "bayes_softmax"] = "bayes_softmax"
    length: int = Field(default=10, ge=2, le=20)
    tau: float = Field(default=60.0, ge=1.0, le=100.0)
    seed: int = Field(default=0, ge=0, le=999)
    at: int = Field(default=100, ge=0, le=100)

    def model(self) -> SingleLocation:
        return SingleLocation(prior=self._prior(), length=self.length, heads=self.heads, map=self.map)

    def spec(self, samples: int, points: int) -> HeadsFlow:
        """The flow over that many base points, recorded at so many times."""
        return HeadsFlow(model=self.model(), tau_end=float(self.tau), seed=self.seed, samples=samples, points=points)

    def _prior(self) -> Prior:
        nu, nu2 = float(self.nu), float(self.nu2)
        if self.prior == "flipping":
            return FlippingSpike(nu=(nu, nu2))
        if self.prior == "onehot":
            return OneHotSpikes(F=self.features, nu=nu)
        return Gaussian(F=self.features, nu=(nu, nu2))


PAGES: dict[str, type[State]] = {
    "polarization": Polarization,
    "attention": Attention,
    "probe": Probe,
    "specialization": Specialization,
}
