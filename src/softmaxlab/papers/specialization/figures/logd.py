"""The specialization time against log D: Θ(log D) of Proposition III.4, with its constant (ours).

    τ_s: the split |m_12 − m_22| reaches half of what it becomes;   it starts at ~ D^(−1/2), so
    ∫_0^{τ_s} rate dτ = ½ log D + c,   dτ_s/d log D = 1/(2 rate(τ_s)),   rate = −∂²Ẽ/∂m₋² along the unspecialised path

Up to the largest of `sgd_dims` by SGD itself with N_b = D, so that γ D/N_b = γ; further by the flow, which starts from
the exact law of the overlaps at dimension D and has the same batch noise γ. The constant c is the only number fitted.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.specialization import (
    SGD,
    FlippingSpike,
    Flow,
    OrderParameters,
    SingleLocation,
    flow_many,
    landscape,
    random_start,
)

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

SPLIT = np.array([[0.0, 1.0], [0.0, -1.0]])  # the two heads part along feature 2
Dims = Annotated[tuple[Annotated[int, Field(ge=100, le=10**15)], ...], Field(min_length=1, max_length=40)]


class LogD(FigureSpec):
    """Figure 1's setting: flows for each of `dims` and SGD for each of `sgd_dims`, both from `runs` random starts."""

    id: ClassVar[str] = "specialization/logD"
    title: ClassVar[str] = "The specialization time grows like log D"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Proposition III.4"
    reports: ClassVar[str] = (
        "τ_s is linear in log D up to D = 1e9, with the slope 1/(2 rate) of the curvature along the unspecialised "
        "path: 29 to 31 more per factor 100"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {
            "dims": (1000, 10**6, 10**9),
            "sgd_dims": (1000,),
            "runs": 3,
            "sgd_runs": 2,
            "lr": 0.2,
            "samples": 2**10,
        },
        "paper": {"sgd_dims": (1000, 10_000, 100_000), "runs": 10, "sgd_runs": 3, "samples": 2**13},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "7 s", "paper": "about 30 min"}

    dims: Dims = tuple(10**k for k in range(2, 10))
    sgd_dims: Dims = (1000, 10_000)
    runs: Annotated[int, Field(ge=1, le=1000)] = 5
    sgd_runs: Annotated[int, Field(ge=1, le=1000)] = 3
    lr: Annotated[float, Field(gt=0, le=1)] = 0.05
    tau_end: Annotated[float, Field(ge=50, le=1e4)] = 240.0
    sgd_tau_end: Annotated[float, Field(ge=50, le=1e4)] = 120.0
    samples: Annotated[int, Field(ge=2**8, le=2**20)] = 2**12

    def _run(self, device: str) -> Result:
        cells = [(dim, run) for dim in self.dims for run in range(self.runs)]
        flows = flow_many(self.flow(random_start(self.model, dim, 1.0, run), run) for dim, run in cells)
        half = max(split(flow)[-1] for flow in flows) / 2
        tau_s = np.reshape([crossing(flow, half) for flow in flows], (len(self.dims), -1))
        sgd_cells = [(dim, run) for dim in self.sgd_dims for run in range(self.sgd_runs)]
        sgds = [simulate(self.sgd(dim, run), device=device) for dim, run in sgd_cells]
        growth = self.growth()
        log_dims = np.log(self.dims)
        # one constant for all D: the mean over D of what is left of the growth after ½ log D
        left = np.interp(np.nanmean(tau_s, axis=1), growth.tau, growth.log_factor) - log_dims / 2
        predicted = [growth.time(x / 2 + left.mean()) for x in log_dims]
        arrays = {
            "dim": np.array(self.dims, dtype=float),
            "tau_s": tau_s,
            "predicted": predicted,
            "sgd_dim": np.array(self.sgd_dims, dtype=float),
            "sgd_tau_s": np.reshape([crossing(sgd, half) for sgd in sgds], (len(self.sgd_dims), -1)),
            "slope": np.polyfit(log_dims, np.nanmean(tau_s, axis=1), 1)[0],
            "predicted_slope": np.polyfit(log_dims, predicted, 1)[0],
            "tau": growth.tau,
            "rate": growth.rate,
            "rate_error": growth.rate_error,
            "batch_noise": self.lr,
        }
        axes = {name: (name,) for name in ("dim", "sgd_dim", "tau")}
        axes |= {"tau_s": ("dim", "run"), "predicted": ("dim",), "sgd_tau_s": ("sgd_dim", "sgd_run")}
        axes |= {"rate": ("tau",), "rate_error": ("tau",)}
        labels = [f"D = {dim:.0e}, run {run}" for dim, run in (*cells, *sgd_cells)]
        return Result(arrays, axes, status_of((*flows, *sgds), labels))

    @property
    def model(self) -> SingleLocation:
        return SingleLocation(prior=FlippingSpike(nu=(2.0, 2.0)), length=10, heads=2)

    def flow(self, start: OrderParameters, seed: int) -> Flow:
        rules = {"samples": self.samples, "batch_noise": self.lr, "points": 121}
        return Flow(model=self.model, tau_end=self.tau_end, seed=seed, start=start, **rules)

    def sgd(self, dim: int, run: int) -> SGD:
        return SGD(model=self.model, dim=dim, batch=dim, lr=self.lr, tau_end=self.sgd_tau_end, seed=run, points=121)

    def growth(self) -> landscape.Growth:
        """The rate along the path of two equal heads."""
        alike = OrderParameters(m=np.zeros((2, 2)), r=np.eye(2))
        path = simulate(self.flow(alike, 0))
        states = [OrderParameters.at(path, row) for row in range(len(path["tau"]))]
        return landscape.growth(self.model, path["tau"], states, SPLIT, points=self.samples)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10.5, 4.2), layout="constrained")
        times, rates = figure.subplots(1, 2, width_ratios=(1.5, 1))
        _draw_times(times, result)
        tau, rate, error = (result[name] for name in ("tau", "rate", "rate_error"))
        rates.fill_between(tau, rate - 2 * error, rate + 2 * error, color=COLOURS[2], alpha=0.3, lw=0)
        rates.plot(tau, rate, color=COLOURS[2], label="rate at (x(τ), r(τ)), ± 2 s.e.")
        low, high = np.nanmin(result["predicted"]), np.nanmax(result["predicted"])
        rates.axvspan(low, high, color=COLOURS[-1], alpha=0.2, lw=0, label="where heads split, all D")
        rates.set_ylim(0, None)
        rates.legend(fontsize=8, frameon=False, loc="lower right")
        label(rates, "time τ", "escape rate $−∂²Ẽ/∂m_−^2$", "the rate along the unspecialised path")
        figure.suptitle(f"{LogD.title} (flipping spike, softmax, L = 10, H = 2)", fontsize=11)
        return figure


def split(result: Result) -> np.ndarray:
    """|m_12 − m_22| through time."""
    m = result["m"]
    return np.abs(m[:, 0, 1] - m[:, 1, 1])


def crossing(result: Result, level: float) -> float:
    """The first time at which the split has reached a level; NaN if it has not."""
    tau, size = result["tau"], split(result)
    reached = np.flatnonzero(size >= level)
    if not len(reached) or reached[0] == 0:
        return float("nan")
    i = int(reached[0])
    return float(np.interp(level, size[i - 1 : i + 1], tau[i - 1 : i + 1]))


def _draw_times(ax: "matplotlib.axes.Axes", result: Result) -> None:
    dim, tau_s = result["dim"], result["tau_s"]
    noise, factor = float(result["batch_noise"]), np.log(100.0)
    flows = np.repeat(dim, tau_s.shape[1])
    ax.plot(flows, tau_s.ravel(), "o", color=COLOURS[0], ms=4, alpha=0.35, mew=0)
    measured = f"flow, mean of {tau_s.shape[1]} (all: dots): +{factor * float(result['slope']):.1f} per factor 100"
    ax.plot(dim, np.nanmean(tau_s, axis=1), "o-", color=COLOURS[0], label=measured)
    expected = f"½ log D = ∫ rate dτ − c: +{factor * float(result['predicted_slope']):.1f} per factor 100"
    ax.plot(dim, result["predicted"], "--", color=COLOURS[2], lw=2, label=expected)
    sgd_dim, sgd = result["sgd_dim"], result["sgd_tau_s"]
    ax.plot(
        np.repeat(sgd_dim, sgd.shape[1]), sgd.ravel(), "s", color=COLOURS[1], ms=6, mfc="none", label="SGD, $N_b$ = D"
    )
    ax.set_xscale("log")
    ax.legend(fontsize=8, frameon=False, loc="upper left")
    ax.set_ylim(0, 1.25 * np.nanmax(tau_s))
    label(ax, "dimension D", "specialization time $τ_s$ (half split)", f"γD/$N_b$ = {noise:g} throughout")
