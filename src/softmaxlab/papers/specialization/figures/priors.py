"""Priors of your own: points with unequal probabilities, and a ring (ours).

Bayes-softmax with a head for each point is the best estimator (Proposition IV.2, with b_h = log P(θ^h) − |θ^h|²/2), and
here training finds it. It need not: with five points in a plane, of probabilities down to .1, a head was left between
points and the loss above the Bayes risk, .285 against .278, at τ = 3000. For a ring more heads come ever closer.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.arrays import Array
from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.plotting.map_styles import BAYES, THREE, draw_losses
from softmaxlab.specialization import Discrete, Flow, Prior, SingleLocation, bayes_softmax_parameters, flow_many

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

POINTS = ((3.0, 0.0), (0.0, 3.0), (-3.0, 0.0), (0.0, -2.5))
PROBABILITIES = (0.4, 0.3, 0.2, 0.1)
SIGNALS = ("points", "ring")
Heads = Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, max_length=20)]


class Ring(Prior):
    """θ uniform on a circle: a prior that is known by its values at uniform numbers."""

    radius: Annotated[float, Field(gt=0)] = 3.0

    @property
    def features(self) -> int:
        return 2

    def theta(self, u: np.ndarray) -> np.ndarray:
        angle = 2 * np.pi * u[:, 0]
        return self.radius * np.column_stack([np.cos(angle), np.sin(angle)])


class Priors(FigureSpec):
    """Losses after training against the number of heads, for `points` in a plane, and for a ring."""

    id: ClassVar[str] = "specialization/priors"
    title: ClassVar[str] = "Priors of your own: Bayes-softmax reaches the Bayes risk with a head for each point"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Proposition IV.2"
    reports: ClassVar[str] = (
        "With as many heads as points, trained Bayes-softmax has the Bayes risk and its heads lie at the points; "
        "softmax and softmax-1 stay above it"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"heads": (1, 2, 4), "tau_end": 400.0, "samples": 2**11},
        "paper": {"tau_end": 3000.0, "samples": 2**14},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "6 s", "paper": "3 min"}

    points: Array = Field(default_factory=lambda: np.array(POINTS))
    probabilities: Array = Field(default_factory=lambda: np.array(PROBABILITIES))
    radius: Annotated[float, Field(gt=0)] = 3.0
    heads: Heads = (1, 2, 3, 4, 6, 8)
    length: Annotated[int, Field(ge=2, le=100)] = 5
    tau_end: Annotated[float, Field(gt=0)] = 1000.0
    samples: Annotated[int, Field(ge=2**8, le=2**20)] = 2**13  # images of base points, all counted
    seed: Seed = 0

    @model_validator(mode="after")
    def _plane(self) -> Self:
        self.prior()
        if self.points.shape[1] != 2:
            raise ValueError(f"points must be [atom, 2] to be drawn, got shape {list(self.points.shape)}")
        return self

    def prior(self) -> Discrete:
        return Discrete(points=self.points, probabilities=self.probabilities)

    def _run(self, device: str) -> Result:
        priors, atoms = (self.prior(), Ring(radius=self.radius)), len(self.points)
        models = [self.model(prior, H, map) for prior in priors for map in THREE for H in self.heads]
        at_points = self.model(self.prior(), atoms, "bayes_softmax")
        flows = flow_many(self.flow(model) for model in (*models, at_points))
        shape = (len(priors), len(THREE), len(self.heads))
        exact = bayes_softmax_parameters(self.prior())
        arrays = {
            "prior": SIGNALS,
            "map": THREE,
            "heads": self.heads,
            "loss": np.reshape([flow["loss"][-1] for flow in flows[:-1]], shape),
            "loss_error": np.reshape([flow["loss_error"][-1] for flow in flows[:-1]], shape),
            "moving": np.reshape([not flow.notes["converged"] for flow in flows[:-1]], shape),
            "bayes": [self.model(prior, 1, "softmax").bayes_risk(samples=2**11)[0] for prior in priors],
            "exact_loss": at_points.loss(exact.m, exact.r, exact.b)[0],
            "trained_loss": flows[-1]["loss"][-1],
            "m": flows[-1]["m"],
            "points": self.points,
            "probability": self.probabilities,
        }
        axes = {name: (name,) for name in ("prior", "map", "heads")} | {"bayes": ("prior",), "probability": ("atom",)}
        axes |= {name: ("prior", "map", "heads") for name in ("loss", "loss_error", "moving")}
        axes |= {"points": ("atom", "feature"), "m": ("tau", "head", "feature")}
        names = [f"{model.map}, H = {model.heads}" for model in (*models, at_points)]
        return Result(arrays, axes, status_of(flows, names))

    def model(self, prior: Prior, heads: int, map: str) -> SingleLocation:
        return SingleLocation(prior=prior, length=self.length, heads=heads, map=map)

    def flow(self, model: SingleLocation) -> Flow:
        atoms = model.prior.atoms()
        images = 1 if atoms is None else len(atoms[1])
        times = tuple((self.tau_end * np.linspace(0, 1, 25) ** 3).tolist())
        return Flow(
            model=model, tau_end=self.tau_end, seed=self.seed, samples=max(1, self.samples // images), record=times
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 4.2), layout="constrained")
        plane, *losses = figure.subplots(1, 3)
        _draw_plane(plane, result)
        names = {"points": f"{len(result['points'])} points of unequal probability", "ring": "a ring"}
        for ax, name, loss, moving, bayes in zip(
            losses, result["prior"], result["loss"], result["moving"], result["bayes"]
        ):
            for map, row, hollow in zip(result["map"], loss, moving):
                draw_losses(ax, result["heads"], row[:, None], hollow[:, None], str(map))
            ax.axhline(float(bayes), **BAYES)
            ax.set_ylim(0.9 * float(bayes), None)
            ax.set_xticks(result["heads"])
            ax.legend(fontsize=8, frameon=False)
            label(ax, "number of heads H", "loss after training", names[str(name)])
        figure.suptitle(f"{Priors.title}\n(flow; hollow: still moving at the end)", fontsize=11)
        return figure


def _draw_plane(ax: "matplotlib.axes.Axes", result: Result) -> None:
    points, m = result["points"], result["m"]
    size = 1500 * result["probability"]
    ax.scatter(*points.T, s=size, color=COLOURS[5], alpha=0.5, lw=0, label="points θ, area: probability")
    for h in range(m.shape[1]):
        ax.plot(*m[:, h].T, color=COLOURS[2], lw=1.2, ls="-.")
    ax.plot(*m[-1].T, "D", color=COLOURS[2], mec="k", ms=6, label="heads $m_h$ after training")
    reach = 1.35 * np.abs(points).max()
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    legend = ax.legend(fontsize=8, frameon=False, loc="upper left")
    legend.legend_handles[0].set_sizes([60])  # type: ignore[union-attr]
    losses = f"{float(result['trained_loss']):.4f} trained, {float(result['bayes'][0]):.4f} Bayes risk"
    label(ax, "feature 1", "feature 2", f"Bayes-softmax, a head for each point:\nloss {losses}")
