"""Study: which token wins under Adam, and where it is another than the flow's (docs/studies/optimizers.md)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.result import Result
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.studies.adam_window import FITTED, window
from softmaxlab.studies.optimizer_choices import Setting, boundaries, others, share
from softmaxlab.studies.study import Seed, Study
from softmaxlab.studies.study_numbers import Number, wilson

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

    Table = pandas.DataFrame

FIRST_SEED = 1000  # not those of the figure polarization/optimizers
LRS = tuple((10.0 ** np.arange(-4.5, 0.01, 0.25)).tolist())
BETAS = (0.9, 0.999)
SMALLEST = 1e-8  # the eps of the formula
FACTOR = 2.0  # within which the formula must be
SCALE = 0.1  # of other optimizers and other memories
MEMORIES = ((0.9, 0.99), (0.7, 0.999))  # β₁, β₂, not those of the fit
Several = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)]
Tokens = Annotated[int, Field(ge=2)]
ONE_ROW: dict[str, Any] = {"scales": (SCALE,), "epsilons": (SMALLEST,), "memories": ()}


class Choice(Study):
    """The share of runs won by argmax u(0) under Adam, over learning rates, tokens p, scales of V(0) and eps."""

    version: ClassVar[int] = 2  # noise from each run's own seed, no winner of a tie
    id: ClassVar[str] = "studies/optimizers"
    title: ClassVar[str] = "Adam's choice: where another token wins than under gradient flow"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Study 2"
    reports: ClassVar[str] = "Where Adam begins to lose the flow's winner is predicted, where it stops is not"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "committed": {},
        "quick": {"runs": "made", "ps": (8, 32), "first_seed": 2000, **ONE_ROW, "others": ()},
        "paper": {"runs": "made"},
        "later": {"runs": "made", "ps": (16, 64), "first_seed": 3000, **ONE_ROW, "others": (16,)},
    }
    cost: ClassVar[dict[str, str]] = {"committed": "1 s", "quick": "2 min", "paper": "1 h", "later": "15 min"}

    table: ClassVar[str] = "optimizers.csv"
    intervals: ClassVar[str] = (
        "where 95 % bounds of the shares cross one half; 0 and inf lie beyond the learning rates that were run, and "
        "from inf to 0 means that there is no window"
    )
    alike: ClassVar[tuple[str, ...]] = ("lrs",)

    ps: Annotated[tuple[Tokens, ...], Field(min_length=1)] = (4, 8, 32)
    scales: Several = (0.01, 0.03, 0.1, 0.3, 1.0)
    epsilons: Several = (SMALLEST, 1e-4, 1e-3, 1e-2)
    lrs: Several = LRS
    seeds: Annotated[int, Field(ge=1)] = 64
    first_seed: Seed = FIRST_SEED
    others: tuple[Tokens, ...] = (8,)  # the p at which other optimizers, decay and noise are run too
    memories: tuple[Tokens, ...] = (32,)  # the p at which Adam is run with other memories too

    @model_validator(mode="after")
    def _has_boundaries(self) -> Self:
        if SMALLEST not in self.epsilons:
            raise ValueError(f"epsilons must have {SMALLEST:g}, at which boundaries are told, got {self.epsilons}")
        return self

    def made(self, device: str) -> "Table":
        import pandas

        from softmaxlab.core.progress import Progress

        seeds = range(self.first_seed, self.first_seed + self.seeds)
        cells = self._cells()
        with Progress(len(cells), "cells") as progress:
            rows = []
            for setting, lr in cells:
                rows.append(share(setting, lr, seeds))
                progress.advance()
        return pandas.DataFrame(rows)

    def _cells(self) -> list[tuple[Setting, float]]:
        """Settings with a learning rate, each once."""
        adam = [Setting(p, scale, eps) for p in self.ps for scale in self.scales for eps in self.epsilons]
        adam += [Setting(p, SCALE, beta1=beta1, beta2=beta2) for p in self.memories for beta1, beta2 in MEMORIES]
        cells = [(setting, lr) for setting in adam for lr in self.lrs]
        cells += [(setting, lr) for p in self.others for setting, lrs in others(p, SCALE).items() for lr in lrs]
        return list(dict.fromkeys(cells))

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        table = result.to_pandas()
        adam = plain_adam(table)
        ps = sorted({int(p) for p in adam["p"]})
        figure = Figure(figsize=(4.2 * (len(ps) + 1), 4.2), layout="constrained")
        axes = figure.subplots(1, len(ps) + 1, squeeze=False)[0]
        for ax, p in zip(axes, ps):
            image = _draw_diagram(ax, adam.loc[adam["p"] == p], p)
        figure.colorbar(image, ax=axes[len(ps) - 1], pad=0.02, label="share of seeds won by argmax u(0)")
        _draw_eps(axes[-1], table, max(ps))
        figure.suptitle(f"{Choice.title} (logistic loss, {result['seeds'].max()} seeds a cell)", fontsize=12)
        return figure

    @staticmethod
    def numbers(table: "Table") -> list[Number]:
        """Boundaries with torch's memories."""
        numbers, adam = [], plain_adam(table)
        for p, scale in sorted(set(zip(adam["p"], adam["scale"]))):
            row = adam.loc[(adam["p"] == p) & (adam["scale"] == scale)]
            lr, right, seeds = (row.sort_values("lr")[name].to_numpy() for name in ("lr", "right", "seeds"))
            (value, less, more) = (_window(lr, share) for share in (right, *wilson(right, seeds)))
            lower, upper = (f" (formula {edge:.2g})" for edge in window(int(p), scale) or (np.inf, 0.0))
            where = f"boundary at p = {p}, scale {scale:g}"
            numbers += [Number(f"lower {where}{lower}", value[0], less[0], more[0])]
            numbers += [Number(f"upper {where}{upper}", value[1], more[1], less[1])]
        return numbers


def _window(lr: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Return the edges of a window, 0 or infinite where they are beyond the grid; ∞ and 0 if there is no window."""
    lower, upper = boundaries(lr, right) or (np.inf, 0.0)
    return float(np.nan_to_num(lower, nan=0.0, posinf=np.inf)), float(np.nan_to_num(upper, nan=np.inf))


@dataclass(frozen=True)
class Edge:
    """A measured boundary, and the formula's prediction of it."""

    p: int
    scale: float
    beta1: float
    beta2: float
    side: str  # "lower" or "upper"
    measured: float  # NaN: beyond the grid of learning rates
    predicted: float  # NaN: the formula gives no window

    @property
    def factor(self) -> float:
        """The ratio of the two, at least 1; NaN if either is missing."""
        return float(np.exp(np.abs(np.log(self.predicted / self.measured))))


def edges(table: "Table") -> list[Edge]:
    """Both boundaries of each row of Adam at the smallest eps that has a window, by itself or by the formula."""
    adam = noiseless_adam(table)
    adam = adam.loc[adam["eps"] == SMALLEST]
    edges = []
    for (p, scale, beta1, beta2), row in adam.groupby(["p", "scale", "beta1", "beta2"]):
        row = row.sort_values("lr")
        seen = boundaries(row["lr"].to_numpy(), row["right"].to_numpy())
        predicted = window(int(p), scale, beta1, beta2)
        if seen or predicted:
            pairs = zip(("lower", "upper"), seen or (np.nan, np.nan), predicted or (np.nan, np.nan))
            edges += [Edge(int(p), scale, beta1, beta2, *pair) for pair in pairs]
    return edges


def noiseless_adam(table: "Table") -> "Table":
    """Adam without decay and noise."""
    return table.loc[(table["optimizer"] == "adam") & (table["decay"] == 0) & (table["noise"] == 0)]


def plain_adam(table: "Table") -> "Table":
    """The rows with torch's memories and the smallest eps."""
    adam = noiseless_adam(table)
    chosen = (adam["eps"] == SMALLEST) & (adam["beta1"] == BETAS[0]) & (adam["beta2"] == BETAS[1])
    return adam.loc[chosen]


def _draw_diagram(ax: "Axes", adam: "Table", p: int) -> Any:
    """Shares of right winners over lr × scale, and the formula's boundaries."""
    heat = adam.pivot(index="scale", columns="lr", values="right")
    lr, scale = heat.columns.to_numpy(), heat.index.to_numpy()
    rows = np.arange(len(scale))
    image = ax.pcolormesh(_edges_of(lr), np.arange(len(scale) + 1) - 0.5, heat, cmap="cividis", vmin=0, vmax=1)
    looks = {"found": {"marker": "|", "color": "w", "ms": 18, "mew": 2.5}}
    looks["formula"] = {"marker": "o", "color": COLOURS[1], "mec": "w", "ms": 7}
    for i, one in zip(rows, scale):
        edges = {"found": boundaries(lr, heat.loc[one].to_numpy()), "formula": window(p, float(one))}
        for name, pair in edges.items():
            ax.plot(pair or (np.nan, np.nan), [i, i], ls="", **looks[name], label=name if i == 0 else None)
    ax.set(xscale="log", yticks=rows, yticklabels=[f"{one:g}" for one in scale])
    ax.legend(fontsize=7, loc="upper left", facecolor="0.7", markerscale=0.5)
    held = "fitted" if p in FITTED else "held out"
    label(ax, "learning rate", "scale of V(0)", f"p = {p} tokens ({held})")
    return image


def _edges_of(lr: np.ndarray) -> np.ndarray:
    """The borders of cells, halfway between learning rates in the logarithm."""
    if len(lr) == 1:
        return np.array([lr[0] / 2, 2 * lr[0]])
    middle = np.sqrt(lr[1:] * lr[:-1])
    return np.concatenate([[lr[0] ** 2 / middle[0]], middle, [lr[-1] ** 2 / middle[-1]]])


def _draw_eps(ax: "Axes", table: "Table", p: int) -> None:
    """Draw the effect of eps at scale 0.1."""
    rows = noiseless_adam(table)
    rows = rows.loc[(rows["p"] == p) & np.isclose(rows["scale"], 0.1)]
    rows = rows.loc[(rows["beta1"] == BETAS[0]) & (rows["beta2"] == BETAS[1])]
    for k, (eps, row) in enumerate(rows.groupby("eps")):
        row = row.sort_values("lr")
        ax.plot(row["lr"], row["right"], "os^D"[k % 4] + "-", color=COLOURS[k], ms=3, label=f"eps {eps:g}")
        ax.legend(fontsize=7)
    ax.set(xscale="log", ylim=(-0.03, 1.03))
    closes = ": a large eps closes the window" if rows["eps"].nunique() > 1 else ""
    label(ax, "learning rate", "share right", f"p = {p}, scale 0.1{closes}")
