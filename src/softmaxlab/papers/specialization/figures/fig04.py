"""Figures 4, 19 and 20: a Gaussian prior's features are learnt one after the other, the strongest first (Lemma III.1).

    Var θ = (ν1, …, ν2), linear over F;  softmax: the signs of m_h1, m_h2, … take all 2^F combinations;
    Bayes-softmax: pairs of heads near ±s_f

The weakest feature is slow. For softmax, once the others are learnt, it grows at a rate of 5e-4 or less, to .4 at most,
and by τ ~ 1e4 only; with few samples it moves sooner, but along the samples' noise. So softmax flows are followed until
they are certified to be at rest. Bayes-softmax does not come to rest: its biases move as long as we have looked.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import padded, status_of
from softmaxlab.papers.specialization.head_paths import finite_times, kinds_of, sign_patterns
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.plotting.map_styles import CALLED, MapName
from softmaxlab.specialization import Flow, Gaussian, SingleLocation, flow_many

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

FEATURE_DASHES = ("-", "--", ":")
FIRST = 1.0  # the first time recorded after 0
Maps = Annotated[tuple[MapName, ...], Field(min_length=1, max_length=3)]


class SequentialRuns(FigureSpec):
    """Flows of `heads` heads from `runs` starts for each of `maps`, all on samples of their own.

    Those of softmax go on from `tau_end` to rest; each run has times of its own.
    """

    source: ClassVar[str] = "sagitova2026specialization"

    features: Annotated[int, Field(ge=2, le=3)] = 3
    heads: Annotated[int, Field(ge=1, le=64)] = 8
    nu: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = (20.0, 1.0)
    length: Annotated[int, Field(ge=2, le=100)] = 5
    maps: Maps = ("softmax",)
    runs: Annotated[int, Field(ge=1, le=100)] = 1
    tau_end: Annotated[float, Field(gt=0)] = 10_000.0
    samples: Annotated[int, Field(ge=2**8, le=2**20)] = 2**14
    points: Annotated[int, Field(ge=10, le=10_000)] = 81
    rest: bool = True  # False ends all flows at tau_end

    def _run(self, device: str) -> Result:
        cells = [(map, seed) for map in self.maps for seed in range(self.runs)]
        results = flow_many(self.flow(map, seed) for map, seed in cells)
        shape, longest = (len(self.maps), self.runs), max(len(result["tau"]) for result in results)
        arrays = {}
        for name in ("tau", "m", "loss"):
            of_cells = np.stack([padded(result[name], longest) for result in results])
            arrays[name] = of_cells.reshape(*shape, *of_cells.shape[1:])
        arrays |= {"map": self.maps, "nu": self.variances(), "certificate": kinds_of(results).reshape(shape)}
        axes = {
            "map": ("map",),
            "tau": ("map", "run", "time"),
            "m": ("map", "run", "time", "head", "feature"),
            "loss": ("map", "run", "time"),
            "nu": ("feature",),
            "certificate": ("map", "run"),
        }
        return Result(arrays, axes, status_of(results, [f"{CALLED[map]}, run {seed}" for map, seed in cells]))

    def variances(self) -> np.ndarray:
        return np.diag(Gaussian(F=self.features, nu=self.nu).matrix())

    def flow(self, map: str, seed: int) -> Flow:
        prior = Gaussian(F=self.features, nu=self.nu)
        model = SingleLocation(prior=prior, length=self.length, heads=self.heads, map=map)
        # the first features split early, the last ones late
        times = np.geomspace(min(FIRST, 0.1 * self.tau_end), self.tau_end, self.points)[:-1]
        until = "rest" if map == "softmax" and self.rest else "tau_end"
        rules: dict[str, Any] = {"tau_end": self.tau_end, "until": until, "record": tuple(times.tolist())}
        return Flow(model=model, seed=seed, samples=self.samples, **rules)


class Fig04(SequentialRuns):
    """m_hf through time for softmax and Bayes-softmax; inset: where the heads are at the end."""

    id: ClassVar[str] = "specialization/fig04"
    title: ClassVar[str] = "Gaussian signal: features are learnt one after the other"
    place: ClassVar[str] = "Figure 4"
    reports: ClassVar[str] = (
        "Heads learn the features from the strongest to the weakest; for softmax they end at all 2^F combinations of "
        "signs, for Bayes-softmax pairs of heads learn ±s_f"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"points": 41},
        "paper": {"samples": 2**15, "points": 121},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "20 s", "paper": "about 60 s"}

    maps: Maps = ("softmax", "bayes_softmax")

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2 * len(result["map"]), 3.9), layout="constrained")
        axes = figure.subplots(1, 2 * len(result["map"]), width_ratios=(2.2, 1.0) * len(result["map"]))
        first_run = (result[name][:, 0] for name in ("tau", "m", "certificate"))
        for (ax, end), map, tau, m, kind in zip(axes.reshape(-1, 2), result["map"], *first_run):
            tau, m = finite_times(tau, m)
            _draw_features(ax, tau, m, result["nu"])
            label(ax, "time τ", "$m_{hf}$", CALLED[str(map)])
            _draw_end(end, m[-1], tau[-1], str(kind))
        axes[0].legend(fontsize=8, loc="upper left", framealpha=0.9)
        H, F = result["m"].shape[-2:]
        figure.suptitle(f"{Fig04.title} (flow, F = {F}, H = {H}, one line per head)", fontsize=11)
        return figure


def _draw_features(ax: "matplotlib.axes.Axes", tau: np.ndarray, m: np.ndarray, nu: np.ndarray) -> None:
    """One line per head and feature of m [time, head, feature], the strongest feature on top."""
    for f in reversed(range(m.shape[-1])):
        look = {"color": COLOURS[f], "ls": FEATURE_DASHES[f], "lw": 1.3, "alpha": 0.85}
        ax.plot(tau[1:], m[1:, 0, f], **look, label=f"feature {f + 1}, ν = {nu[f]:g}")
        ax.plot(tau[1:], m[1:, 1:, f], **look)
    ax.set_xscale("log")
    ax.set_xlim(tau[1], tau[-1])


def _draw_end(ax: "matplotlib.axes.Axes", m: np.ndarray, tau: float, kind: str) -> None:
    """Heads in the plane of the two strongest features, the sign of the third as the marker; `kind` if not at rest."""
    third = m[:, 2] if m.shape[1] > 2 else np.ones(len(m))
    for sign, marker, colour in ((1, "^", COLOURS[5]), (-1, "v", COLOURS[4])):
        chosen = np.sign(third) == sign
        name = f"$m_{{h3}} {'>' if sign > 0 else '<'} 0$" if m.shape[1] > 2 else None
        ax.scatter(*m[chosen, :2].T, s=45, marker=marker, color=colour, edgecolor="k", lw=0.6, label=name)
    reach = 1.25 * np.abs(m[:, :2]).max()
    ax.axhline(0, color=COLOURS[-1], lw=0.6, zorder=0)
    ax.axvline(0, color=COLOURS[-1], lw=0.6, zorder=0)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    if m.shape[1] > 2:
        ax.legend(
            fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, frameon=False, handletextpad=0.1
        )
    at = f"τ = {tau:.3g} ({kind})"
    label(ax, "$m_{h1}$", "$m_{h2}$", f"heads at {at}:\n{sign_patterns(m)} of {2 ** m.shape[1]} combinations of signs")
