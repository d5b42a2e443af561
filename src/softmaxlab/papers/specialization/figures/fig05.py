"""Figure 5: the loss after training, against the number of heads and against the strength of the signal.

Left: one-hot spikes, where Bayes-softmax reaches the Bayes risk from H = F on. There softmax-1 has several minima at
H = 4, between which the samples and the start choose (specialization/bistable), and from H = 5 on it is still falling
at τ = 1e4: hollow marks are runs that are not at rest. Right: the paper's text says that softmax and softmax-1 are
close for flipping spikes at all strengths. They are not: at ν = 4 softmax has .292 and softmax-1 .228.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.plotting.lines import label
from softmaxlab.plotting.map_styles import BAYES, LOOK, THREE, draw_losses
from softmaxlab.specialization import FlippingSpike, Flow, Gaussian, OneHotSpikes, Prior, SingleLocation, flow_many

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

LEADER = {"arrowstyle": "-", "color": "k", "lw": 0.6}
LENGTH, SIGNALS = 5, ("flipping", "gaussian")
SHOWN = ("loss", "moving", "loss_error")
AT_REST: dict[str, Any] = {"samples": 2**13, "tau_end": 3000.0, "tau_end_softmax1": 1e4}
RISK = 2**19  # samples of the Bayes risk: its error is then below 4e-4
BISTABLE = 0.29  # between softmax-1's minima at H = 4, .250 and .31 to .337
Strengths = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1, max_length=40)]
Heads = Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, max_length=40)]
Time = Annotated[float, Field(gt=0)]


class Fig05(FigureSpec):
    """Losses at `tau_end` (softmax-1: at `tau_end_softmax1`) of `runs` flows with starts and samples of their own."""

    id: ClassVar[str] = "specialization/fig05"
    title: ClassVar[str] = "Loss after training of three maps, and the Bayes risk"
    source: ClassVar[str] = "sagitova2026specialization"
    place: ClassVar[str] = "Figure 5"
    reports: ClassVar[str] = (
        "With one-hot spikes Bayes-softmax is at the Bayes risk from H = F on; with flipping spikes softmax and "
        "softmax-1 are close at all strengths, with a Gaussian signal softmax stays behind"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"heads": (1, 2, 4, 5), "nus": (1.0, 4.0, 10.0), "runs": 1} | AT_REST,
        "paper": {"runs": 5} | AT_REST,
    }
    cost: ClassVar[dict[str, str]] = {"quick": "40 s", "paper": "6 min"}

    heads: Heads = (1, 2, 3, 4, 5, 6, 7, 8)
    F: Annotated[int, Field(ge=1, le=64)] = 4
    nu: Annotated[float, Field(gt=0)] = 10.0
    nus: Strengths = (1.0, 2.0, 4.0, 7.0, 10.0, 15.0, 20.0)
    runs: Annotated[int, Field(ge=1, le=100)] = 3
    tau_end: Time = 1000.0
    tau_end_softmax1: Time = 2000.0
    samples: Annotated[int, Field(ge=2**8, le=2**20)] = 2**13  # images of base points, all counted

    def _run(self, device: str) -> Result:
        left = [SingleLocation(prior=OneHotSpikes(F=self.F, nu=self.nu), length=LENGTH, heads=H) for H in self.heads]
        right = [
            SingleLocation(prior=prior, length=LENGTH, heads=4)
            for kind in SIGNALS
            for prior in priors_of(kind, self.nus)
        ]
        cells = [model.replace(map=map) for map in THREE for model in (*left, *right)]
        results = flow_many(self.flow(model, run) for model in cells for run in range(self.runs))
        shape = (len(THREE), len(left) + len(right), self.runs)
        loss, error = (np.reshape([r[name][-1] for r in results], shape) for name in ("loss", "loss_error"))
        moving = np.reshape([not r.notes["converged"] for r in results], shape)
        bayes = np.array([model.bayes_risk(samples=RISK)[0] for model in (left[0], *right)])
        arrays: dict[str, Any] = {
            "map": THREE,
            "heads": self.heads,
            "nu": self.nus,
            "prior": SIGNALS,
            "bayes": bayes[0],
        }
        arrays |= {
            "samples": self.samples,
            "F": self.F,
            "nu_heads": self.nu,
            "tau_end": (self.tau_end, self.tau_end_softmax1),
        }
        arrays["bayes_nu"] = bayes[1:].reshape(len(SIGNALS), -1)
        for name, values in (("loss", loss), ("loss_error", error), ("moving", moving)):
            arrays[f"{name}_heads"] = values[:, : len(left)]
            arrays[f"{name}_nu"] = values[:, len(left) :].reshape(len(THREE), len(SIGNALS), -1, self.runs)
        axes = {name: (name,) for name in ("map", "heads", "nu", "prior")} | {
            "bayes_nu": ("prior", "nu"),
            "tau_end": ("time",),
        }
        for name in ("loss", "loss_error", "moving"):
            axes |= {f"{name}_heads": ("map", "heads", "run"), f"{name}_nu": ("map", "prior", "nu", "run")}
        return Result(arrays, axes, status_of(results, range(len(results))))

    def flow(self, model: SingleLocation, run: int) -> Flow:
        """Return the spec of a flow to the end, recorded there and at half the time only."""
        tau = self.tau_end_softmax1 if model.map == "softmax1" else self.tau_end
        images = self.F if isinstance(model.prior, OneHotSpikes) else 2
        return Flow(model=model, tau_end=tau, seed=run, points=3, samples=max(1, self.samples // images))

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 4.2), layout="constrained")
        left, *right = figure.subplots(1, 3)
        heads = result["heads"]
        for map, loss, moving, error in zip(result["map"], *(result[f"{name}_heads"] for name in SHOWN)):
            draw_losses(left, heads, loss, moving, str(map), error)
        left.axhline(float(result["bayes"]), **BAYES)
        _mark_branches(left, result)
        left.set_xticks(heads)
        right[-1].legend(*left.get_legend_handles_labels(), loc="upper right", fontsize=8, frameon=False)
        label(
            left,
            "number of heads H",
            "loss after training",
            f"one-hot spikes, F = {result['F']}, ν = {result['nu_heads']:g}",
        )
        for i, (ax, kind) in enumerate(zip(right, ("flipping spike, ν1 = ν2 = ν", "isotropic Gaussian"))):
            for map, loss, moving, error in zip(result["map"], *(result[f"{name}_nu"][:, i] for name in SHOWN)):
                draw_losses(ax, result["nu"], loss, moving, str(map), error)
            ax.plot(result["nu"], result["bayes_nu"][i], **BAYES)
            label(ax, "signal strength ν", "loss after training", f"{kind}, F = 2, H = 4")
        _mark_gap(right[0], result)
        runs = result["loss_heads"].shape[-1]
        end, end_softmax1 = result["tau_end"]
        until = f"flow to τ = {end:g}, softmax-1 to {end_softmax1:g}, on {result['samples']:,} samples"
        note = f"{until}; {runs} run{'s' * (runs > 1)} each; hollow: not at rest; bars: two standard errors"
        figure.suptitle(f"{Fig05.title}\n({note})", fontsize=11)
        return figure


def priors_of(kind: str, nus: tuple[float, ...]) -> list[Prior]:
    """The priors of the right part, one for each strength."""
    return [FlippingSpike(nu=(nu, nu)) if kind == "flipping" else Gaussian(F=2, nu=(nu, nu)) for nu in nus]


def _mark_branches(ax: "matplotlib.axes.Axes", result: Result) -> None:
    """Softmax-1 at H = 4: how many runs reached the lowest of its minima, and how many stayed above."""
    if 4 not in result["heads"] or result["loss_heads"].shape[-1] == 1:
        return
    colour = LOOK["softmax1"]["color"]
    losses = result["loss_heads"][list(result["map"]).index("softmax1"), list(result["heads"]).index(4)]
    for branch, offset in ((losses[losses < BISTABLE], -13), (losses[losses >= BISTABLE], 14)):
        if len(branch):
            name = f"{len(branch)} of {len(losses)} runs: {branch.mean():.3f}"
            ax.annotate(name, (4, branch.mean()), (6, offset), textcoords="offset points", fontsize=7, color=colour)


def _mark_gap(ax: "matplotlib.axes.Axes", result: Result) -> None:
    """Mark the losses of softmax and of softmax-1 at ν = 4."""
    if 4.0 not in result["nu"]:
        return
    at = list(result["nu"]).index(4.0)
    high, low = (np.median(result["loss_nu"][list(result["map"]).index(map), 0, at]) for map in ("softmax", "softmax1"))
    ax.annotate("", (4.0, low), (4.0, high), arrowprops={"arrowstyle": "<->", "color": "k", "lw": 0.9})
    note = f"ν = 4: softmax {high:.3f},\nsoftmax-1 {low:.3f}"
    ax.annotate(note, (4.0, (high + low) / 2), (0.45, 0.72), textcoords="axes fraction", fontsize=8, arrowprops=LEADER)
