"""Figure 8: the flow by Euler's steps with new samples at every step, against the same samples at all steps.

Both start at the same order parameters; the histogram is of m_1f(new) − m_1f(same) over all recorded times and runs.
The same samples bias the gradient, which along the flipping direction is amplified: no matter with the paper's 10^5
samples, but with 2000 they can even choose which head goes which way.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather, status_of
from softmaxlab.papers.specialization.head_paths import LEARNT, NOTHING, count, kinds_of, listed
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.specialization import FlippingSpike, Flow, SingleLocation, flow_many

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("constant direction, f = 1", "flipping direction, f = 2")
HATCHES = ("", "//")
BINS = 41
PAPER_SAMPLES = 100_000


class Fig08(FigureSpec):
    """Pairs of flows on `samples` independent samples, drawn anew at every step or once."""

    id: ClassVar[str] = "specialization/fig08"
    title: ClassVar[str] = "New samples at every step against the same samples"
    source: ClassVar[str] = "sagitova2026specialization"
    place: ClassVar[str] = "Figure 8"
    reports: ClassVar[str] = "Keeping the same Monte Carlo samples does not affect the behaviour of the model"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"samples": 4000, "runs": 1, "tau_end": 20.0, "step": 0.05, "points": 201},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "3 s", "paper": "about 8 min"}

    nu: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = (2.0, 2.0)
    length: Annotated[int, Field(ge=2, le=1000)] = 8
    heads: Annotated[int, Field(ge=1, le=100)] = 2
    samples: Annotated[int, Field(ge=1, le=10**7)] = PAPER_SAMPLES
    step: Annotated[float, Field(gt=0)] = 0.02
    tau_end: Annotated[float, Field(gt=0)] = 50.0
    points: Annotated[int, Field(ge=2, le=10_000)] = 251
    runs: Annotated[int, Field(ge=1, le=100)] = 2
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        seeds = range(self.seed, self.seed + self.runs)
        flows = flow_many(self.flow(kind, seed) for kind in ("fresh", "plain") for seed in seeds)
        new, same = (gather(part, seeds, "run", ("m", "loss")) for part in (flows[: self.runs], flows[self.runs :]))
        arrays = {
            "run": new["run"],
            "tau": new["tau"],
            "m_new": new["m"],
            "m_same": same["m"],
            "difference": new["m"][:, :, 0] - same["m"][:, :, 0],
            "samples": self.samples,
            "step": self.step,
            "certificate": kinds_of(flows).reshape(2, self.runs),
        }
        axes = {name: ("run", "tau", "head", "feature") for name in ("m_new", "m_same")}
        axes |= {"run": ("run",), "tau": ("tau",), "difference": ("run", "tau", "feature")}
        axes |= {"certificate": ("sampling", "run")}
        return Result(arrays, axes, status_of((new, same), ("new samples", "same samples")))

    def flow(self, sampling: Literal["fresh", "plain"], seed: int) -> Flow:
        model = SingleLocation(prior=FlippingSpike(nu=self.nu), length=self.length, heads=self.heads)
        times: dict[str, Any] = {"tau_end": self.tau_end, "points": self.points, "step": self.step}
        return Flow(model=model, **times, solver="Euler", sampling=sampling, samples=self.samples, seed=seed)

    @staticmethod
    def seen(result: Result) -> str:
        new, same = (result[name][:, :, 0] for name in ("m_new", "m_same"))  # [run, tau, feature] of the first head
        known = np.asarray((np.isfinite(new) & np.isfinite(same)).all(axis=-1))
        if not known.any():
            return NOTHING
        rms = np.sqrt(np.square(new[known] - same[known]).mean(axis=0))
        largest = np.abs(new[known]).max(axis=0)
        ends = [(new[i, k, 1][-1], same[i, k, 1][-1]) for i, k in enumerate(known) if k.any()]
        sides = [a * b > 0 for a, b in ends if max(abs(a), abs(b)) > LEARNT]
        learnt = f"|m_12| > {LEARNT:g}"
        taken = f"it takes the same side in {count(sides)} runs with {learnt}" if sides else f"no run has {learnt} yet"
        return (
            f"With the same samples the first head's m_11 differs by an rms of {rms[0]:.2g} (largest "
            f"{largest[0]:.2g}), its m_12 by {rms[1]:.2g} (largest {largest[1]:.2g}); {taken}."
        )

    @staticmethod
    def draw(result: Result) -> "Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(12.5, 3.9), layout="constrained")
        histogram, through_time, heads = figure.subplots(1, 3)
        difference, tau = result["difference"], result["tau"]
        bins = np.linspace(-1.05, 1.05, BINS) * np.nanmax(np.abs(difference))
        for f, name in enumerate(NAMES):
            rms = np.sqrt(np.nanmean(np.square(difference[..., f])))
            look: dict[str, Any] = {"color": COLOURS[f], "alpha": 0.6, "hatch": HATCHES[f], "edgecolor": "w"}
            histogram.hist(difference[..., f].ravel(), bins, label=f"{name}: rms {rms:.2g}", **look)
            for i, run in enumerate(difference[..., f]):
                through_time.plot(tau, run, color=COLOURS[f], ls=("-", "--")[f], label=None if i else name)
            for kind, ls, words in (("m_new", "-", "new samples"), ("m_same", ":", "same samples")):
                heads.plot(tau, result[kind][0, :, 0, f], color=COLOURS[f], ls=ls, label=f"f = {f + 1}, {words}")
        for ax in (histogram, through_time, heads):
            ax.legend(fontsize=8, frameon=False)
        histogram.set_ylim(0, 1.25 * histogram.get_ylim()[1])
        histogram.locator_params(axis="x", nbins=5)
        label(histogram, "$m_{1f}$(new) − $m_{1f}$(same)", "recorded times and runs", "differences of the first head")
        label(through_time, "τ", "$m_{1f}$(new) − $m_{1f}$(same)", f"through time (runs: {len(difference)})")
        label(heads, "τ", "$m_{1f}$", "the first head, first run")
        paper = "" if result["samples"] == PAPER_SAMPLES else f", the paper has {PAPER_SAMPLES:,}"
        end = "" if result.status.ok else f"\n{result.status}"
        rest = f"flows are {listed(sorted(set(result['certificate'].ravel())))} at τ = {tau[-1]:g}"
        note = f"{result['samples']:,} samples{paper}; Euler, step {result['step']:g}; {rest}"
        figure.suptitle(f"{Fig08.title}\n({note}){end}", fontsize=11)
        return figure
