"""Figure 2: weights to one-hot, value projections apart in preserved order, and the bound of Theorem 3.3b.

s_j/s_0 ≤ 1/(1 + (δ/p) Γ),   δ = min_{i<j} (u_i(0) − u_j(0)),   and in truth s_j log²t → 2b/p
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.polarization import problems
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.polarization import Descent, Flow, exact

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

NEARLY = 0.9  # weight from which on a picture shows one token alone
LATE = 1e2  # from where on log t is worth drawing


class Fig02(FigureSpec):
    """The flow to `t_end`, and beside it the descent of `steps` steps, from the authors' start or ours of a `seed`."""

    id: ClassVar[str] = "polarization/fig02"
    title: ClassVar[str] = "Logistic loss: weights become one-hot, order is preserved"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 2"
    reports: ClassVar[str] = "The weights converge to a one-hot vector and the projections u diverge in preserved order"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "1 s", "paper": "1 s"}

    p: Annotated[int, Field(ge=2, le=2000)] = 8
    norm: Annotated[float, Field(gt=0)] = 1.0  # of β*
    seed: problems.Seed = None
    t_end: Annotated[float, Field(ge=1e3)] = 1e12
    points: Annotated[int, Field(ge=10, le=10_000)] = 400
    lr: Annotated[float, Field(gt=0)] = 0.1
    steps: Annotated[int, Field(ge=1)] = 1_000_000

    def _run(self, device: str) -> Result:
        start = problems.classification(self.p, self.seed, self.norm)
        flow = simulate(Flow(**start, t_end=self.t_end, points=self.points))
        descent = simulate(Descent(**start, lr=self.lr, steps=self.steps, points=25))
        u = flow["u"][0]
        bound = exact.ratio_bound(flow["strength"], u)
        names = ("t", "weights", "u", "loss", "strength")
        arrays = {name: flow[name] for name in names} | {f"descent_{name}": descent[name] for name in names[:3]}
        axes = {name: flow.axes[name] for name in names} | {"bound": ("t",), "descent_t": ("descent_t",)}
        axes |= {f"descent_{name}": ("descent_t", "token") for name in ("weights", "u")}
        return Result(
            {**arrays, "bound": bound, "b": self.norm**2},
            axes,
            status_of((flow, descent), ("flow", "descent")),
            {"instance": problems.instance(self.seed)},
        )

    @staticmethod
    def seen(result: Result) -> str:
        """The winner's weight and the ways of the u, and at how many times their order is that of the start."""
        s, u = result["weights"], result["u"]
        known = np.flatnonzero(np.isfinite(s).all(axis=1) & np.isfinite(u).all(axis=1))
        if not len(known):
            return "Nothing is there: no weights or projections are finite."
        first, end = known[0], known[-1]
        winner, grown = s[end].argmax(), u[end] - u[first]
        both = np.concatenate([u, result["descent_u"]])[:, np.argsort(-u[first])]
        kept = np.array((np.diff(both, axis=1) < 0).all(axis=1))  # false where one is NaN
        far = "nearly one-hot" if s[end, winner] > NEARLY else "not one-hot"
        return (
            f"At t = {result['t'][end]:.3g} token {winner} has weight {s[end, winner]:.4f}, {far}; its u has grown by"
            f" {grown[winner]:.1f}, the others' by {np.delete(grown, winner).max():.1f} at most, and their order is"
            f" kept at {kept.sum()} of {len(kept)} times of flow and descent."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 3.9), layout="constrained")
        weights, projections, ratios = axes = figure.subplots(1, 3)
        t, s, tokens = result["t"], result["weights"], np.arange(result["u"].shape[1])
        curves.draw_tokens(weights, t, s, tokens)
        curves.draw_tokens(projections, t, result["u"], tokens)
        curves.draw_tokens(ratios, t, np.where(tokens > 0, s / s[:, :1], np.nan), tokens)
        for ax, name in ((weights, "weights"), (projections, "u")):
            named = result[f"descent_{name}"][1:, : len(curves.NAMED)]
            ax.plot(result["descent_t"][1:], named, "o", ms=3, mfc="none", mec="k", mew=0.5)
        _draw_limits(ratios, result)
        weights.set_yscale("log")
        ratios.set_yscale("log")
        lines.label(weights, "time t", "weights s", "weights: token 0 takes all")
        lines.label(projections, "time t", "u = Vᵀβ*", "value projections: $u_0$ diverges, order preserved")
        lines.label(ratios, "time t", "$s_j / s_0$", "ratio to the winner, its bound and its limit")
        for ax in axes:
            curves.log_time(ax, t)
        curves.legend(figure, weights)
        figure.suptitle(f"{Fig02.title} (lines: flow; circles: descent)\n{result.notes['instance']}", fontsize=11)
        return figure


def _draw_limits(ax: "matplotlib.axes.Axes", result: Result) -> None:
    """Theorem 3.3b's bound from above, and 2b/(p log²t), which all ratios approach."""
    t, p = result["t"], result["u"].shape[1]
    late = t > LATE
    ax.plot(t, result["bound"], color="k", lw=1.5, label="bound of Theorem 3.3b")
    limit = exact.loser_constant(float(result["b"]), p) / np.log(t[late]) ** 2
    ax.plot(t[late], limit, color="k", ls=(0, (4, 2)), lw=1.5, label="limit $2b/(p\\,\\log^2 t)$")
    ax.legend(handles=ax.get_lines()[-2:], fontsize=8, frameon=False, loc="lower left")
