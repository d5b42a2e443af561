"""Figure 10: cross-entropy of softmax(V s) with a target p*, and how its polarization depends on the sharpness of p*.

This is the loss of the authors' code. The text's −⟨p*, log V s⟩ is another one, and unbounded below. The upper panels
are the paper's: loss, gradient norms, scores. The lower ones are ours.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.gradients import NAMES, draw_gradients, with_gradients
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import Descent, Flow

if TYPE_CHECKING:
    import matplotlib.figure

ROUNDING = 1e-14  # of the difference of two numbers of order 1
Sharpness = Annotated[float, Field(ge=0, le=50)]


class Fig10(FigureSpec):
    """Descent at one sharpness of p* = softmax(sharpness·U[0, 1]); then where the flow ends at each of `others`."""

    id: ClassVar[str] = "polarization/fig10"
    title: ClassVar[str] = "KL divergence: how far it polarizes depends on the target"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 10"
    reports: ClassVar[str] = "Polarization again, albeit with diminishing strength compared to classification"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "5 s", "paper": "5 s"}

    p: Annotated[int, Field(ge=2, le=200)] = 10
    seed: problems.Seed = None
    sharpness: Sharpness = 10.0
    lr: Annotated[float, Field(gt=0)] = 0.1
    steps: Annotated[int, Field(ge=1)] = 10_000_000
    others: tuple[Sharpness, ...] = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0)
    t_end: Annotated[float, Field(gt=0)] = 1e6  # of the flows

    def _run(self, device: str) -> Result:
        start = problems.prediction(self.p, self.seed, self.sharpness)
        descent = with_gradients(simulate(Descent(**start, lr=self.lr, steps=self.steps)))
        flows = [
            simulate(Flow(**problems.prediction(self.p, self.seed, sharpness), t_end=self.t_end, points=2))
            for sharpness in self.others
        ]
        entropy = -(start["target"] * np.log(start["target"])).sum()
        kept = ("t", "a", "weights", "loss", *NAMES)
        return Result(
            {
                **{name: descent[name] for name in kept},
                "divergence": descent["loss"] - entropy,
                "sharpness": list(self.others),
                "largest": [flow["weights"][-1].max() for flow in flows],
            },
            {
                **{name: descent.axes[name] for name in kept},
                "divergence": ("t",),
                "sharpness": ("sharpness",),
                "largest": ("sharpness",),
            },
            status_of([descent, *flows], ["descent", *(f"sharpness {sharpness:g}" for sharpness in self.others)]),
            {"instance": problems.instance(self.seed)},
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 6.8), layout="constrained")
        (loss, gradient, scores), (weights, divergence, ends) = figure.subplots(2, 3)
        t = result["t"]
        curves.draw_tokens(weights, t, result["weights"])
        curves.log_weights(weights, result["weights"])
        curves.draw_tokens(scores, t, result["a"])
        draw_gradients(gradient, t, np.stack([result[name] for name in NAMES]), "gradient norms (descent)")
        loss.plot(t, result["loss"], color=COLOURS[0])
        loss.set_yscale("log")
        divergence.plot(t, result["divergence"], color=COLOURS[0])
        divergence.set(yscale="log", ylim=(ROUNDING, None))
        ends.plot(result["sharpness"], result["largest"], "o-", color=COLOURS[1])
        ends.axhline(1.0 / result["weights"].shape[1], color="k", ls=":", lw=1, label="uniform, 1/p")
        ends.legend(fontsize=8, frameon=False)
        for ax in (loss, gradient, scores, weights, divergence):
            curves.log_time(ax, t)
        heading = f"weights (descent): winner ends at {result['weights'][-1].max():.3f}"
        lines.label(weights, "t = lr · step", "weights s", heading)
        lines.label(loss, "t = lr · step", "−⟨p*, log softmax(Vs)⟩", "loss (descent): tends to the entropy of p*")
        lines.label(scores, "t = lr · step", "scores a", "scores (descent)")
        lines.label(divergence, "t = lr · step", "KL(p* ‖ softmax(Vs))", "divergence (descent): loss less the entropy")
        lines.label(ends, "sharpness of p*", "largest weight at the end", "the target decides (flow)")
        curves.legend(figure, weights)
        figure.suptitle(f"{Fig10.title} ({result.notes['instance']})", fontsize=11)
        return figure
