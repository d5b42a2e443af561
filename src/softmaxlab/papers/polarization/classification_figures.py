"""Bars of classification runs: the base of Figures 6 and 18 to 21."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.bars import Bars, draw_bars, draw_dots, legend
from softmaxlab.papers.polarization.induction_figures import (
    COST,
    PRESETS,
    TITLE_PAD,
    bfloat16_in_words,
    in_bfloat16,
    runs_in_words,
)
from softmaxlab.papers.polarization.memorised import memorised
from softmaxlab.papers.polarization.runs import FigureOfRuns, TaskName, chosen, mean, unlike, where
from softmaxlab.papers.polarization.sink_runs import OF_PAPER, map_order, of_paper
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.training import Classification
from softmaxlab.training.presets import MAPS, VOCABULARIES

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes


Vocabularies = Annotated[tuple[int, ...], Field(min_length=1, max_length=8)]


READ_AT = 41  # the vocabulary at which Figure 6 is read: that of Figure 5, of which it is the test
EASY = 0.85  # a flip rate that is high: over seeds one-head softmax was at .84 to 1.00 there


Panel = dict[str, Any]  # the column's values that a panel is for


USUAL = {"width": 128, "gate": False, "batch": 256, "epochs": 10, "optimizer": "adamw", "weight_decay": 0.01,
         "task__labels": 4, "task__tokens": 10, "task__train": 10_000}  # fmt: skip


LEGEND = f"dots: runs; {legend('all diverged', 'no flip rates in the table')}"


def flip_runs(table: "pandas.DataFrame") -> "pandas.DataFrame":
    """Full runs with the paper's data, one for each setting, with their largest flip rate over heads and layers (E.3).

    Of several runs of a setting it is one with a rate, if there is one.
    """
    rows = chosen(table, **USUAL)
    rows = where(rows, rows["stop"].isna())
    rated = (rows["status"] == "done") & rows["flip_rate"].notna()
    rows = rows.assign(flips=[rates.max() if good else np.nan for rates, good in zip(rows["flip_rate"], rated)])
    rows = rows.sort_values("flips", kind="stable", key=lambda flips: flips.isna())
    rows = rows.drop_duplicates(["map", "heads", "layers", "lr", "seed", "mlp", "layernorm", "task.vocab"])
    return rows.assign(paper=of_paper(rows) & rows["task.vocab"].isin(VOCABULARIES)).sort_values("key")


class FlipRuns(FigureOfRuns):
    """Panels of mean flip rates, a bar for each map, a dot for each run."""

    source: ClassVar[str] = "varre2026polarization"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    cost: ClassVar[dict[str, str]] = COST
    version: ClassVar[int] = 3  # its result says which vocabularies have runs

    task: TaskName = "classification"
    vocabs: Vocabularies = (41, 81, 161)
    beyond: bool = False  # maps that the paper does not have, too

    def panels(self) -> list[tuple[str, Panel]]:
        raise NotImplementedError(f"{type(self).__name__} gives no panels")

    def _run(self, device: str) -> Result:
        table = self.table()
        rows = flip_runs(table)
        rows = where(rows, rows["task.vocab"].isin(self.vocabs))
        maps, panels = map_order(rows, self.beyond), self.panels()
        parts = [[chosen(rows, map=map, **values) for map in maps] for _, values in panels]
        rates = [[each["flips"].dropna().to_numpy() for each in line] for line in parts]
        flat = [(i, j, rate) for i, line in enumerate(rates) for j, each in enumerate(line) for rate in each]
        number, owner, rate = (np.array(column) for column in zip(*flat)) if flat else (np.empty(0, int),) * 3
        arrays = {
            "panel": [name for name, _ in panels],
            "map": maps,
            "runs": [[len(each) for each in line] for line in parts],
            "paper": [[np.count_nonzero(each["paper"]) for each in line] for line in parts],
            "ended": [[np.count_nonzero(each["status"] == "done") for each in line] for line in parts],
            "behind": [[len(each) for each in line] for line in rates],
            "mean": [[mean(each["flips"]) for each in line] for line in parts],
            "rate": rate,
            "rate_panel": number,
            "rate_map": owner,
        }
        axes = {name: (name,) for name in ("panel", "map")}
        axes |= {name: ("panel", "map") for name in ("runs", "paper", "ended", "behind", "mean")}
        axes |= {name: ("run",) for name in ("rate", "rate_panel", "rate_map")}
        vocabs = {int(vocab) for line in parts for each in line for vocab in each["task.vocab"]}
        notes = {"vocabs": list(self.vocabs), "vocabs_with_runs": sorted(vocabs), "unlike": unlike(table, USUAL)}
        notes["of_paper"] = sum(len(self._paper_vocabs(values)) for _, values in panels) * len(MAPS) * OF_PAPER
        notes["bfloat16"] = in_bfloat16([each for line in parts for each in line])
        return Result(arrays, axes, notes=notes)

    def _paper_vocabs(self, panel: Panel) -> set[int]:
        """Return the paper's vocabularies that a panel shows."""
        return {*VOCABULARIES} & {*([panel["task__vocab"]] if "task__vocab" in panel else self.vocabs)}

    @staticmethod
    def seen(result: Result) -> str:
        """Softmax's mean in each panel, and in how many it is the largest of all maps."""
        means, softmax = _means(result)
        known = np.isfinite(softmax)
        if not known.any():
            return f"Nothing can be seen: none of {result['runs'].sum()} runs gives softmax a flip rate."
        means_of_softmax = ", ".join(f"{softmax[i]:.2f} ({result['panel'][i]})" for i in np.flatnonzero(known))
        largest = softmax[known] >= means[known].max(axis=1)
        missing = f"; {(~known).sum()} of {len(known)} panels have none" if not known.all() else ""
        return (
            f"The mean flip rate under softmax is {means_of_softmax}, the largest of all maps in {largest.sum()} of"
            f" {len(largest)} panels{missing}."
        )

    @classmethod
    def draw(cls, result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        across = 2 if len(result["panel"]) % 2 == 0 else 1
        down = -(-len(result["panel"]) // across)
        width = 5.6 if across == 2 else 9
        picture = Figure(figsize=(width * across, 2.5 * down + 1.2), layout="constrained")
        for i, ax in enumerate(picture.subplots(down, across, sharey=True, squeeze=False).flat):
            _draw_panel(ax, result, i)
        few = "\n".join(filter(None, (memorised(Classification(vocab=v)) for v in result.notes["vocabs_with_runs"])))
        picture.suptitle("\n".join(filter(None, (cls.title, f"({drawn(result)};", f"{LEGEND})", few))), fontsize=9)
        return picture


def _means(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Mean flip rates [panel, map], −inf where there is none, and softmax's [panel], NaN where there is none."""
    mean = result["mean"]
    return np.where(np.isfinite(mean), mean, -np.inf), mean[:, list(result["map"]).index("softmax")]


def drawn(result: Result) -> str:
    """The number of runs drawn, of those in the paper, at which vocabularies, and what was left out."""
    of_paper = result.notes["of_paper"]
    runs, paper, ended, behind = (int(result[name].sum()) for name in ("runs", "paper", "ended", "behind"))
    left_out = ((runs - ended, "diverged"), (ended - behind, "without flip rates"))
    parts = [runs_in_words(runs, paper, of_paper), *(f"{n} {why}, left out" for n, why in left_out if n)]
    empty = "" if runs else f"NOTHING IS DRAWN: {result.notes['unlike']}; "
    return f"{empty}{', '.join(parts)}; {_vocabularies(result)}{bfloat16_in_words(result)}"


def _vocabularies(result: Result) -> str:
    """The vocabularies with runs, and those that were asked for but have none."""
    with_runs = result.notes["vocabs_with_runs"]
    missing = [vocab for vocab in result.notes["vocabs"] if vocab not in with_runs]
    parts = [f"vocabulary {', '.join(map(str, with_runs))}"] if with_runs else []
    return ", ".join(parts + ([f"no runs at vocabulary {', '.join(map(str, missing))}"] if missing else []))


def _draw_panel(ax: "Axes", result: Result, i: int) -> None:
    bars = Bars(*(result[name][i][:, None] for name in ("mean", "runs", "ended", "behind")))
    draw_bars(ax, bars, list(result["map"]), ["mean"], small=False)
    for j in range(len(result["map"])):
        rates = result["rate"][(result["rate_panel"] == i) & (result["rate_map"] == j)]
        draw_dots(ax, j, rates, COLOURS[1])
    ax.set_title(result["panel"][i], fontsize=9, pad=TITLE_PAD)
    ax.set_ylabel("flip rate", fontsize=9)
