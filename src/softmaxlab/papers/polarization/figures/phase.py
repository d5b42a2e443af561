"""Phase portraits of the orbit for two and three tokens (ours).

Two tokens, with x = a_0 − a_1 and w = u_0 − u_1, exactly:

    dx/dΓ = w/(2 cosh²(x/2)),   dw/dΓ = b tanh(x/2),   w² − 4b sinh²(x/2) is constant

so token 0 wins if and only if w + 2√b sinh(x/2) > 0. Three tokens: the weights on the simplex, from u(0) = 0, where the
largest weight wins, and from u(0) = lead·(1, 0, −1), where it need not.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather, status_of
from softmaxlab.plotting import lines
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import Flow

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

EDGE = 3.0  # |x| of the starts for two tokens
REACH = 1.4  # their largest |w|, in units of the value at which neither token wins
OFFSETS = (0.5, 0.3)  # of the grid on the simplex, so that no start has a tie
KEPT = 1e-6  # drift of the invariant: the solver's error at rtol 1e-11 is far below
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


class Phase(FigureSpec):
    """Flows from `starts` points on each side for p = 2, and from a grid of `grid` rows on the simplex for p = 3."""

    id: ClassVar[str] = "polarization/phase"
    title: ClassVar[str] = "Phase portraits for two and three tokens"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Section 3"
    reports: ClassVar[str] = (
        "Two tokens move on level sets of an exact invariant; a(0) ≠ 0 can overturn the order of u(0)"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {"starts": 16, "grid": 10}}
    cost: ClassVar[dict[str, str]] = {"quick": "3 s", "paper": "6 s"}
    # 8 starts on each side in place of 16, 42 on each simplex in place of 110: shares of starts
    quick_within: ClassVar[dict[str, float]] = {
        "share of starts that the largest u(0) loses, two tokens": 0.1,
        "share of starts that the largest u(0) loses, three tokens": 0.1,
    }

    norm: Annotated[float, Field(gt=0)] = 1.0  # of β*
    lead: Annotated[float, Field(ge=0)] = 1.0
    starts: Annotated[int, Field(ge=1, le=100)] = 8
    grid: Annotated[int, Field(ge=1, le=30)] = 6
    t_end: Annotated[float, Field(gt=0)] = 1e9
    rtol: Annotated[float, Field(ge=1e-13, le=1e-2)] = 1e-11

    def _run(self, device: str) -> Result:
        w = 2.0 * self.norm * np.sinh(EDGE / 2.0) * REACH * (np.arange(self.starts) + 0.5) / self.starts
        plane = [self._flow([side * EDGE, 0.0], [-side * w_0, 0.0]) for side in (-1.0, 1.0) for w_0 in w]
        logits = np.log(_grid(self.grid))
        leads = (0.0, self.lead)
        simplex = [self._flow(a, lead * np.array([1.0, 0.0, -1.0])) for lead in leads for a in logits]
        runs = [*plane, *simplex]
        two, three = (gather(part, range(len(part)), "run", ("weights", "a", "u", "loss")) for part in (plane, simplex))
        x, w = (two[name][..., 0] - two[name][..., 1] for name in ("a", "u"))
        kept = invariant(x, w, self.norm**2)
        arrays = {
            "t": two["t"],
            "x": x,
            "w": w,
            "invariant": kept,
            "drift": np.abs(kept - kept[:, :1]).max(axis=1) / np.square(w).max(axis=1),
            "lead": leads,
            "weights": three["weights"].reshape(len(leads), len(logits), *three["weights"].shape[1:]),
            "b": self.norm**2,
        }
        axes = {name: ("run", "t") for name in ("x", "w", "invariant")} | {
            "t": ("t",),
            "lead": ("lead",),
            "drift": ("run",),
        }
        return Result(arrays, {**axes, "weights": ("lead", "start", "t", "token")}, status_of(runs, range(len(runs))))

    def _flow(self, a: Any, u: Any) -> Result:
        rules = {"t_end": self.t_end, "points": 200, "rtol": self.rtol}
        return simulate(Flow(loss="logistic", beta=np.array([self.norm]), V=np.array([u]) / self.norm, a=a, **rules))

    @staticmethod
    def seen(result: Result) -> str:
        """Say how well the invariant is kept, and how often the largest u(0) does not win."""
        x, w, (_, lead), s = result["x"], result["w"], result["lead"], result["weights"][1]
        two, three = np.isfinite(x[:, -1]), np.isfinite(s[:, -1]).all(axis=1) & (lead > 0)  # without a lead, no order
        lost_two = np.sign(x[two, -1]) != np.sign(w[two, 0])
        lost_three = s[three, -1].argmax(axis=1) != 0
        drift = result["drift"][np.isfinite(result["drift"])]
        kept = f"kept to {drift.max():.0e} in {len(drift)} of {len(x)} runs" if len(drift) else "not known in any run"
        return (
            f"For two tokens the invariant is {kept}; the token with the largest u(0) ends behind from"
            f" {lost_two.sum()} of {len(lost_two)} starts with two tokens and {lost_three.sum()} of {len(lost_three)}"
            " with three."
        )

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        two = np.sign(result["x"][:, -1]) != np.sign(result["w"][:, 0])
        three = result["weights"][1][:, -1].argmax(axis=1) != 0
        return {
            "share of starts that the largest u(0) loses, two tokens": float(two.mean()),
            "share of starts that the largest u(0) loses, three tokens": float(three.mean()),
            "the invariant is kept to 1e-6": float(result["drift"].max() < KEPT),
        }

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 4.4), layout="constrained")
        plane, *simplices = figure.subplots(1, 3)
        _draw_plane(plane, result)
        for ax, lead, weights in zip(simplices, result["lead"], result["weights"]):
            _draw_simplex(ax, weights)
            u = "0" if lead == 0 else f"({lead:g}, 0, −{lead:g})"
            ax.set_title(f"p = 3, u(0) = {u}: colour tells the winner", fontsize=9)
        figure.suptitle(f"{Phase.title} (flow; dots: starts)", fontsize=11)
        return figure


def invariant(x: np.ndarray, w: np.ndarray, b: float) -> np.ndarray:
    """w² − 4b sinh²(x/2), constant for two tokens."""
    return np.square(w) - 4.0 * b * np.square(np.sinh(x / 2.0))


def _grid(rows: int) -> np.ndarray:
    """Points inside the simplex, none with two equal weights."""
    first, second = OFFSETS
    return (
        np.array([(i + first, j + second, rows - i - j - first - second) for i in range(rows) for j in range(rows - i)])
        / rows
    )


def _draw_plane(ax: "matplotlib.axes.Axes", result: Result) -> None:
    b = float(result["b"])
    reach = 1.05 * REACH * 2.0 * np.sqrt(b) * np.sinh(EDGE / 2.0)
    x, w = np.linspace(-EDGE, EDGE, 201), np.linspace(-reach, reach, 201)
    ax.contour(x, w, invariant(x[None], w[:, None], b), levels=20, colors=COLOURS[-1], linewidths=0.6, linestyles="-")
    ax.plot(x, -2.0 * np.sqrt(b) * np.sinh(x / 2.0), "k--", lw=1.2, label="w = −2√b sinh(x/2): neither wins")
    for row_x, row_w in zip(result["x"], result["w"]):
        winner = 0 if row_x[-1] > 0 else 1
        ax.plot(row_x, row_w, color=COLOURS[winner], ls=lines.DASHES[winner], lw=1.5)
        ax.plot(row_x[0], row_w[0], "o", ms=4, color=COLOURS[winner])
    ax.set(xlim=(-1.05 * EDGE, 1.05 * EDGE), ylim=(-reach, reach))
    ax.legend(fontsize=8, loc="upper center", framealpha=1.0)
    title = f"p = 2: on level sets of w² − 4b sinh²(x/2), kept to {result['drift'].max():.0e}"
    lines.label(ax, "x = a₀ − a₁", "w = u₀ − u₁", title)


def _draw_simplex(ax: "matplotlib.axes.Axes", scores: np.ndarray) -> None:
    ax.plot(*CORNERS[[0, 1, 2, 0]].T, color="k", lw=0.8)
    for s in scores:
        winner, (x, y) = int(s[-1].argmax()), (s @ CORNERS).T
        ax.plot(x, y, color=COLOURS[winner], lw=1.2, ls=lines.DASHES[winner])
        ax.plot(x[0], y[0], "o", ms=3.5, color=COLOURS[winner])
    for token, (x, y) in enumerate(CORNERS):
        ax.annotate(f"token {token}", (x, y), fontsize=8, ha="center", va="top" if y == 0 else "bottom")
    ax.set(xlim=(-0.12, 1.12), ylim=(-0.1, 1.0), aspect="equal")
    ax.axis("off")
