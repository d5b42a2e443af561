"""Count the runs behind Figures 4, 6 and 14 to 21 that are in the tables, and the panels that have one.

A run of the paper counts once, however many figures draw it and whether it was trained to the end, ended when settled,
or both. README and the report take their numbers from `coverage`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softmaxlab.papers.polarization.classification_figures import flip_runs
from softmaxlab.papers.polarization.precision import without_unvalidated
from softmaxlab.papers.polarization.runs import COMMITTED, FigureOfRuns, TaskName, read_runs, where
from softmaxlab.papers.polarization.sink_runs import SETTING, usual_runs
from softmaxlab.training.presets import preset
from softmaxlab.training.table import fields

if TYPE_CHECKING:
    import pandas

PRESETS: dict[TaskName, tuple[str, ...]] = {
    "induction": ("figures14-17",),
    "classification": ("figures18-20", "figure21"),
}
SETTINGS: dict[TaskName, list[str]] = {
    "induction": SETTING,
    "classification": ["map", "heads", "layers", "lr", "seed", "mlp", "layernorm", "task.vocab"],
}


@dataclass(frozen=True)
class Coverage:
    """Runs and panels, each of how many."""

    runs: dict[TaskName, int]
    of_runs: dict[TaskName, int]
    panels: int
    of_panels: int

    def __str__(self) -> str:
        parts = [f"{self.runs[task]:,} of {self.of_runs[task]:,} {task} runs" for task in self.runs]
        total = f"{sum(self.runs.values()):,} of {sum(self.of_runs.values()):,} runs"
        return f"{total} ({' and '.join(parts)}), {self.panels} of {self.of_panels} panels with at least one"


def coverage(runs: str = COMMITTED) -> Coverage:
    """Count the runs of the paper in the tables, and the panels that they fill."""
    made, wanted = {}, {}
    for task, names in PRESETS.items():
        wanted[task] = {_cells(fields(run), task) for name in names for run in preset(task, name)}
        made[task] = _drawn(runs, task) & wanted[task]
    filled = [bool(n) for figure in _figures() for n in _runs_by_panel(figure, runs)]
    return Coverage(
        {task: len(settings) for task, settings in made.items()},
        {task: len(settings) for task, settings in wanted.items()},
        sum(filled),
        len(filled),
    )


def _drawn(runs: str, task: TaskName) -> set[tuple]:
    """The settings of the paper's runs that figures draw."""
    table = read_runs(runs, task)
    rows = flip_runs(table) if task == "classification" else usual_runs(without_unvalidated(table)[0])
    rows: pandas.DataFrame = where(rows, rows["paper"])
    return {_cells(row, task) for row in rows.to_dict("records")}


def _cells(row: dict, task: TaskName) -> tuple:
    """A setting; an induction run that names no positions has additive ones."""
    return tuple((row[name] or "additive") if name == "positions" else row[name] for name in SETTINGS[task])


def _figures() -> list[type[FigureOfRuns]]:
    from softmaxlab.papers.index import FIGURES  # which imports the figures

    return [figure for figure in FIGURES.values() if issubclass(figure, FigureOfRuns)]


def _runs_by_panel(figure: Callable[..., FigureOfRuns], runs: str) -> list[int]:
    result = figure(runs=runs)._run("cpu")
    return result["paper"].reshape(len(result["panel"]), -1).sum(axis=1).tolist()
