"""Figure 11: cosine similarity of two softmax heads, cos = q_12/√(q_11 q_22), over the strengths of a flipping spike.

The text (C.2) says that the specialization grows with ν1; it is the similarity that grows, so the specialization falls.
Nor does the similarity always fall with ν2: at ν1 = 3 it is .860 at ν2 = 2, .844 at 4 and .860 at 8.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.specialization.figures.fig12 import Strengths
from softmaxlab.papers.specialization.head_paths import NOTHING, count, kinds_of, listed, steps
from softmaxlab.papers.specialization.head_planes import finer_where_needed
from softmaxlab.plotting.lines import draw_lines, label
from softmaxlab.specialization import FlippingSpike, Flow, SingleLocation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MARKS = {"minimum": "", "moving": "→", "saddle": "×", "undersampled": "~"}


class Fig11(FigureSpec):
    """Flows of two heads for all pairs of strengths, and the angle between the heads at the end."""

    id: ClassVar[str] = "specialization/fig11"
    title: ClassVar[str] = "Cosine similarity of two softmax heads over the strengths of a flipping spike"
    source: ClassVar[str] = "sagitova2026specialization"
    place: ClassVar[str] = "Figure 11"
    reports: ClassVar[str] = "Specialization, measured by the cosine similarity, grows with ν1 and decreases with ν2"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"samples": 2**12, "nu1": (1.0, 2.0, 4.0, 8.0), "nu2": (1.0, 2.0, 4.0, 8.0)},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "10 s", "paper": "2 min"}

    nu1: Strengths = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    nu2: Strengths = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    length: Annotated[int, Field(ge=2, le=1000)] = 4
    eta: Annotated[float, Field(ge=0)] = 1.0
    tau_end: Annotated[float, Field(ge=1.0)] = 60_000.0  # where the mean is strong heads part as slowly
    samples: Annotated[int, Field(ge=64, le=2**20)] = 2**14
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        pairs = [(first, second) for first in self.nu1 for second in self.nu2]
        runs = finer_where_needed([self.flow(pair) for pair in pairs])
        shape = (len(self.nu1), len(self.nu2))
        q, m = (np.stack([run[name][-1] for run in runs]).reshape(*shape, 2, 2) for name in ("q", "m"))
        arrays = {"nu1": self.nu1, "nu2": self.nu2, "q": q, "m": m, "cosine": cosine(q)}
        arrays |= {"tau_end": self.tau_end, "samples": self.samples, "certificate": kinds_of(runs).reshape(shape)}
        axes = {
            "nu1": ("nu1",),
            "nu2": ("nu2",),
            "q": ("nu1", "nu2", "head", "other_head"),
            "m": ("nu1", "nu2", "head", "feature"),
            "cosine": ("nu1", "nu2"),
            "certificate": ("nu1", "nu2"),
        }
        return Result(arrays, axes, status_of(runs, [f"ν = {pair}" for pair in pairs]))

    def flow(self, nu: tuple[float, float]) -> Flow:
        model = SingleLocation(prior=FlippingSpike(nu=nu), length=self.length, heads=2)
        rules: dict[str, Any] = {"tau_end": self.tau_end, "points": 3, "samples": self.samples, "seed": self.seed}
        return Flow(model=model, eta=self.eta, **rules)

    @staticmethod
    def seen(result: Result) -> str:
        nu1, nu2, cosines = result["nu1"], result["nu2"], result["cosine"]
        known = np.isfinite(cosines)
        if not known.any():
            return NOTHING
        with_nu1 = [step < 0 for column in cosines.T for step in steps(nu1, column)]
        with_nu2 = [step > 0 for row in cosines for step in steps(nu2, row)]
        i, j = (pick(np.where(known.any(axis=1), nu1, np.nan)) for pick in (np.nanargmin, np.nanargmax))
        means = (f"{cosines[k][known[k]].mean():.2f} at ν1 = {nu1[k]:g}" for k in dict.fromkeys((i, j)))
        return (
            f"Specialization, a lower cosine, grows with ν1 in {count(with_nu1)} steps and falls with ν2 in "
            f"{count(with_nu2)}; the mean cosine is {listed(means)}."
        )

    @staticmethod
    def draw(result: Result) -> "Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10.5, 4.6), layout="constrained")
        plane, lines = figure.subplots(1, 2)
        _draw_plane(plane, result)
        names = [f"$ν_2$ = {nu:g}" for nu in result["nu2"]]
        draw_lines(lines, result["nu1"], result["cosine"].T, names)
        lines.legend(fontsize=8, frameon=False)
        rises = (np.diff(result["cosine"], axis=0) > 0).mean()
        label(lines, "$ν_1$ (constant direction)", "cosine similarity", f"rises with $ν_1$ in {rises:.0%} of the steps")
        end = "" if result.status.ok else f"\n{result.status}"
        marks = ", ".join(f"{mark} {kind}" for kind, mark in MARKS.items() if mark)
        until = f"flow to τ = {result['tau_end']:g}, {result['samples']:,} base points or more"
        figure.suptitle(f"{Fig11.title} \n({until}; not at rest: {marks}){end}", fontsize=11)
        return figure


def cosine(q: np.ndarray) -> np.ndarray:
    """The cosine of the angle between the first two heads, from their overlaps [..., head, head]."""
    return q[..., 0, 1] / np.sqrt(q[..., 0, 0] * q[..., 1, 1])


def _draw_plane(ax: "Axes", result: Result) -> None:
    cosines = result["cosine"].T  # ν2 upward
    image = ax.imshow(cosines, cmap="cividis", vmin=-1, vmax=1, origin="lower", aspect="auto")
    for (row, column), value in np.ndenumerate(cosines):
        colour = "k" if value > 0.2 else "w"
        kind = str(result["certificate"][column, row])
        ax.text(column, row, f"{value:.2f}{MARKS[kind]}", ha="center", va="center", fontsize=8, color=colour)
    ax.set_xticks(range(len(result["nu1"])), [f"{nu:g}" for nu in result["nu1"]])
    ax.set_yticks(range(len(result["nu2"])), [f"{nu:g}" for nu in result["nu2"]])
    label(ax, "$ν_1$ (constant direction)", "$ν_2$ (flipping direction)", "$q_{12} / \\sqrt{q_{11} q_{22}}$ at the end")
    ax.figure.colorbar(image, ax=ax).ax.tick_params(labelsize=8)
