"""Figure 6: what the heads look at, on five sequences, after training with each of the three maps."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.specialization.head_paths import NOTHING, kinds_of, listed
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.map_styles import CALLED, THREE
from softmaxlab.specialization import Flow, Gaussian, OrderParameters, Sequences, SingleLocation, flow_many

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


class Fig06(FigureSpec):
    """σ_hl of every head on the same `count` sequences, at the end of a flow of each map."""

    id: ClassVar[str] = "specialization/fig06"
    title: ClassVar[str] = "Attention maps after training: softmax is noisy, the others switch heads off"
    source: ClassVar[str] = "sagitova2026specialization"
    place: ClassVar[str] = "Figure 6"
    reports: ClassVar[str] = (
        "Softmax heads that do not find the relevant token attend to others; softmax-1 lowers their weights, and "
        "Bayes-softmax still more"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"samples": 2**12},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "6 s", "paper": "15 s"}

    F: Annotated[int, Field(ge=1, le=64)] = 3
    nu: Annotated[float, Field(gt=0)] = 9.0
    heads: Annotated[int, Field(ge=1, le=64)] = 4
    length: Annotated[int, Field(ge=2, le=64)] = 5
    count: Annotated[int, Field(ge=1, le=20)] = 5
    tau_end: Annotated[float, Field(gt=0)] = 10_000.0
    samples: Annotated[int, Field(ge=2**8, le=2**20)] = 2**14
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        prior = Gaussian(F=self.F, nu=(self.nu, self.nu))
        model = SingleLocation(prior=prior, length=self.length, heads=self.heads)
        specs = [
            Flow(model=model.replace(map=map), tau_end=self.tau_end, seed=self.seed, samples=self.samples, points=3)
            for map in THREE
        ]
        flows = flow_many(specs)
        seen = {"count": self.count, "seed": self.seed}
        shown = [simulate(Sequences(model=s.model, order=OrderParameters.at(f), **seen)) for s, f in zip(specs, flows)]
        names = ("sigma", "weights")
        arrays: dict[str, Any] = {name: np.stack([run[name] for run in shown]) for name in names}
        arrays |= {name: shown[0][name] for name in ("posterior", "relevant", "theta")}
        arrays |= {"map": THREE, "certificate": kinds_of(flows), "tau_end": self.tau_end}
        arrays |= {name: [f[name][-1] for f in flows] for name in ("loss", "loss_error")}
        axes = {name: ("map", *shown[0].axes[name]) for name in names}
        axes |= {name: ("map",) for name in ("map", "loss", "loss_error", "certificate")}
        axes |= {name: shown[0].axes[name] for name in ("posterior", "relevant", "theta")}
        return Result(arrays, axes, status_of(flows, THREE))

    @staticmethod
    def seen(result: Result) -> str:
        shares = np.array([_misplaced(np.abs(sigma), result["relevant"]) for sigma in result["sigma"]])
        known = np.isfinite(shares)
        if not known.any():
            return NOTHING
        listed_shares = listed(
            f"{share:.0%} with {CALLED[str(map)]}" for share, map in zip(shares[known], result["map"][known])
        )
        order = "less with each map" if (np.diff(shares[known]) < 0).all() else "not less with each map"
        left = "" if known.all() else " (a map without finite weights is left out)"
        return (
            "Of all weight, heads whose largest one misses the relevant token put on other tokens "
            f"{listed_shares}: {order}{left}."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        sigma = result["sigma"]  # [map, sequence, head, token]
        maps, count, H = sigma.shape[:3]
        figure = Figure(figsize=(2.2 * count + 1.2, 6.4), layout="constrained")
        axes = figure.subplots(maps + 1, count, squeeze=False, height_ratios=[H] * maps + [1])
        ends = (result[name] for name in ("map", "loss", "loss_error", "certificate"))
        for row, values, name, loss, error, kind in zip(axes, sigma, *ends):
            # each row has a scale of its own: a Bayes-softmax weight is up to H, and softmax-1's up to v
            for ax, weights, relevant in zip(row, values, result["relevant"]):
                ax.imshow(weights, cmap="Blues", vmin=0, vmax=values.max(), aspect="auto")
                _frame(ax, int(relevant), H)
            figure.colorbar(row[0].images[0], ax=row, label="weight $σ_{hl}$", pad=0.01)
            row[0].set_ylabel(f"{CALLED[str(name)]} ({kind})\nloss {loss:.3f} ± {error:.3f}\nhead h", fontsize=8)
        for i, ax in enumerate(axes[-1]):
            ax.imshow(result["posterior"][i : i + 1], cmap="Blues", vmin=0, vmax=1, aspect="auto")
            _frame(ax, int(result["relevant"][i]), 1)
            ax.set_xlabel("token l", fontsize=9)
            axes[0, i].set_title(f"sequence {i + 1}", fontsize=9)
        figure.colorbar(axes[-1, 0].images[0], ax=axes[-1], label="weight", pad=0.01)
        axes[-1, 0].set_ylabel("Bayes\nestimator", fontsize=9)
        for ax in axes.flat:
            ax.label_outer()
        figure.suptitle(
            f"{Fig06.title}\n(flow to τ = {float(result['tau_end']):g}; frame: relevant token)", fontsize=11
        )
        return figure


def _misplaced(weights: np.ndarray, relevant: np.ndarray) -> float:
    """Return the share of all weight that heads with another favourite put on irrelevant tokens."""
    if not (np.isfinite(weights).all() and weights.sum() > 0):
        return np.nan
    elsewhere = np.arange(weights.shape[-1]) != relevant[:, None, None]
    misses = weights.argmax(axis=-1) != relevant[:, None]
    return float((weights * elsewhere).sum(axis=-1)[misses].sum() / weights.sum())


def _frame(ax: "matplotlib.axes.Axes", relevant: int, heads: int) -> None:
    from matplotlib.patches import Rectangle

    frame = Rectangle((relevant - 0.5, -0.5), 1, heads, fill=False, edgecolor=COLOURS[1], lw=2.5, clip_on=False)
    ax.add_patch(frame)
    tokens = np.arange(ax.images[0].get_array().shape[1])  # type: ignore[union-attr]
    ax.set_xticks(tokens, tokens + 1, fontsize=7)
    ax.set_yticks(np.arange(heads), np.arange(1, heads + 1) if heads > 1 else [""], fontsize=7)
