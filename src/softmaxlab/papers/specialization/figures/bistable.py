"""Softmax-1 with one-hot spikes and H = F = 4 heads has several minima (ours).

    .251   each head has a feature of its own, m_hf ≈ 2.9 δ_hf
    .337   each head shuns a feature of its own, m_hf ≈ 1.6 − 2.9 δ_hf
    between: such as .329, where each feature has two heads and each head two, and .309, where two heads have one each

Runs leave one for a lower one as late as τ = 2e4, so that short runs see the upper one only. Runs differ in their start
(`starts`) and in the samples of the loss (`sample_sets`), to see which of the two chooses: both do.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.plotting.map_styles import BAYES
from softmaxlab.specialization import Flow, OneHotSpikes, SingleLocation, flow_many, noisy_start

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

EDGES = (0.27, 0.332)  # losses that part lower, between and upper
BRANCHES = (("lower", COLOURS[0], "-"), ("between", COLOURS[2], "-."), ("upper", COLOURS[1], "--"))


class Bistable(FigureSpec):
    """Flows from `starts` starts on `sample_sets` sets of samples each."""

    id: ClassVar[str] = "specialization/bistable"
    title: ClassVar[str] = "Softmax-1, H = F = 4: which minimum is reached"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Figure 5, left, H = 4"
    reports: ClassVar[str] = (
        "Runs end at .251 (a head for each feature), at about .337 (each head shuns a feature) or seldom between; "
        "their start and their samples decide"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"starts": 3, "sample_sets": 2, "samples": 2**9},
        "paper": {"starts": 12, "sample_sets": 8, "samples": 2**12, "tau_end": 1e5},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "6 s", "paper": "about 15 min"}

    starts: Annotated[int, Field(ge=1, le=1000)] = 12
    sample_sets: Annotated[int, Field(ge=1, le=1000)] = 4
    samples: Annotated[int, Field(ge=2**6, le=2**18)] = 2**11
    tau_end: Annotated[float, Field(ge=100)] = 3e4
    noise: Annotated[float, Field(gt=0)] = 0.01  # standard deviation of the start

    def _run(self, device: str) -> Result:
        model = SingleLocation(prior=OneHotSpikes(F=4, nu=10.0), length=5, heads=4, map="softmax1")
        cells = [(start, drawn) for start in range(self.starts) for drawn in range(self.sample_sets)]
        times = tuple(np.geomspace(1.0, self.tau_end, 40).tolist())[:-1]
        rules = {"tau_end": self.tau_end, "samples": self.samples, "record": times}
        starts = [noisy_start(model, 1.0, self.noise, start) for start in range(self.starts)]
        flows = flow_many(Flow(model=model, start=starts[start], seed=drawn, **rules) for start, drawn in cells)
        family = gather(flows, [f"start {s}, samples {k}" for s, k in cells], "run", ("loss", "m"))
        shape = (self.starts, self.sample_sets)
        loss, m = (family[name].reshape(*shape, *family[name].shape[1:]) for name in ("loss", "m"))
        branch = np.searchsorted(EDGES, loss[:, :, -1])
        arrays = {
            "tau": family["tau"],
            "loss": loss,
            "branch": branch,
            "m": m[:, :, -1],
            "moving": np.reshape([not flow.notes["converged"] for flow in flows], shape),
            "fraction": [(branch == k).mean() for k in range(len(BRANCHES))],
            "bayes": model.bayes_risk()[0],
        }
        axes = {
            "tau": ("tau",),
            "loss": ("start", "samples", "tau"),
            "branch": ("start", "samples"),
            "m": ("start", "samples", "head", "feature"),
            "moving": ("start", "samples"),
            "fraction": ("kind",),
        }
        return Result(arrays, axes, family.status)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(14.5, 4.0), layout="constrained")
        runs, which, *heads = figure.subplots(1, 2 + len(BRANCHES), width_ratios=(1.8, 1.0, 1.0, 1.0, 1.0))
        _draw_runs(runs, result)
        _draw_choice(which, result["branch"])
        for k, ax in enumerate(heads):
            chosen = result["branch"] == k
            _draw_heads(ax, result["m"][chosen], result["loss"][:, :, -1][chosen], BRANCHES[k][0])
        shares = ", ".join(f"{name} {100 * share:.0f} %" for (name, *_), share in zip(BRANCHES, result["fraction"]))
        figure.suptitle(f"{Bistable.title} (flow; of {result['branch'].size} runs: {shares})", fontsize=11)
        return figure


def _draw_runs(ax: "matplotlib.axes.Axes", result: Result) -> None:
    tau = result["tau"]
    for k, (name, colour, line) in enumerate(BRANCHES):
        for i, loss in enumerate(result["loss"][result["branch"] == k]):
            ax.plot(tau[1:], loss[1:], color=colour, ls=line, lw=1.1, label=f"ends {name}" if i == 0 else None)
    ax.axhline(float(result["bayes"]), **BAYES)
    ax.set_xscale("log")
    ax.legend(fontsize=8, frameon=False, loc="upper right")
    label(ax, "time τ", "loss, out of sample", "all runs")


def _draw_choice(ax: "matplotlib.axes.Axes", branch: np.ndarray) -> None:
    from matplotlib.colors import ListedColormap

    ax.imshow(branch, cmap=ListedColormap([colour for _, colour, _ in BRANCHES]), vmin=0, vmax=2, aspect="auto")
    for (start, drawn), k in np.ndenumerate(branch):
        ax.text(drawn, start, BRANCHES[k][0][0], ha="center", va="center", color="w", fontsize=8)
    names = ", ".join(name for name, *_ in BRANCHES)
    ax.set_xticks(np.arange(branch.shape[1]))
    ax.set_yticks(np.arange(branch.shape[0]))
    label(ax, "set of samples", "start", f"where each run ends:\n{names}")


def _draw_heads(ax: "matplotlib.axes.Axes", m: np.ndarray, ends: np.ndarray, name: str) -> None:
    """m of the first run of a branch, heads in the order of their strongest feature."""
    if not len(m):
        ax.set(xticks=[], yticks=[], aspect="equal")
        label(ax, "feature f", "head h", f"{name}: no run")
        return
    shown = m[0][np.argsort(m[0].argmax(axis=1), kind="stable")]
    reach = 1.8 * np.abs(shown).max()  # pale enough for black numbers
    ax.imshow(shown, cmap="PuOr", vmin=-reach, vmax=reach)
    for (h, f), value in np.ndenumerate(shown):
        ax.text(f, h, f"{value:.1f}", ha="center", va="center", fontsize=8)
    ticks = np.arange(len(shown))
    ax.set_xticks(ticks, ticks + 1)
    ax.set_yticks(ticks, ticks + 1)
    label(ax, "feature f", "head h", f"{name}: loss {ends.mean():.3f}\n$m_{{hf}}$ of one run")
