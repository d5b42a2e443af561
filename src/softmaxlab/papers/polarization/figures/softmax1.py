"""Does softmax-1 polarize? s_i = e^{a_i}/(1 + Σe^a): a head may attend nowhere, with weight s_∅ = 1 − Σs.

It is softmax with one more key ∅, of score 0 and value 0, which learns neither. With q = s/s_0, Q = Σ_{i≠0} q_i with ∅
among the i, and u_0 → bΓ:

    d log q_i/dΓ = −u_0 (Q + q_i),    d log q_∅/dΓ = −u_0 Q

so softmax-1 polarizes as softmax does, in the order 1/Γ² = b²/log²t, and its total goes to 1: the way out is not kept.
Nowhere falls most slowly, for its score stands still: s_∅ bΓ² → 2, while the losers' s_i bΓ² fall like 1/log Γ.

A head whose u(0) are all −c shuts first, since nowhere has the larger value 0. For equal tokens a + p eᵃ − u²/(2b) is
conserved, so that the total falls to p eᵃ/(1 + p eᵃ) with a + p eᵃ = p − c²/(2b), reached when u = 0. Round there
u′ ≈ (b/2) eᵃ e^{u²/2b}, so the head opens again after t ≈ 2 √(2π/b) e^{−a}.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import gather, status_of
from softmaxlab.papers.polarization import problems
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import Flow, StrengthFlow

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MAPS = ("softmax", "softmax1")
ALIKE = 1e-2  # spread of u(0) of a shut head, as a part of the authors': nearly equal tokens
LATE = 1e2  # strength from which on limits are drawn
OPEN = 0.5  # total from which on a head counts as open
AFTER = 100.0  # how far beyond the opening of the deepest head the totals are followed
Depths = Annotated[tuple[Annotated[float, Field(gt=0, le=8)], ...], Field(min_length=1, max_length=6)]


class Softmax1(FigureSpec):
    """Flows under both maps from one start, and under softmax-1 from u(0) = −c for each c of `depths` (b = 1)."""

    id: ClassVar[str] = "polarization/softmax1"
    title: ClassVar[str] = "Softmax-1 polarizes like softmax, and its unused weight vanishes"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Section 3.2, for the map of specialization Section II"
    reports: ClassVar[str] = (
        "Softmax-1 becomes one-hot at softmax's rate with the same winner; its unused weight goes to 0 like 2b/log²t, "
        "also in a head that was shut for a time e^{c²/2b}"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {"points": 400}}
    cost: ClassVar[dict[str, str]] = {"quick": "2 s", "paper": "10 s"}
    # the same flows at 150 in place of 400 times
    quick_within: ClassVar[dict[str, float]] = {
        "limit of nowhere's weight": 1e-3,
        "largest weight, softmax": 1e-6,
        "largest weight, softmax1": 1e-6,
        "depth 5: least total": 0.01,
    }

    p: Annotated[int, Field(ge=2, le=200)] = 8
    seed: Seed = 123
    depths: Depths = (4.0, 5.0, 6.0)
    t_end: Annotated[float, Field(ge=1e3)] = 1e100
    strength_end: Annotated[float, Field(ge=1e2)] = 1e12
    points: Annotated[int, Field(ge=10, le=10_000)] = 150

    def _run(self, device: str) -> Result:
        start = problems.classification(self.p, self.seed)
        flows = [simulate(Flow(**start, map=map, t_end=self.t_end, points=self.points)) for map in MAPS]
        far = simulate(StrengthFlow(**start, map=MAPS[1], strength_end=self.strength_end, points=self.points))
        shut = [simulate(self.shut_flow(start, depth)) for depth in self.depths]
        both = gather(flows, MAPS, "map", ("weights",))
        low = gather([_with_total(run) for run in shut], self.depths, "depth", ("total",))
        bottom = [shut_bottom(self.p, depth) for depth in self.depths]
        scaled = far["strength"] ** 2  # of weights; b = 1
        arrays = {
            **both.arrays,
            "nowhere": nowhere(flows[1]["a"]),
            "strength": far["strength"],
            "token_limit": far["weights"][:, 1:] * scaled[:, None],
            "nowhere_limit": nowhere(far["a"]) * scaled,
            "depth": self.depths,
            "shut_t": low["t"],
            "total": low["total"],
            "least_total": [least[0] for least in bottom],
            "opening": [least[1] for least in bottom],
        }
        axes = {**both.axes, "nowhere": ("t",), "strength": ("strength",), "token_limit": ("strength", "loser")}
        axes |= {"nowhere_limit": ("strength",), "shut_t": ("shut_t",), "total": ("depth", "shut_t")}
        axes |= {name: ("depth",) for name in ("depth", "least_total", "opening")}
        status = status_of((*flows, far, *shut), (*MAPS, "in strength", *(f"depth {c:g}" for c in self.depths)))
        return Result(arrays, axes, status)

    def shut_flow(self, start: problems.Fields, depth: float) -> Flow:
        """Softmax-1 from tokens that are nearly alike, with all u(0) about −depth."""
        V = ALIKE * start["V"] - depth * start["beta"][:, None]
        t_end = AFTER * max(shut_bottom(self.p, c)[1] for c in self.depths)
        return Flow(**(start | {"V": V}), map=MAPS[1], t_end=t_end, points=self.points)

    @staticmethod
    def seen(result: Result) -> str:
        """Both maps' winners, the limit of nowhere's weight, and the heads that shut and opened."""
        s = result["weights"]
        known = np.flatnonzero(np.isfinite(s).all(axis=(0, 2)))
        if not len(known):
            return "Nothing is there: no weights are finite."
        ends, t = s[:, known[-1]], result["t"][known[-1]]
        same = "the same winner" if len(set(ends.argmax(axis=1).tolist())) == 1 else "different winners"
        left = ", ".join(f"{1.0 - end.max():.1e} ({name})" for name, end in zip(result["map"], ends))
        return (
            f"Both maps have {same}, short of 1 by {left} at t = {t:.0e}; nowhere's weight times bΓ² has come to"
            f" {result['nowhere_limit'][-1]:.2f}, its limit is 2; {_openings(result)}."
        )

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        ends = result["weights"][:, -1]
        largest = {f"largest weight, {name}": float(end.max()) for name, end in zip(result["map"], ends)}
        depths = {f"depth {c:g}: least total": float(x.min()) for c, x in zip(result["depth"], result["total"])}
        return {
            "limit of nowhere's weight": float(result["nowhere_limit"][-1]),
            "the winners are the same": float(len(set(ends.argmax(axis=1).tolist())) == 1),
            **largest,
            **{name: value for name, value in depths.items() if name == "depth 5: least total"},
        }

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(15.5, 4.0), layout="constrained")
        axes = figure.subplots(1, 4)
        t = result["t"]
        for ax, map, s in zip(axes, result["map"], result["weights"]):
            curves.draw_tokens(ax, t, s)
            ax.set(yscale="log", ylim=(np.nanmin(result["weights"]) / 2, 2))
            curves.log_time(ax, t)
            lines.label(ax, "time t", "weights s", str(map))
        axes[1].plot(t, result["nowhere"], color="k", lw=2.4, ls=(0, (1, 1)), label="nowhere, 1 − Σs")
        curves.legend(figure, axes[1])
        _draw_limits(axes[2], result)
        _draw_totals(axes[3], result)
        figure.suptitle(f"{Softmax1.title} (flow)", fontsize=11)
        return figure


def nowhere(a: np.ndarray) -> np.ndarray:
    """1 − Σs = 1/(1 + Σe^a) of scores [..., token], with full precision where it is small."""
    return np.exp(-np.logaddexp(0.0, np.logaddexp.reduce(a, axis=-1)))


def shut_bottom(p: int, depth: float) -> tuple[float, float]:
    """The least Σs of p equal tokens with u(0) = −depth, a(0) = 0 and b = 1, and the time at which they open again."""
    from scipy.optimize import brentq

    reach = p - depth**2 / 2.0
    a = float(brentq(lambda a: a + p * np.exp(a) - reach, -(depth**2) - p, 1.0))  # type: ignore[arg-type]
    return p * np.exp(a) / (1.0 + p * np.exp(a)), 2.0 * np.sqrt(2.0 * np.pi) * np.exp(-a)


def _openings(result: Result) -> str:
    """Say how many heads shut, and how far from the predicted times they opened again."""
    t, factors, shut = result["shut_t"], [], 0
    for total, foretold in zip(result["total"], result["opening"]):
        below = np.flatnonzero(total < OPEN)
        shut += bool(len(below))
        if len(below) and below[-1] + 1 < len(t) and np.isfinite(total[below[-1] + 1]):
            factors.append(np.exp(np.abs(np.log(t[below[-1] + 1] / foretold))))
    if not shut:
        return "no head shuts"
    near = f" within a factor {max(factors):.2f} of the time foretold" if factors else ""
    return f"{len(factors)} of {shut} shut heads open again{near}"


def _with_total(run: Result) -> Result:
    return Result({**run.arrays, "total": run["weights"].sum(axis=-1)}, {**run.axes, "total": ("t",)}, run.status)


def _draw_limits(ax: "matplotlib.axes.Axes", result: Result) -> None:
    late = result["strength"] > LATE
    strength = result["strength"][late]
    ax.plot(strength, result["nowhere_limit"][late], color="k", lw=2.4, ls=(0, (1, 1)), label="nowhere")
    ax.plot(strength, result["token_limit"][late, 0], color=COLOURS[1], ls="--", label="first loser")
    ax.plot(strength, result["token_limit"][late, -1], color=COLOURS[2], ls="-.", label="last loser")
    ax.axhline(2.0, color=COLOURS[-1], lw=1.2, label="limit of nowhere, 2")
    ax.plot(strength, 1.0 / np.log(strength), color=COLOURS[-1], lw=1.2, ls=":", label="1/log Γ")
    ax.set(xscale="log", yscale="log")
    ax.legend(fontsize=8, frameon=False)
    lines.label(ax, "strength Γ ≈ (log t)/b", "weight · bΓ²", "softmax-1 at times far beyond 1e308")


def _draw_totals(ax: "matplotlib.axes.Axes", result: Result) -> None:
    t = result["shut_t"]
    for i, (depth, total) in enumerate(zip(result["depth"], result["total"])):
        ax.plot(t, total, color=COLOURS[i], ls=lines.DASHES[i], label=f"u(0) = −{depth:g}")
        ax.axhline(result["least_total"][i], color=COLOURS[i], lw=0.8, ls=":")
        if result["least_total"][i] < OPEN:
            ax.plot(result["opening"][i], OPEN, "v", color=COLOURS[i], ms=6)
    ax.set(xscale="log", yscale="log", xlim=(1, t[-1]), ylim=(result["least_total"].min() / 50, 2))
    ax.legend(fontsize=8, frameon=False, loc="lower left", title="dots: least total, ▾: opening", title_fontsize=8)
    lines.label(ax, "time t", "row total Σs", "softmax-1: a shut head opens again")
