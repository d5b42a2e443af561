"""Finite batches: what γ D/N_b adds to the flow (ours).

    dq⊥/dτ = −(∇_r rᵀ + r ∇_rᵀ) + (γ D/N_b) E Σ_l c_l c_lᵀ

SGD with N_b < D against the flow with this term and without it, both from SGD's own overlaps at its start.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather, status_of
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.specialization import SGD, FlippingSpike, Flow, SingleLocation, flow_many

if TYPE_CHECKING:
    import matplotlib.figure

Batches = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=8)]


class Batch(FigureSpec):
    """Figure 1's setting at dimension `dim`, with each of `batches`."""

    id: ClassVar[str] = "specialization/batch"
    title: ClassVar[str] = "Small batches keep the heads large; one more term in the flow accounts for it"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Proposition III.2"
    reports: ClassVar[str] = (
        "With N_b < D the part of the heads outside the signal stays larger than in the flow; a term with γ D/N_b in "
        "the flow accounts for it"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"batches": (1000, 400, 200), "tau_end": 10.0, "samples": 2**10},
        "paper": {"batches": (10_000, 2000, 500, 200), "tau_end": 60.0},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "4 s", "paper": "80 s"}

    dim: Annotated[int, Field(ge=8, le=10**12)] = 10_000
    batches: Batches = (2000, 500, 200)
    lr: Annotated[float, Field(gt=0)] = 0.02
    tau_end: Annotated[float, Field(gt=0)] = 20.0
    samples: Annotated[int, Field(ge=2**8, le=2**20)] = 2**12
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        model = SingleLocation(prior=FlippingSpike(nu=(2.0, 2.0)), length=10, heads=2)
        rules = {"lr": self.lr, "tau_end": self.tau_end, "seed": self.seed, "points": 41}
        sgds = [simulate(SGD(model=model, dim=self.dim, batch=batch, **rules), device=device) for batch in self.batches]
        noises = [self.lr * self.dim / batch for batch in self.batches]
        rules = {"tau_end": self.tau_end, "seed": self.seed, "points": 41, "samples": self.samples}
        flow = Flow(**{"model": model, "start": sgds[0], **rules})
        flows = flow_many([flow, *(flow.replace(batch_noise=noise) for noise in noises)])
        labels = [f"N_b = {batch}" for batch in self.batches]
        family = gather(sgds, labels, "batch", ("r", "loss"))
        with_noise = gather(flows[1:], labels, "batch", ("r", "loss"))
        arrays = {
            "batch": self.batches,
            "batch_noise": noises,
            "tau": family["tau"],
            "flow_tau": flows[0]["tau"],
            "q_sgd": orthogonal(family["r"]),
            "q_flow": orthogonal(flows[0]["r"]),
            "q_noise": orthogonal(with_noise["r"]),
            "loss_sgd": family["loss"],
            "loss_flow": flows[0]["loss"],
            "loss_noise": with_noise["loss"],
        }
        axes: dict[str, tuple[str, ...]] = {
            "batch": ("batch",),
            "batch_noise": ("batch",),
            "tau": ("tau",),
            "flow_tau": ("flow_tau",),
        }
        for name in ("q", "loss"):
            axes |= {
                f"{name}_sgd": ("batch", "tau"),
                f"{name}_flow": ("flow_tau",),
                f"{name}_noise": ("batch", "flow_tau"),
            }
        return Result(arrays, axes, status_of((*sgds, *flows), (*labels, "flow", *labels)))

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        batches = result["batch"]
        figure = Figure(figsize=(3.4 * len(batches) + 0.6, 5.8), layout="constrained")
        axes = figure.subplots(2, len(batches), squeeze=False, sharex=True, sharey="row")
        for i, column in enumerate(axes.T):
            for ax, name in zip(column, ("q", "loss")):
                ax.plot(result["tau"], result[f"{name}_sgd"][i], "o", color=COLOURS[0], ms=4, mfc="none", label="SGD")
                ax.plot(
                    result["flow_tau"], result[f"{name}_noise"][i], color=COLOURS[1], lw=1.6, label="flow with the term"
                )
                ax.plot(result["flow_tau"], result[f"{name}_flow"], "--", color="k", lw=1.3, label="flow without")
            noise = float(result["batch_noise"][i])
            label(column[0], "time τ", "$q_⊥$, mean over heads", f"$N_b$ = {batches[i]}: γD/$N_b$ = {noise:g}")
            label(column[1], "time τ", "loss")
        axes[0, 0].legend(fontsize=8, frameon=False)
        figure.suptitle(f"{Batch.title} (flipping spike, softmax)", fontsize=11)
        return figure


def orthogonal(r: np.ndarray) -> np.ndarray:
    """The mean over heads of q⊥_hh = |r_h|²."""
    return np.square(r).sum(axis=-1).mean(axis=-1)
