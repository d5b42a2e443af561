"""Bars of induction runs: the base of Figures 4 and 14 to 17."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.bars import Bars, draw_bars, legend
from softmaxlab.papers.polarization.induction_summary import (
    seen_accuracy,
    seen_sinks,
)
from softmaxlab.papers.polarization.precision import without_unvalidated
from softmaxlab.papers.polarization.runs import FigureOfRuns, TaskName, chosen, unlike
from softmaxlab.papers.polarization.sink_runs import (
    ACCURATE,
    AUX,
    HEADS,
    OF_PAPER,
    USUAL,
    Score,
    count,
    map_order,
    scores_of,
    usual_runs,
)
from softmaxlab.training.presets import MAPS
from softmaxlab.training.tasks import Positions

if TYPE_CHECKING:
    import matplotlib.figure


PRESETS: dict[str, dict[str, Any]] = {"quick": {}, "paper": {}}


TITLE_PAD = 16  # points, for the numbers of runs between a panel and its title


COST = {"quick": "1 s", "paper": "1 s"}


HEAD_NAMES = [f"{heads} heads" if heads > 1 else "1 head" for heads in HEADS]


POSITIONS = {"additive": "additive", "concat": "concatenated", "none": "no"}


QUERIES = {True: "t′ ≠ t", False: "t′ = t"}


# of each quantity: the runs that come into question, those behind its mean, and what the marks mean
COUNTS = {"share": ("passed", "scored"), "accuracy": ("ended", "accurate")}


CALLED = {"share": "share of sink heads", "accuracy": "mean accuracy"}


LEGENDS = {
    "share": "bar: weight on BOS over all weight, averaged over positions as in Appendix E.1, which the claims judge; "
    "black line: pooled\nover positions, as in the authors' figures; "
    + legend("none solved the task", "solved, but without sink scores"),
    "accuracy": legend("all diverged", "no accuracy in the table"),
}


class InductionRuns(FigureOfRuns):
    """Panels of settings: positions down, kinds of query across."""

    source: ClassVar[str] = "varre2026polarization"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    cost: ClassVar[dict[str, str]] = COST
    version: ClassVar[int] = 2  # its result has both readings of the sink score
    quantity: ClassVar[str] = "share"

    task: TaskName = "induction"
    aux: Annotated[float, Field(ge=0)] = 0.2
    positions: tuple[Positions, ...] = ("additive", "concat", "none")
    shifted: tuple[bool, ...] = (False, True)
    score: Score = "per_position"
    beyond: bool = False  # maps that the paper does not have, too

    def _run(self, device: str) -> Result:
        table, unvalidated = without_unvalidated(self.table())
        rows = chosen(usual_runs(table), task__aux=self.aux)
        maps = map_order(rows, self.beyond)
        panels = [(p, s, chosen(rows, positions=p, task__shifted=s)) for p in self.positions for s in self.shifted]
        counted = [count(part, maps, self.score) for _, _, part in panels]
        kept = ("runs", "paper", "passed", "bfloat16", *COUNTS[self.quantity], self.quantity)
        kept += ("share_pooled",) if self.quantity == "share" else ()
        arrays = {name: np.stack([getattr(c, name) for c in counted]) for name in kept}
        axes = {name: ("panel", "map", "heads") for name in arrays}
        names = [f"{POSITIONS[p]} positions, {QUERIES[s]}" for p, s, _ in panels]
        labels = {"map": maps, "heads": HEADS, "panel": names}
        shown = [part for _, _, part in panels]
        notes = {"aux": self.aux, "across": len(self.shifted), "score": self.score} | _lengths(shown)
        notes |= {"unlike": unlike(table, USUAL), "unvalidated": unvalidated}
        score, owner = scores_of(shown[0], maps, self.score)
        arrays |= labels | {"score": score, "score_map": owner}
        axes |= {name: (name,) for name in labels} | {"score": ("each_head",), "score_map": ("each_head",)}
        return Result(arrays, axes, notes=notes)

    @staticmethod
    def seen(result: Result) -> str:
        return seen_accuracy(result) if "accuracy" in result else seen_sinks(result)

    @classmethod
    def draw(cls, result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        across = result.notes["across"]
        down = len(result["panel"]) // across
        picture = Figure(figsize=(6.2 * across, 2.3 * down + 1.2), layout="constrained")
        for i, ax in enumerate(picture.subplots(down, across, sharey=True, squeeze=False).flat):
            draw_bars(ax, bars_of(result, cls.quantity, i), list(result["map"]), HEAD_NAMES, small=True)
            ax.set_title(result["panel"][i], fontsize=9, pad=TITLE_PAD)
            ax.set_ylabel(CALLED[cls.quantity], fontsize=8)
        picture.legend(*ax.get_legend_handles_labels(), fontsize=7, ncols=4, loc="outside lower center")
        picture.suptitle(f"{cls.title}\n({drawn(result)};\n{LEGENDS[cls.quantity]})", fontsize=9)
        return picture


def _lengths(parts: list) -> dict[str, Any]:
    """The lengths of the runs, as notes."""
    epochs = [int(n) for part in parts for n in part["epochs"]]
    settled = sum(int((~part["full"]).sum()) for part in parts)
    return {
        "epochs": [min(epochs, default=0), max(epochs, default=0)],
        "settled": settled,
        "bfloat16": in_bfloat16(parts),
    }


def in_bfloat16(parts: list) -> int:
    return sum(int((part["precision"] == "bfloat16").sum()) for part in parts)


def bfloat16_in_words(result: Result) -> str:
    """The number of runs in bfloat16, if any is, and of those among them that are not drawn, in words."""
    number, left_out = result.notes.get("bfloat16", 0), result.notes.get("unvalidated", 0)
    drawn = f", {number} runs in bfloat16" if number else ""
    return f"{drawn}, {left_out} in bfloat16 left out: not validated" if left_out else drawn


def bars_of(result: Result, quantity: str, panel: int) -> Bars:
    pooled = result["share_pooled"][panel] if "share_pooled" in result else None
    counts = (result[name][panel] for name in (quantity, "runs", *COUNTS[quantity], "bfloat16"))
    return Bars(*counts, other=pooled)


def drawn(result: Result) -> str:
    """The number of runs drawn, of those in the paper, what was left out, and of what length."""
    of_paper = OF_PAPER * len(HEADS) * len(MAPS) * len(result["runs"]) if result.notes["aux"] in AUX else 0
    total = {name: int(result[name].sum()) for name in ("runs", "paper", "passed", *_counted(result))}
    empty = "" if total["runs"] else f"NOTHING IS DRAWN: {result.notes['unlike']}; "
    parts = [
        empty + runs_in_words(total["runs"], total["paper"], of_paper),
        f"{total['passed']} with accuracy > {ACCURATE:g}",
    ]
    parts += [f"{n} {why}, left out" for n, why in _left_out(total) if n]
    least, most = result.notes["epochs"]
    length = f"{most} epochs" if least == most else f"{least} to {most} epochs"
    settled = f"{result.notes['settled']} told to end when settled"
    return f"{', '.join(parts)}; at most {length}, {settled}{bfloat16_in_words(result)}"


def _counted(result: Result) -> tuple[str, str]:
    """The names of its quantity's counts."""
    return next(counts for quantity, counts in COUNTS.items() if quantity in result)


def _left_out(total: dict[str, int]) -> list[tuple[int, str]]:
    """The numbers of runs that are not behind a mean though they might be, and why."""
    if "scored" in total:
        return [(total["passed"] - total["scored"], "of these without sink scores")]
    return [(total["runs"] - total["ended"], "diverged"), (total["ended"] - total["accurate"], "without accuracy")]


def runs_in_words(runs: int, paper: int, of_paper: int) -> str:
    """The number of the paper's runs and, apart from them, of whatever else was run, in words."""
    others = f" and {runs - paper} {'other' if runs - paper == 1 else 'others'}" if runs > paper else ""
    return f"{paper} of the paper's {of_paper} runs{others}"
