"""Figures 6 and 18 to 21: how often one swapped token swaps the class."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.bars import draw_bars
from softmaxlab.papers.polarization.fig04 import COST, PRESETS
from softmaxlab.papers.polarization.runs import FigureOfRuns, TaskName, chosen, where
from softmaxlab.papers.polarization.sink_runs import map_order
from softmaxlab.papers.style import COLOURS
from softmaxlab.training.presets import MAPS, RATES, SEEDS

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

Vocabularies = Annotated[tuple[int, ...], Field(min_length=1, max_length=8)]
Panel = dict[str, Any]  # the column's values that a panel is for
USUAL = {"width": 128, "gate": False, "batch": 256, "epochs": 10, "optimizer": "adamw", "weight_decay": 0.01,
         "task__labels": 4, "task__tokens": 10, "task__train": 10_000}  # fmt: skip
ON = {True: "", False: "no "}
LEGEND = "dots: runs; numbers: how many; grey dash: not run"


def flip_runs(table: "pandas.DataFrame") -> "pandas.DataFrame":
    """Full runs with the paper's data, and of each its largest flip rate over heads and layers (E.3)."""
    rows = chosen(table, **USUAL)
    rows = where(rows, rows["stop"].isna())
    rows = rows.drop_duplicates(["map", "heads", "layers", "lr", "seed", "mlp", "layernorm", "task.vocab"])
    return rows.assign(flips=[np.nan if rates is None else rates.max() for rates in rows["flip_rate"]])


class FlipRuns(FigureOfRuns):
    """Panels of mean flip rates, a bar for each map, a dot for each run."""

    source: ClassVar[str] = "varre2026polarization"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    cost: ClassVar[dict[str, str]] = COST

    task: TaskName = "classification"
    vocabs: Vocabularies = (41, 81, 161)

    def panels(self) -> list[tuple[str, Panel]]:
        raise NotImplementedError(f"{type(self).__name__} gives no panels")

    def _run(self, device: str) -> Result:
        rows = flip_runs(self.table())
        rows = where(rows, rows["task.vocab"].isin(self.vocabs))
        maps, panels = map_order(rows), self.panels()
        parts = [chosen(rows, **values) for _, values in panels]
        rates = [[chosen(part, map=map)["flips"].to_numpy() for map in maps] for part in parts]
        flat = [(i, j, rate) for i, panel in enumerate(rates) for j, each in enumerate(panel) for rate in each]
        number, owner, rate = (np.array(column) for column in zip(*flat)) if flat else (np.empty(0, int),) * 3
        arrays = {
            "panel": [name for name, _ in panels],
            "map": maps,
            "runs": [[len(each) for each in panel] for panel in rates],
            "mean": [[_mean(each) for each in panel] for panel in rates],
            "rate": rate,
            "rate_panel": number,
            "rate_map": owner,
        }
        axes = {name: (name,) for name in ("panel", "map")} | {name: ("panel", "map") for name in ("runs", "mean")}
        axes |= {name: ("run",) for name in ("rate", "rate_panel", "rate_map")}
        return Result(arrays, axes, notes={"vocabs": list(self.vocabs)})

    @classmethod
    def draw(cls, result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        across = min(2, len(result["panel"]))
        down = -(-len(result["panel"]) // across)
        width = 5.6 if across == 2 else 9
        picture = Figure(figsize=(width * across, 2.5 * down + 1.2), layout="constrained")
        for i, ax in enumerate(picture.subplots(down, across, sharey=True, squeeze=False).flat):
            _draw_panel(ax, result, i)
        of_paper = len(result["panel"]) * len(result.notes["vocabs"]) * len(MAPS) * len(RATES) * len(SEEDS)
        own = result["runs"][:, np.isin(result["map"], MAPS)].sum()
        picture.suptitle(f"{cls.title}\n({own} of the paper's {of_paper} runs; {LEGEND})", fontsize=10)
        return picture


def _mean(rates: np.ndarray) -> float:
    """Of the runs that did not diverge; NaN if there are none."""
    finite = rates[np.isfinite(rates)]
    return float(finite.mean()) if len(finite) else np.nan


def _draw_panel(ax: "Axes", result: Result, i: int) -> None:
    draw_bars(ax, result["mean"][i][:, None], result["runs"][i][:, None], list(result["map"]), ["mean"], small=False)
    for j in range(len(result["map"])):
        rates = np.sort(result["rate"][(result["rate_panel"] == i) & (result["rate_map"] == j)])
        spread = (np.arange(len(rates)) + 0.5) / max(len(rates), 1) - 0.5
        ax.plot(j + 0.7 * spread, rates, ".", ms=3, color=COLOURS[1])
    ax.set_title(result["panel"][i], fontsize=9)
    ax.set_ylabel("flip rate", fontsize=9)


class Fig06(FlipRuns):
    """One layer, one head, all vocabularies together."""

    id: ClassVar[str] = "polarization/fig06"
    title: ClassVar[str] = "One swapped token flips the class: one layer, one head"
    place: ClassVar[str] = "Figure 6"
    reports: ClassVar[str] = "The softmax model's predictions can be easily reversed"

    def panels(self) -> list[tuple[str, Panel]]:
        words = ", ".join(map(str, self.vocabs))
        return [(f"MLP, LayerNorm, vocabulary {words}", {"layers": 1, "heads": 1, "mlp": True, "layernorm": True})]


class Fig18(FlipRuns):
    """With and without MLP and LayerNorm, one vocabulary."""

    id: ClassVar[str] = "polarization/fig18"
    title: ClassVar[str] = "Flip rates at vocabulary 41"
    place: ClassVar[str] = "Figure 18"
    reports: ClassVar[str] = "Flip rates with and without MLP and LayerNorm"

    vocabs: Vocabularies = (41,)

    def panels(self) -> list[tuple[str, Panel]]:
        one = {"layers": 1, "heads": 1}
        choices = [(mlp, norm) for mlp in (True, False) for norm in (True, False)]
        return [(f"{ON[mlp]}MLP, {ON[norm]}LayerNorm", {**one, "mlp": mlp, "layernorm": norm}) for mlp, norm in choices]


class Fig19(Fig18):
    """Vocabulary 81."""

    id: ClassVar[str] = "polarization/fig19"
    title: ClassVar[str] = "Flip rates at vocabulary 81"
    place: ClassVar[str] = "Figure 19"
    vocabs: Vocabularies = (81,)


class Fig20(Fig18):
    """Vocabulary 161."""

    id: ClassVar[str] = "polarization/fig20"
    title: ClassVar[str] = "Flip rates at vocabulary 161"
    place: ClassVar[str] = "Figure 20"
    vocabs: Vocabularies = (161,)


class Fig21(FlipRuns):
    """Heads and layers, without MLP and LayerNorm."""

    id: ClassVar[str] = "polarization/fig21"
    title: ClassVar[str] = "Flip rates with more heads and layers"
    place: ClassVar[str] = "Figure 21"
    reports: ClassVar[str] = "More heads or layers lead to a diminishing flip rate"

    vocabs: Vocabularies = (41,)

    def panels(self) -> list[tuple[str, Panel]]:
        bare = {"mlp": False, "layernorm": False}
        choices = [(heads, layers) for heads in (1, 2, 4) for layers in (1, 2)]
        return [(f"H = {h}, L = {layers}", {**bare, "heads": h, "layers": layers}) for h, layers in choices]
