"""The rates at which heads escape from the unspecialised state, measured against the Hessian's prediction (ours).

    at m = r = 0:     rate_f = 2 (c3 + c4) Var θ_f − 2 c0                     Lemma A.5, corrected
    along the way:    rate(τ) = −∂²Ẽ/∂m₋² at (x(τ), r(τ)),   |m₋(τ)| = |m₋(0)| exp ∫ rate dτ

The first is that of flows from m ~ 1e-5 and r = 0; the second that of Figure 1, where heads start at r = I.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.specialization.figures.logd import SPLIT, split
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.plotting.map_styles import CALLED, LOOK, THREE, MapName
from softmaxlab.specialization import (
    FlippingSpike,
    Flow,
    Gaussian,
    OrderParameters,
    SingleLocation,
    flow_many,
    landscape,
)

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

SMALL = 1e-5  # |m| at the start: the next order of the loss is below rounding of the fit
GROWTH = 3.0  # log of how far the fastest feature grows while it is measured
STRICT = {"rtol": 1e-8, "atol": 1e-12}


class Escape(FigureSpec):
    """Flows from the origin with each of three maps, and one along the unspecialised path of Figure 1."""

    id: ClassVar[str] = "specialization/escape"
    title: ClassVar[str] = "Escape rates of heads: the Hessian's prediction and the measurement"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Lemmas III.1, A.5"
    reports: ClassVar[str] = (
        "Every feature grows at the rate of Lemma A.5 at the origin; but heads that start at r = I split at about half "
        "the origin's rate, that of the curvature along the unspecialised path"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"samples": 2**11}, "paper": {"samples": 2**15}}
    cost: ClassVar[dict[str, str]] = {"quick": "3 s", "paper": "20 s"}

    F: Annotated[int, Field(ge=1, le=16)] = 3
    nu: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = (20.0, 1.0)
    heads: Annotated[int, Field(ge=2, le=64)] = 4
    length: Annotated[int, Field(ge=3, le=100)] = 5
    tau_end: Annotated[float, Field(ge=50, le=1e4)] = 140.0
    samples: Annotated[int, Field(ge=2**8, le=2**20)] = 2**12
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        flows = flow_many(self.from_origin(map) for map in THREE)
        model = SingleLocation(prior=FlippingSpike(nu=(2.0, 2.0)), length=10, heads=2)
        # a start on the path of equal heads, but for a split that is small enough to be of first order until the end
        start = OrderParameters(m=SMALL * SPLIT / 2, r=np.eye(2))
        rules = {"samples": self.samples, "points": 71, **STRICT}
        path = simulate(Flow(model=model, tau_end=self.tau_end, start=start, seed=self.seed, **rules))
        alike = path["m"].mean(axis=1, keepdims=True) * np.ones((1, 2, 1))
        states = [OrderParameters(m=m, r=r) for m, r in zip(alike, path["r"])]
        growth = landscape.growth(model, path["tau"], states, SPLIT, points=self.samples, seed=self.seed)
        size = split(path)
        arrays = {
            "map": THREE,
            "nu": np.diag(Gaussian(F=self.F, nu=self.nu).matrix()),
            "measured": [_rates(flow) for flow in flows],
            "predicted": [self._expected(map) for map in THREE],
            "tau": growth.tau,
            "rate": growth.rate,
            "rate_error": growth.rate_error,
            "rate_measured": np.gradient(np.log(size), path["tau"]),
            "split": size,
            "split_predicted": size[0] * np.exp(growth.log_factor),
            "rate_at_origin": landscape.escape_rates(model).rates[0],
        }
        axes = {name: (name,) for name in ("map", "nu", "tau")} | {
            name: ("map", "nu") for name in ("measured", "predicted")
        }
        axes |= {name: ("tau",) for name in ("rate", "rate_error", "rate_measured", "split", "split_predicted")}
        return Result(arrays, axes, status_of((*flows, path), (*THREE, "path")))

    def _at_origin(self, map: MapName) -> tuple[SingleLocation, float, float]:
        """The model, b and v; softmax-1's are those that the flow of b and v has reached before heads split."""
        prior = Gaussian(F=self.F, nu=self.nu)
        model = SingleLocation(prior=prior, length=self.length, heads=self.heads, map=map)
        b, v = landscape.unspecialised_fixed_point(self.heads, self.length) if map == "softmax1" else (0.0, 1.0)
        return model, b, v

    def _expected(self, map: MapName) -> np.ndarray:
        """The rates, in the order of the features: variances fall from the first on."""
        return np.sort(landscape.escape_rates(*self._at_origin(map)).rates)[:: -1 if self.nu[0] > self.nu[1] else 1]

    def from_origin(self, map: MapName) -> Flow:
        model, b, v = self._at_origin(map)
        m = SMALL * generator(self.seed, "escape").standard_normal((self.heads, self.F))
        start = OrderParameters(
            m=m - m.mean(axis=0), r=np.zeros((self.heads, self.heads)), b=np.full(self.heads, b), v=v
        )
        time = GROWTH / self._expected(map).max()
        rules = {"samples": self.samples, "points": 3, "solver": "DOP853", **STRICT}
        return Flow(model=model, tau_end=float(time), start=start, seed=self.seed, **rules)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 4.0), layout="constrained")
        origin, rates, sizes = figure.subplots(1, 3)
        _draw_origin(origin, result)
        tau, rate, error = (result[name] for name in ("tau", "rate", "rate_error"))
        rates.fill_between(tau, rate - 2 * error, rate + 2 * error, color=COLOURS[2], alpha=0.3, lw=0)
        rates.plot(tau, rate, color=COLOURS[2], label="curvature on the path, ± 2 s.e.")
        rates.plot(tau, result["rate_measured"], ".", color=COLOURS[0], label="measured $d\\,\\log|m_−|/dτ$")
        rates.axhline(float(result["rate_at_origin"]), color="k", ls=":", label="rate at m = r = 0")
        rates.set_ylim(0, None)
        rates.legend(fontsize=8, frameon=False)
        label(rates, "time τ", "rate", "Figure 1's setting: the rate along the path")
        sizes.semilogy(tau, result["split"], ".", color=COLOURS[0], label="measured")
        sizes.semilogy(tau, result["split_predicted"], color=COLOURS[2], label="$|m_−(0)|\\,\\exp\\int$ rate dτ")
        naive = result["split"][0] * np.exp(float(result["rate_at_origin"]) * tau)
        sizes.semilogy(tau, naive, "k:", label="rate at m = r = 0")
        sizes.set_ylim(result["split"][0] / 3, 10 * result["split"].max())
        sizes.legend(fontsize=8, frameon=False)
        label(sizes, "time τ", "split $|m_{12} − m_{22}|$", "what it adds up to")
        figure.suptitle(f"{Escape.title} (flow)", fontsize=11)
        return figure


def _rates(flow: Result) -> np.ndarray:
    """Growth rates of the features in the second half of a flow."""
    m, tau = flow["m"], flow["tau"]
    size = np.linalg.norm(m - m.mean(axis=1, keepdims=True), axis=1)
    return np.log(size[-1] / size[-2]) / (tau[-1] - tau[-2])


def _draw_origin(ax: "matplotlib.axes.Axes", result: Result) -> None:
    top = 1.3 * result["predicted"].max()
    low = result["predicted"].min() / 1.5
    ax.plot([low, top], [low, top], color=COLOURS[-1], lw=1)
    for map, measured, predicted in zip(result["map"], result["measured"], result["predicted"]):
        look = LOOK[str(map)]
        ax.plot(
            predicted, measured, look["marker"], color=look["color"], ms=7, mfc="none", mew=1.5, label=CALLED[str(map)]
        )
    for nu, x in zip(result["nu"], result["predicted"][-1]):
        ax.annotate(f"ν = {nu:g}", (x, x), (-8, 5), textcoords="offset points", ha="right", fontsize=8)
    worst = np.abs(result["measured"] / result["predicted"] - 1).max()
    ax.set(xscale="log", yscale="log", xlim=(low, top), ylim=(low, top))
    ax.legend(fontsize=8, frameon=False)
    label(ax, "predicted rate", "measured rate", f"from m = r = 0, Gaussian: within {100 * worst:.1g} %")
