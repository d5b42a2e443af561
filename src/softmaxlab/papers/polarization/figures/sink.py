"""The attention sink of Section 4.1: every row of σ(A) V is to produce the same β*.

    L = (1/T) Σ_r log(1 + e^{−m_r}),   m_r = ⟨S_r, u⟩,   u = V β*:   A_r′ = (γ_r/T) J_r u,   u′ = (b/T) Σ_r γ_r S_r

From A(0) = 0 the rows stay equal, and the flow is that of the value model with b → T b at the time t/T. So the sink
comes late, and its column keeps 1 − 2b (T−1)/log²t. From A(0) ≠ 0 rows part. A row r that sits at token j, with n_j
others, while n_i > n_j rows sit at i, sees a gap u_i − u_j → Δ = log(n_i/n_j), and q = S_ri/S_rj obeys

    dq/dlog t = 2 Δ q²/(b n_j):   it joins the majority at log t* = log t + b n_j/(2 Δ q)

so several sinks are not final, but the time they last is the exponential of a large number.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather
from softmaxlab.papers.polarization import problems
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import Flow

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

LATE = 1e20  # from where on the limit of the column mass is drawn
DECADES = (1, 2, 5, 10, 20, 50, 100, 200)  # ticks of log₁₀ t
Scales = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1, max_length=12)]


class Sink(FigureSpec):
    """The matrix flow from A(0) ~ scale·N, `draws` times for each of `scales`. Token 0 is argmax u(0)."""

    id: ClassVar[str] = "polarization/sink"
    title: ClassVar[str] = "Attention sinks: all rows at one token from A(0) = 0, at several from random A(0)"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Section 4.1"
    reports: ClassVar[str] = (
        "From A(0) = 0 every row goes to token 0, T times more slowly than in the value model; from random A(0) rows "
        "go to several tokens, and seldom all to token 0"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "paper": {"tokens": 32, "scales": (0.0, 0.01, 0.03, 0.1, 0.3, 1.0), "draws": 32},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "60 s"}
    # 16 tokens and 4 draws in place of 32 and 32: a share of rows at A ~ N has a standard error of about .1
    quick_within: ClassVar[dict[str, float]] = {
        "share of rows at token 0, A(0) ~ 1·N": 0.2,
        "share of draws with every row at token 0, A(0) ~ 1·N": 0.1,
    }

    tokens: Annotated[int, Field(ge=2, le=64)] = 16
    scales: Scales = (0.0, 0.1, 1.0)
    draws: Annotated[int, Field(ge=1, le=1000)] = 4
    t_end: Annotated[float, Field(ge=1e8)] = 1e100
    points: Annotated[int, Field(ge=10, le=10_000)] = 400
    rtol: Annotated[float, Field(ge=1e-13, le=1e-4)] = 1e-7  # the survey needs winners, not digits

    def _run(self, device: str) -> Result:
        cells = [(scale, draw) for scale in self.scales for draw in range(self.draws)]
        # only summaries are kept: all patterns at all times would take gigabytes
        runs = [_summary(simulate(self.flow(scale, draw))) for scale, draw in cells]
        family = gather(runs, [f"scale {scale:g}, draw {draw}" for scale, draw in cells], "run", ("mass",))
        shape = (len(self.scales), self.draws)
        patterns = np.reshape([run["pattern"] for run in runs], (*shape, self.tokens, self.tokens))
        arrays = {
            "scale": self.scales,
            "t": family["t"],
            "mass": family["mass"].reshape(*shape, -1, self.tokens),
            "pattern": patterns[:, 0],
            "winner": patterns.argmax(axis=-1),
        }
        axes = {
            "scale": ("scale",),
            "t": ("t",),
            "mass": ("scale", "draw", "t", "token"),
            "pattern": ("scale", "query", "token"),
            "winner": ("scale", "draw", "query"),
        }
        return Result(arrays, axes, family.status)

    def flow(self, scale: float, draw: int) -> Flow:
        """One run: the authors' V(0) for this draw, tokens in the order of u(0), and A(0) ~ scale·N."""
        start = problems.classification(self.tokens, draw)
        return Flow(
            loss="logistic",
            model="matrix",
            beta=start["beta"],
            V=start["V"].T,
            A=scale * generator(draw, "A").standard_normal((self.tokens, self.tokens)),
            t_end=self.t_end,
            points=self.points,
            rtol=self.rtol,
        )

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        at_0 = dict(zip(result["scale"].tolist(), result["winner"] == 0))
        return {
            "share of rows at token 0, A(0) = 0": float(at_0[0.0].mean()),
            "share of rows at token 0, A(0) ~ 1·N": float(at_0[1.0].mean()),
            "share of draws with every row at token 0, A(0) ~ 1·N": float(at_0[1.0].all(axis=-1).mean()),
        }

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        scales = result["scale"]
        shown = sorted({0, len(scales) // 2, len(scales) - 1})
        figure = Figure(figsize=(3.3 * (1 + len(shown)) + 0.6, 6.2), layout="constrained")
        axes = figure.subplots(2, 1 + len(shown))
        for (above, below), k in zip(axes.T, shown):
            _draw_mass(above, result["t"], result["mass"][k, 0], scales[k])
            image = below.imshow(result["pattern"][k], cmap="Blues", vmin=0, vmax=1)
            lines.label(below, "token", "query", f"pattern at t = {result['t'][-1]:.0e}".replace("e+", "e"))
        figure.colorbar(image, ax=axes[1, :-1], shrink=0.8, pad=0.01, label="weight")
        _draw_shares(axes[0, -1], axes[1, -1], scales, result["winner"])
        figure.suptitle(f"{Sink.title} (flow, T = {result['mass'].shape[-1]})", fontsize=11)
        return figure


def _summary(run: Result) -> Result:
    """The column mass over time and the last pattern of one run."""
    arrays = {"t": run["t"], "loss": run["loss"], "mass": run["weights"].mean(axis=1), "pattern": run["weights"][-1]}
    axes = {"t": ("t",), "loss": ("t",), "mass": ("t", "token"), "pattern": ("query", "token")}
    return Result(arrays, axes, run.status)


def agreement(winner: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per scale: shares of draws with all rows at token 0, and at any one token; and the mean number of sinks."""
    to_first = (winner == 0).all(axis=-1).mean(axis=-1)
    sinks = np.array([[len(np.unique(rows)) for rows in draws] for draws in winner])
    return to_first, (sinks == 1).mean(axis=-1), sinks.mean(axis=-1)


def _draw_mass(ax: "matplotlib.axes.Axes", t: np.ndarray, mass: np.ndarray, scale: float) -> None:
    # the sink moves in log t, so the axis is logarithmic in log t
    decades, order = np.log10(t, where=t > 0, out=np.full_like(t, -np.inf)), curves.ranked(curves.last(mass))
    curves.draw_tokens(ax, decades, mass, order)
    (winner,) = (line for line in ax.get_lines() if line.get_label() == f"token {order[0]}")
    keys = [winner]
    if scale == 0:
        late = t > LATE
        limit = 1.0 - 2.0 * (mass.shape[-1] - 1) / np.log(t[late]) ** 2
        keys += ax.plot(decades[late], limit, color="k", ls=":", lw=2, label="$1 − 2b(T−1)/\\log^2 t$")
    place: dict[str, Any] = {"loc": "upper left"} if scale else {"loc": "lower right", "bbox_to_anchor": (1.0, 0.15)}
    ax.legend(handles=keys, fontsize=8, frameon=False, handlelength=1.4, **place)
    ax.set(xscale="log", ylim=(0, 1.02))
    ax.set_xticks(DECADES, [f"$10^{{{d}}}$" for d in DECADES], minor=False)
    ax.set_xticks([], minor=True)
    ax.set_xlim(1, decades[-1])
    lines.label(ax, "time t", "column mass (mean over queries)", f"A(0) {'= 0' if scale == 0 else f'~ {scale:g}·N'}")


def _draw_shares(
    above: "matplotlib.axes.Axes", below: "matplotlib.axes.Axes", scales: np.ndarray, winner: np.ndarray
) -> None:
    to_first, to_one, sinks = agreement(winner)
    place = np.arange(len(scales))
    above.plot(place, to_one, "s--", color=COLOURS[1], label="all rows at one token")
    above.plot(place, to_first, "o-", color=COLOURS[0], label="all rows at argmax u(0)")
    above.set_ylim(-0.03, 1.03)
    above.legend(fontsize=8, frameon=False)
    below.plot(place, sinks, "D-", color=COLOURS[2])
    below.set_ylim(0, None)
    for ax in (above, below):
        ax.set_xticks(place, [f"{scale:g}" for scale in scales])
    lines.label(above, "scale of A(0)", f"share of {winner.shape[1]} draws", "where the rows go")
    lines.label(below, "scale of A(0)", "number of sinks (mean over draws)", "tokens that win a row")
