"""Gradients that are not along one β*: the logistic loss of n samples, mean_k log(1 + e^{−⟨x_k, V s⟩}).

    V′ = g sᵀ,   a′ = J Vᵀg,   g = (1/n) Σ_k γ_k x_k,   γ_k = 1/(1 + e^{⟨x_k, V s⟩})

With x_k = β* + spread·N/√d the samples lie in a cone round β* of half-angle about arctan(spread). Theorem 3.2 is the
case of one direction. As the margins grow apart g turns, from the samples' mean to the direction of largest margin.
What is left of the theorem (ours), for any V(0) and a(0) = 0:

    if (V_i(0) − V_j(0))·g(t) ≥ 0 and g(τ)·g(t) ≥ 0 for all τ ≤ t, then s_i ≥ s_j for all t

For where s_i = s_j, a_i′ − a_j′ is s_i times (V_i − V_j)·g(t) = (V_i(0) − V_j(0))·g(t) + ∫ (s_i − s_j)(τ) g(τ)·g(t) dτ,
which is not negative. So order is lost only where the turning g reorders V(0)ᵀg, that is through the part of V(0)
across β*, on which nothing depends in the paper's model; it stays if V(0) is of rank one, along a vector with which all
g(t) agree (where samples contradict each other, g may turn round). One-hot weights in the end need only samples that
can be separated, so that their margins grow for ever.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.polarization import problems
from softmaxlab.plotting import lines
from softmaxlab.plotting import polarization as curves
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.polarization import Flow

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

STARTS = {"small": "V(0) ~ 0.1·N", "large": "V(0) ~ N", "parallel": "V(0) ~ N, along the mean sample"}
ROUNDING = 1e-9  # weights this close have not crossed
Spreads = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1, max_length=30)]
SPREAD = "spread of samples (tangent of the cone's half-angle)"
MEASURED = ("largest", "right", "kept", "assured", "broken", "turned", "separable")


class Unaligned(FigureSpec):
    """Flows for each spread and start, `seeds` times. Tokens are in the order of u(0) = V(0)ᵀg(0)."""

    id: ClassVar[str] = "polarization/unaligned"
    title: ClassVar[str] = (
        "Samples in place of one β*: weights become one-hot if the samples are separable, order is lost earlier"
    )
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Limitations (Theorem 3.2 for unaligned gradients)"
    reports: ClassVar[str] = (
        "Weights go to one-hot as long as the samples are separable, whatever their spread; the order of Theorem 3.2 "
        "is lost earlier, as the gradient turns, unless V(0) lies along the mean sample"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"seeds": 3, "spreads": (0.0, 0.5, 1.0, 2.0, 4.0), "t_end": 1e8},
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "3 s", "paper": "60 s"}
    # 3 seeds in place of 32, to t = 1e8 in place of 1e12; without a spread all seeds agree, as Theorem 3.2 says
    quick_within: ClassVar[dict[str, float]] = {
        "largest weight of separable runs, median": 0.05,
        "share of pairs in order, spread 1, V(0) small": 0.25,
    }

    p: Annotated[int, Field(ge=2, le=64)] = 8
    samples: Annotated[int, Field(ge=1, le=1000)] = 64
    spreads: Spreads = (0.0, 0.2, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
    seeds: Annotated[int, Field(ge=1, le=1000)] = 32
    t_end: Annotated[float, Field(ge=1e3)] = 1e12
    points: Annotated[int, Field(ge=10, le=10_000)] = 100

    def _run(self, device: str) -> Result:
        at = [(start, spread, seed) for start in STARTS for spread in self.spreads for seed in range(self.seeds)]
        runs = [simulate(self.flow(*where)) for where in at]
        measured = [measure(run) for run in runs]
        shape = (len(STARTS), len(self.spreads), self.seeds)
        arrays = {name: np.reshape([one[name] for one in measured], shape) for name in MEASURED}
        # through time: a run that polarizes, to another winner, with many crossings, as far as there is one
        worst = runs[int(np.argmin([one["kept"] + one["right"] - 2 * one["separable"] for one in measured]))]
        arrays |= {"start": list(STARTS), "spread": self.spreads, "t": worst["t"], "weights": worst["weights"]}
        axes = {name: ("start", "spread", "seed") for name in MEASURED}
        axes |= {"start": ("start",), "spread": ("spread",), "t": ("t",), "weights": ("t", "token")}
        return Result(arrays, axes, status_of(runs, at))

    def flow(self, start: str, spread: float, seed: int) -> Flow:
        """One run. The directions of samples are the same for every spread and start."""
        drawn = problems.classification(self.p, seed)
        noise = generator(seed, "samples").standard_normal((self.samples, self.p)) / np.sqrt(self.p)
        X = drawn["beta"] + spread * noise
        V = drawn["V"] / (1.0 if start == "small" else problems.SMALL)
        if start == "parallel":
            mean = X.mean(axis=0) / np.linalg.norm(X.mean(axis=0))
            V = np.outer(mean, mean @ V)
        V = V[:, np.argsort(-(gradient(X, V.mean(axis=1)) @ V))]
        return Flow(loss="dataset", X=X, V=V, a=drawn["a"], t_end=self.t_end, points=self.points, rtol=1e-7)

    @staticmethod
    def summarize(result: Result) -> dict[str, float]:
        separable = result["separable"].astype(bool)
        small, spreads = result["start"].tolist().index("small"), result["spread"].tolist()
        kept = result["kept"][small]
        return {
            "largest weight of separable runs, median": float(np.median(result["largest"][separable])),
            "share of pairs in order, no spread, V(0) small": float(kept[spreads.index(0.0)].mean()),
            "share of pairs in order, spread 1, V(0) small": float(kept[spreads.index(1.0)].mean()),
        }

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(16, 4.2), layout="constrained")
        sparsity, order, winner, example = figure.subplots(1, 4)
        _draw_sparsity(sparsity, result)
        _draw_shares(order, result, "kept", "share of pairs in order at all times")
        _draw_shares(winner, result, "right", "share of runs won by argmax u(0)")
        curves.draw_tokens(example, result["t"], result["weights"], np.arange(result["weights"].shape[1]))
        curves.log_time(example, result["t"])
        example.set_yscale("log")
        lines.label(example, "time t", "weights s", "the run that loses order most")
        curves.legend(figure, example)
        figure.suptitle(f"{Unaligned.title} (flow)", fontsize=11)
        return figure


def gradient(X: np.ndarray, output: np.ndarray) -> np.ndarray:
    """g, up to a positive factor, at outputs V s [..., d]."""
    log_gamma = -np.logaddexp(0.0, output @ X.T)
    return np.exp(log_gamma - log_gamma.max(axis=-1, keepdims=True)) @ X


def measure(run: Result) -> dict[str, float]:
    """Return the largest weight at the end of a run, and which of the pairs i < j kept their order at all times."""
    X, V, s = run.spec.X, run["V"], run["weights"]  # type: ignore[union-attr]
    g = gradient(X, np.einsum("tdp,tp->td", V, s))
    i, j = np.triu_indices(s.shape[-1], 1)
    kept = (s[:, i] - s[:, j] >= -ROUNDING).all(axis=0)
    first_gaps = (g @ V[0])[:, i] - (g @ V[0])[:, j]
    assured = (first_gaps >= 0).all(axis=0) & (g @ g.T >= 0).all()
    cosine = g[0] @ g[-1] / (np.linalg.norm(g[0]) * np.linalg.norm(g[-1]))
    return {
        "largest": s[-1].max(),
        "right": s[-1].argmax() == 0,
        "kept": kept.mean(),
        "assured": assured.mean(),
        "broken": (assured & ~kept).sum(),
        "turned": np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))),
        "separable": separable(X),
    }


def separable(X: np.ndarray) -> bool:
    """Whether some w has ⟨x, w⟩ ≥ 1 for all samples."""
    from scipy.optimize import linprog

    answer = linprog(np.zeros(X.shape[1]), A_ub=-X, b_ub=-np.ones(len(X)), bounds=(None, None))
    return answer.status == 0


def _draw_sparsity(ax: "matplotlib.axes.Axes", result: Result) -> None:
    """The largest weight of every run from the small start, told apart by separability."""
    spread = np.repeat(result["spread"], result["largest"].shape[-1])
    largest, can = result["largest"][0].ravel(), result["separable"][0].ravel()
    ax.plot(spread[can], largest[can], "o", color=COLOURS[0], mfc="none", label="separable samples")
    ax.plot(spread[~can], largest[~can], "x", color=COLOURS[1], label="not separable")
    ax.axhline(1.0 / result["weights"].shape[1], color=COLOURS[-1], ls=":", lw=1, label="uniform")
    ax.set_ylim(0, 1.03)
    ax.legend(fontsize=8, frameon=False, loc="lower left")
    lines.label(ax, SPREAD, "largest weight at the end", f"sparsity, {STARTS['small']}")


def _draw_shares(ax: "matplotlib.axes.Axes", result: Result, name: str, title: str) -> None:
    for k, start in enumerate(result["start"]):
        style = {"color": COLOURS[k], "marker": "os^"[k], "ls": lines.DASHES[k], "ms": 4}
        ax.plot(result["spread"], result[name][k].mean(axis=-1), **style, label=STARTS[str(start)])
    if name == "kept":
        assured, label = result["assured"][1].mean(axis=-1), f"assured, {STARTS['large']}"
        ax.fill_between(result["spread"], 0, assured, color=COLOURS[1], alpha=0.15, lw=0, label=label)
    ax.set_ylim(0, 1.03)
    ax.legend(fontsize=8, frameon=False, loc="lower left")
    lines.label(ax, SPREAD, f"mean over {result['kept'].shape[-1]} seeds", title)
