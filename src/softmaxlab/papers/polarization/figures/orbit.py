"""One orbit for all losses along β* (ours): with the strength Γ = ∫γ dt as the clock, the loss drops out.

    du/dΓ = b s,   da/dΓ = J u,   whatever γ is: 1/(1 + e^m) for logistic, 1 − m/b for square

So the two losses give the same curve in (a, u). Logistic runs along it for ever; square stops at a finite Γ.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather
from softmaxlab.papers.polarization import problems
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import Flow, StrengthFlow

if TYPE_CHECKING:
    import matplotlib.figure

LOSSES = ("logistic", "square")


class Orbit(FigureSpec):
    """Flows of both losses from one start with V(0) ∥ β*, and their distance to the orbit at the same strength.

    The orbit is integrated anew, in Γ, to each of `compared` recorded strengths: no interpolation in the distance.
    """

    id: ClassVar[str] = "polarization/orbit"
    title: ClassVar[str] = "Logistic and square loss run along one orbit"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Beyond Lemma 3.5"
    reports: ClassVar[str] = (
        "As functions of the strength Γ the weights of both losses are the same; square stops at finite Γ"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "4 s", "paper": "4 s"}

    p: Annotated[int, Field(ge=2, le=500)] = 6
    norm: Annotated[float, Field(ge=1)] = 4.0  # of β*
    seed: Seed = 0
    t_end: Annotated[float, Field(ge=1.0)] = 1e15
    rtol: Annotated[float, Field(ge=1e-13, le=1e-2)] = 1e-12
    compared: Annotated[int, Field(ge=2, le=400)] = 40

    def _run(self, device: str) -> Result:
        start = problems.along(self.p, self.seed, self.norm)
        runs = [simulate(Flow(loss=loss, **start, t_end=self.t_end, rtol=self.rtol)) for loss in LOSSES]
        family = gather(runs, LOSSES, "name", ("weights", "a", "u", "loss", "strength"))
        measured = [self._distances(start, run) for run in runs]
        strengths, distances = zip(*measured)
        arrays = {**family.arrays, "compared": strengths, "distance": distances}
        axes = {**family.axes, "compared": ("name", "comparison"), "distance": ("name", "comparison")}
        return Result(arrays, axes, family.status)

    def _distances(self, start: problems.Fields, run: Result) -> tuple[np.ndarray, list[float]]:
        """Strengths, and at each the largest difference of (a, u) to the orbit, relative to the largest entry."""
        even = np.linspace(run["strength"][1], run["strength"][-1], self.compared)
        rows = np.minimum(np.searchsorted(run["strength"], even), len(run["t"]) - 1)
        strengths, found = run["strength"][rows], []
        for row, strength in zip(rows, strengths):
            orbit = simulate(StrengthFlow(loss="logistic", **start, strength_end=strength, points=2, rtol=self.rtol))
            here, there = (np.concatenate([r["a"][i], r["u"][i]]) for r, i in ((run, row), (orbit, -1)))
            found.append(np.abs(here - there).max() / np.abs(there).max())
        return strengths, found

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 3.9), layout="constrained")
        times, strengths, distances = figure.subplots(1, 3)
        t, order = result["t"], curves.ranked(curves.last(result["weights"][0]))[: len(curves.NAMED)]
        stop = np.nanmax(result["strength"][1])
        for i, name in enumerate(LOSSES):
            style = {"lw": 1.5} if i == 0 else {"ls": "", "marker": "o", "ms": 3.5, "mfc": "none", "markevery": 7}
            for token, colour in zip(order, curves.NAMED):
                times.plot(t, result["weights"][i, :, token], color=colour, **style)
                strengths.plot(result["strength"][i], result["weights"][i, :, token], color=colour, **style)
            distances.plot(
                result["compared"][i], result["distance"][i], "os"[i] + "-", ms=4, lw=0.8, color=COLOURS[i], label=name
            )
        strengths.axvline(stop, color="k", ls=":", lw=1)
        stopped = f"square stops at Γ = {stop:.3g} "
        strengths.text(stop, 0.98, stopped, fontsize=8, ha="right", va="top", transform=strengths.get_xaxis_transform())
        curves.log_time(times, t)
        distances.set_yscale("log")
        distances.legend(fontsize=8, frameon=False)
        lines.label(times, "time t", "weights s", "against time: two different runs")
        lines.label(strengths, "strength Γ", "weights s", "against strength: one orbit")
        lines.label(distances, "strength Γ", "relative distance in (a, u)", "measured distance to the orbit")
        figure.suptitle(f"{Orbit.title} (flow; lines: logistic, circles: square)", fontsize=11)
        return figure
