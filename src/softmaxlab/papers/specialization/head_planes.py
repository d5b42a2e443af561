"""Heads in the plane of two spikes: one flow per panel, one trajectory (m_h1, m_h2) per head.

A small mark shows where a head starts and a dot where it ends; heads are coloured in the order of their last angle.
Beside them the signal: stars at the values of θ, or the ellipse θᵀ C⁻¹ θ = 1 of a Gaussian prior.
"""

import textwrap
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather
from softmaxlab.papers.specialization.head_paths import finite_path, kinds_of
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import DASHES, label
from softmaxlab.specialization import Flow, Gaussian, Prior, SingleLocation, flow_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIRST = 0.05  # the first recorded τ after 0; heads move fast at first and slowly later, so times are geometric
LETTERS = 11.0  # of a title on an inch
MARGIN = 0.08  # of the plane around trajectories and signal
ALONE = "There is nothing to see: no panel has two heads with finite records."
FINER, MOST = 8, 2**17  # times the samples, and base points at most
CIRCLE = np.linspace(0.0, 2.0 * np.pi, 129)
Strength = Annotated[float, Field(ge=0, le=1e6)]
Heads = Annotated[int, Field(ge=1, le=100)]


class HeadPlanes(FigureSpec):
    """Base of the figures of this kind: a leaf lists its panels, each a title and a flow, and the rows they fill."""

    source: ClassVar[str] = "sagitova2026specialization"

    length: Annotated[int, Field(ge=2, le=1000)] = 4
    eta: Annotated[float, Field(ge=0)] = 1.0
    tau_end: Annotated[float, Field(ge=1.0)] = 1000.0
    points: Annotated[int, Field(ge=10, le=10_000)] = 150
    samples: Annotated[int, Field(ge=64, le=2**20)] = 2**14  # base points of a flow
    seed: Seed = 0

    def panels(self) -> list[tuple[str, Flow]]:
        raise NotImplementedError

    @property
    def rows(self) -> int:
        return 1

    def flow(self, prior: Prior, heads: int, map: str, run: int = 0) -> Flow:
        """The flow of one panel; runs differ by their initial noise and their samples."""
        return Flow(
            model=SingleLocation(prior=prior, length=self.length, heads=heads, map=map),
            eta=self.eta,
            tau_end=self.tau_end,
            record=tuple(np.geomspace(FIRST, self.tau_end, self.points).tolist()),
            samples=self.samples,
            seed=self.seed + run,
        )

    def _run(self, device: str) -> Result:
        labels, flows = zip(*self.panels())
        runs = finer_where_needed(flows)
        most = max(flow.model.heads for flow in flows)
        family = gather([_with_heads(run, most) for run in runs], labels, "panel", ("m", "loss"))
        signal = np.stack([outline(flow.model.prior) for flow in flows])
        axes = {**family.axes, "signal": ("panel", "point", "feature"), "rows": ()}
        arrays = {**family.arrays, "signal": signal, "rows": self.rows, "certificate": kinds_of(runs)}
        return Result(arrays, axes | {"certificate": ("panel",)}, family.status)

    @staticmethod
    def draw(result: Result) -> "Figure":
        return draw_planes(result)


def finer_where_needed(flows: Sequence[Flow]) -> list[Result]:
    """The flows, with `FINER` times the samples where they rest on their own samples only."""
    runs = flow_many(flows)
    few = [i for i, kind in enumerate(kinds_of(runs)) if kind in ("undersampled", "saddle")]
    finer = [flows[i].replace(samples=min(FINER * (flows[i].samples or 1), MOST)) for i in few]
    for i, run in zip(few, flow_many(finer)):
        runs[i] = run
    return runs


def paths_of_several(result: Result) -> list[tuple[np.ndarray, np.ndarray]]:
    """The path of every panel that has two heads or more, and its signal."""
    paths = [(finite_path(m), signal) for m, signal in zip(result["m"], result["signal"])]
    return [(path, signal) for path, signal in paths if len(path) and path.shape[1] > 1]


def end_losses(result: Result, panels: Container[str] | None = None) -> dict[str, float]:
    """The last loss of every panel, or of those named, by name."""
    named = zip(map(str, result["panel"]), result["loss"][:, -1])
    return {f"loss, {name}": float(loss) for name, loss in named if panels is None or name in panels}


def outline(prior: Prior) -> np.ndarray:
    """The values of θ [point, feature], or the ellipse of one standard deviation of a Gaussian prior."""
    if isinstance(prior, Gaussian):
        return np.stack([np.cos(CIRCLE), np.sin(CIRCLE)], axis=1) @ prior.root()
    atoms = prior.atoms()
    return np.empty((0, prior.features)) if atoms is None else atoms[0]


def _with_heads(run: Result, most: int) -> Result:
    """A run with as many heads as the largest one, the missing ones NaN."""
    missing = most - run["m"].shape[1]
    m = np.pad(run["m"], ((0, 0), (0, missing), (0, 0)), constant_values=np.nan)
    names = ("tau", "m", "loss")
    arrays = {"tau": run["tau"], "m": m, "loss": run["loss"]}
    return Result(arrays, {name: run.axes[name] for name in names}, run.status)


def draw_planes(result: Result, side: float = 3.0) -> "Figure":
    """All panels on one scale; `side` is the width of a panel in inches."""
    from matplotlib.figure import Figure

    spec, rows, m = result.spec, int(result["rows"]), result["m"]
    columns = -(-len(m) // rows)
    low, high = _limits(m, result["signal"])
    ratio = (high[1] - low[1]) / (high[0] - low[0])
    figure = Figure(
        figsize=(side * columns + 0.6, (side - 0.3) * ratio * rows + 0.4 * rows + 1.15), layout="constrained"
    )
    axes = figure.subplots(rows, columns, squeeze=False)
    panels = zip(axes.ravel(), result["panel"], m, result["loss"], result["signal"], result["certificate"])
    for ax, name, heads, loss, signal, kind in panels:
        draw_signal(ax, signal)
        draw_heads(ax, heads)
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        ending = "" if kind == "minimum" else f"\n({kind})"
        label(ax, "", "", f"{name}, loss {loss[np.isfinite(loss)][-1]:.3f}{ending}")
    for ax in axes[-1]:
        ax.set_xlabel("$m_{h1} = k_h \\cdot k^*_1$", fontsize=9)
    for ax in axes[:, 0]:
        ax.set_ylabel("$m_{h2} = k_h \\cdot k^*_2$", fontsize=9)
    for ax in axes.ravel()[len(m) :]:
        ax.set_visible(False)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize=8, frameon=False)
    title = spec.title if isinstance(spec, FigureSpec) else "Heads in the plane of two spikes"
    drawn = f", {spec.samples:,} base points or more" if isinstance(spec, HeadPlanes) else ""
    end = "" if result.status.ok else f"\n{result.status}"
    title = textwrap.fill(title, int(LETTERS * figure.get_figwidth()))
    figure.suptitle(f"{title}\nflow to τ = {result['tau'][-1]:g}{drawn}{end}", fontsize=11)
    return figure


def draw_heads(ax: "Axes", m: np.ndarray) -> None:
    """The trajectories m [tau, head, 2]; heads that are not there are NaN."""
    paths = [path[np.isfinite(path).all(axis=1)] for path in m.swapaxes(0, 1) if np.isfinite(path[0]).all()]
    paths.sort(key=lambda path: np.arctan2(path[-1, 1], path[-1, 0]))
    names = ("a head's path", "start", "end (colour: angle)")
    for i, path in enumerate(paths):
        colour, (line, start, end) = COLOURS[i % len(COLOURS)], names if i == 0 else (None, None, None)
        ax.plot(*path.T, color=colour, ls=DASHES[i % len(DASHES)], lw=1.4, label=line)
        ax.plot(*path[0], "+", color="k", ms=5, mew=0.8, zorder=3, label=start)
        ax.plot(*path[-1], "o", color=colour, ms=6.5, mec="w", mew=0.7, zorder=4, label=end)


def draw_signal(ax: "Axes", signal: np.ndarray) -> None:
    """The spikes' directions, and the values of θ or the ellipse of a Gaussian prior."""
    for line in (ax.axhline, ax.axvline):
        line(0.0, color=COLOURS[-1], lw=0.6, zorder=0)
    if len(signal) == len(CIRCLE):
        ax.plot(*signal.T, color="k", ls=":", lw=1.0, zorder=1, label="one standard deviation of θ")
    elif len(signal):
        ax.plot(*signal.T, "k*", ms=11, mfc="none", zorder=5, label="values of θ")


def _limits(m: np.ndarray, signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners of the plane that hold everything."""
    points: Sequence[np.ndarray] = (m.reshape(-1, 2), signal.reshape(-1, 2), np.zeros((1, 2)))
    everything = np.concatenate(points)
    low, high = np.nanmin(everything, axis=0), np.nanmax(everything, axis=0)
    margin = MARGIN * (high - low).max()
    return low - margin, high + margin
