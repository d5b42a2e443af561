"""The paper's Tables 1 to 3 beside what our presets and registry hold: the paper's values once, ours read."""

from typing import Any

from softmaxlab.attention import MAPS
from softmaxlab.training.presets import MAPS as OURS
from softmaxlab.training.presets import preset

TABLE_1 = ("softmax", "sigmoid", "elu", "elu_elu", "mlp", "linear")  # all but softmax also without normalisation
COMMON = {
    "layers": (2,),
    "width": (128,),
    "epochs": (10,),
    "batch": (256,),
    "mlp": (True,),
    "layernorm": (True,),
    "lr": (1e-4, 1e-3, 1e-2),
    "seed": (0, 1, 2, 3, 4),
}
TABLES: dict[str, dict[str, tuple[Any, ...]]] = {
    "induction": COMMON
    | {
        "task.train": (100_000,),
        "task.evaluate": (1_000,),
        "task.vocab": (51,),
        "task.sequence": (13,),
        "task.aux": (0.0, 0.2),
        "task.shifted": (False, True),
        "heads": (1, 2, 4, 8),
        "positions": ("additive", "concat", "none"),
    },
    "classification": COMMON
    | {
        "layers": (1, 2),
        "mlp": (False, True),
        "layernorm": (False, True),
        "task.train": (10_000,),
        "task.evaluate": (1_000,),
        "task.vocab": (41, 81, 161),
        "task.sequence": (11,),
        "task.labels": (4,),
        "heads": (1, 2, 4),
        "positions": ("none",),
    },
}
OWN_POSITIONS = {"induction": "additive", "classification": "none"}  # of a run that names none
EXTRA = {"induction": 3, "classification": 1}  # BOS, the repeated token and its successor; CLS


def compare_settings(task: str) -> list[tuple[str, tuple[Any, ...], tuple[Any, ...]]]:
    """Each setting of Table 2 (induction) or 3 (classification): its name, the paper's values, those of our sweep."""
    runs = preset(task, "paper")
    rows = [(name, paper, _values(name, task, runs)) for name, paper in TABLES[task].items()]
    maps = sorted({run.map for run in runs})
    return [*rows, ("map", tuple(sorted(paper_maps())), tuple(maps))]


def paper_maps() -> list[str]:
    """Table 1 in our names: each with and without normalisation, softmax with it only."""
    names = [name + ending for name in TABLE_1 for ending in ("", "_norm")]
    return [name for name in names if name != "softmax_norm"]


def compare_maps() -> list[tuple[str, bool, bool]]:
    """Each map of Table 1: its name, whether the registry has it, whether the figures' sweeps use it."""
    return [(name, name in MAPS, name in OURS) for name in paper_maps()]


def _values(name: str, task: str, runs: list[Any]) -> tuple[Any, ...]:
    return tuple(sorted({_value(name, task, run) for run in runs}))


def _value(name: str, task: str, run: Any) -> Any:
    if name == "positions":
        return run.positions or OWN_POSITIONS[task]
    if name == "task.sequence":
        return run.task.tokens + EXTRA[task]
    return getattr(run.task, name.removeprefix("task.")) if name.startswith("task.") else getattr(run, name)
