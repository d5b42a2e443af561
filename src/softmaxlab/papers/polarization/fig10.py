"""Figure 10: cross-entropy of softmax(V s) with a target p*, and how its polarization depends on the sharpness of p*.

This is the loss of the authors' code. The text's −⟨p*, log V s⟩ is another one, and unbounded below.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers import lines
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.polarization import curves, problems
from softmaxlab.papers.style import COLOURS
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
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"steps": 1_000_000, "t_end": 1e4}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "5 s"}

    p: Annotated[int, Field(ge=2, le=200)] = 10
    seed: Annotated[int, Field(ge=0)] = 123
    sharpness: Sharpness = 10.0
    lr: Annotated[float, Field(gt=0)] = 0.1
    steps: Annotated[int, Field(ge=1)] = 10_000_000
    others: tuple[Sharpness, ...] = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0)
    t_end: Annotated[float, Field(gt=0)] = 1e6  # of the flows

    def _run(self, device: str) -> Result:
        descent = simulate(
            Descent(**problems.prediction(self.p, self.seed, self.sharpness), lr=self.lr, steps=self.steps)
        )
        flows = [
            simulate(Flow(**problems.prediction(self.p, self.seed, sharpness), t_end=self.t_end, points=2))
            for sharpness in self.others
        ]
        target = problems.prediction(self.p, self.seed, self.sharpness)["target"]
        entropy = -(target * np.log(target)).sum()
        kept = ("t", "scores", "loss")
        return Result(
            {
                **{name: descent[name] for name in kept},
                "divergence": descent["loss"] - entropy,
                "sharpness": list(self.others),
                "largest": [flow["scores"][-1].max() for flow in flows],
            },
            {
                **{name: descent.axes[name] for name in kept},
                "divergence": ("t",),
                "sharpness": ("sharpness",),
                "largest": ("sharpness",),
            },
            status_of([descent, *flows], ["descent", *(f"sharpness {sharpness:g}" for sharpness in self.others)]),
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 3.9), layout="constrained")
        weights, loss, ends = figure.subplots(1, 3)
        t = result["t"]
        curves.draw_tokens(weights, t, result["scores"])
        curves.log_weights(weights, result["scores"])
        loss.plot(t, result["divergence"], color=COLOURS[0])
        loss.set(yscale="log", ylim=(ROUNDING, None))
        ends.plot(result["sharpness"], result["largest"], "o-", color=COLOURS[1])
        ends.axhline(1.0 / result["scores"].shape[1], color="k", ls=":", lw=1, label="uniform, 1/p")
        ends.legend(fontsize=8, frameon=False)
        for ax in (weights, loss):
            curves.log_time(ax, t)
        lines.label(
            weights, "t = lr · step", "weights s", f"weights (descent): winner ends at {result['scores'][-1].max():.3f}"
        )
        lines.label(loss, "t = lr · step", "KL(p* ‖ softmax(Vs))", "divergence (descent)")
        lines.label(ends, "sharpness of p*", "largest weight at the end", "the target decides (flow)")
        curves.legend(figure, weights)
        figure.suptitle(Fig10.title, fontsize=11)
        return figure
