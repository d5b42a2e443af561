"""The sweeps of the polarization paper, in an order that makes an unfinished one as useful as it can be.

What a preset holds is said by the docstring of its function, which `softmaxlab list sweeps` shows.
"""

from collections.abc import Callable
from typing import Any

from softmaxlab.errors import SpecError, unknown
from softmaxlab.training.grid import grid
from softmaxlab.training.run import Run
from softmaxlab.training.tasks import Classification, Induction

MAPS = (
    "softmax", "sigmoid", "sigmoid_norm", "elu", "elu_norm", "elu_elu", "elu_elu_norm", "mlp", "mlp_norm",
    "linear", "linear_norm",
)  # fmt: skip
BEYOND = ("softmax1", "bayes_softmax", "sparsemax", "softpick", "clipped_softmax")
WITH_CONTROL = (*MAPS, "uniform")
RATES = (1e-3, 1e-2, 1e-4)
SEEDS = (0, 1, 2, 3, 4)
HEADS = (4, 1, 2, 8)
VOCABULARIES = (41, 81, 161)
BOTH = (True, False)
# None stands for the task's own positions, additive, so that specs which leave them out share these runs
POSITIONS = (None, "concat", "none")


def preset(task: str, name: str) -> list[Run]:
    """The runs of a preset of a task."""
    return [run for stage in stages(task, name) for run in stage]


def stages(task: str, name: str) -> list[list[Run]]:
    """The runs of a preset in parts, the most useful part first; within a part their order does not matter."""
    if task not in PRESETS:
        raise unknown("sweep", task, PRESETS)
    if name not in PRESETS[task]:
        message, _, _ = str(unknown(f"preset of {task}", name, PRESETS[task])).partition(", known: ")
        raise SpecError(f"{message} ({task} has: {', '.join(PRESETS[task])})")
    parts = PRESETS[task][name]()
    plain = [run for run in parts if isinstance(run, Run)]
    return [plain] if plain else [part for part in parts if isinstance(part, list)]


def is_figure(name: str) -> bool:
    """Whether a preset is the runs of figures, which do not tell runs apart that are `alike`."""
    return name.startswith("figure")


def about(task: str, name: str) -> str:
    """A preset in one line."""
    return PRESETS[task][name].__doc__ or ""


def _induction_quick() -> list[Run]:
    """Three maps, one epoch."""
    return grid(Run(task=Induction(), epochs=1), map=("softmax", "sigmoid", "linear"))


def _figure4() -> list[list[Run]]:
    """λ = 0.2, shifted queries, additive positions: every map, heads, learning rates; runs end when settled."""
    runs = grid(Run(task=Induction(), stop="settled"), seed=SEEDS, heads=HEADS, lr=RATES, map=MAPS)
    return _in_stages(runs, lambda run: (run.seed, not _is_plain(run)))


def _figures14_17() -> list[list[Run]]:
    """Figures 14 to 17: figure4 for both λ, all positions and both kinds of query; runs end when settled."""
    choices = {"task.aux": (0.2, 0.0), "task.shifted": BOTH, "positions": POSITIONS}
    runs = grid(Run(task=Induction(), stop="settled"), seed=SEEDS, **choices, heads=HEADS, lr=RATES, map=MAPS)
    fourth = {run.key for stage in _figure4() for run in stage if run.seed == SEEDS[0]}
    return _in_stages(runs, lambda run: _stage(run, fourth))


def _stage(run: Run, fourth: set[str]) -> tuple[int, int]:
    """Every panel once, map by map; Figure 4 once; every panel with the other seeds; then the rest, seed by seed."""
    if _is_plain(run):
        return (2, 0) if run.seed else (0, MAPS.index(run.map))
    return (1, 0) if run.key in fourth else (3, run.seed)


def _settings() -> list[Run]:
    """Figure 4's settings with one seed, heads tracked; runs end when settled."""
    return [run.replace(track=("heads",)) for stage in _figure4() for run in stage if run.seed == SEEDS[0]]


def _full() -> list[Run]:
    """Every map and softmax1 with the default settings, all 10 epochs, heads tracked."""
    return grid(Run(task=Induction(), track=("heads",)), map=(*MAPS, "softmax1"))


def _variants() -> list[Run]:
    """λ = 0, plain queries, no positions: four maps, two seeds; runs end when settled."""
    usual = Run(task=Induction(), stop="settled")
    changes: tuple[dict, ...] = {"task.aux": 0.0}, {"task.shifted": False}, {"positions": "none"}
    choices = {"seed": SEEDS[:2], "map": ("softmax", "sigmoid_norm", "sigmoid", "linear")}
    runs = [run for change in changes for run in grid(usual.replace(**change), **choices)]
    return sorted(runs, key=lambda run: run.seed)


def _bfloat16() -> list[Run]:
    """Figure 4 with 4 heads and 1 head, one seed and learning rate, in bfloat16; runs end when settled."""
    return grid(Run(task=Induction(), stop="settled", precision="bfloat16"), heads=HEADS[:2], map=MAPS)


def _induction_beyond() -> list[Run]:
    """Maps that are not in the paper, and a gate; runs end when settled."""
    usual = Run(task=Induction(), stop="settled")
    return [*grid(usual, map=BEYOND), usual.replace(gate=True)]


def _induction_paper() -> list[Run]:
    """All that the paper varies, with uniform attention as a control."""
    choices = {"seed": SEEDS, "task.aux": (0.2, 0.0), "task.shifted": BOTH, "positions": POSITIONS}
    return grid(Run(task=Induction()), **choices, heads=HEADS, lr=RATES, map=WITH_CONTROL)


def _is_plain(run: Run) -> bool:
    """Whether it has the default heads and learning rate."""
    return (run.heads, run.lr) == (HEADS[0], RATES[0])


def _in_stages(runs: list[Run], stage: Callable[[Run], Any]) -> list[list[Run]]:
    """The runs by stage, the least first."""
    stages_of_runs: dict[Any, list[Run]] = {}
    for run in runs:
        stages_of_runs.setdefault(stage(run), []).append(run)
    return [stages_of_runs[key] for key in sorted(stages_of_runs)]


def _classification_quick() -> list[Run]:
    """Softmax and sigmoid with one layer and head, softmax with 2 layers of 4 heads."""
    one = grid(Run(task=Classification(), layers=1, heads=1), map=("softmax", "sigmoid"))
    return [*one, Run(task=Classification(), layers=2, heads=4)]


def _figure6() -> list[Run]:
    """One layer, one head, MLP and LayerNorm: every map and learning rate, the three vocabularies."""
    base = Run(task=Classification(), layers=1, heads=1)
    return grid(base, **{"task.vocab": VOCABULARIES}, seed=SEEDS, lr=RATES, map=MAPS)


def _figures18_20() -> list[Run]:
    """Figures 18 to 20: figure6 with and without MLP and LayerNorm."""
    base = Run(task=Classification(), layers=1, heads=1)
    return grid(base, **{"task.vocab": VOCABULARIES}, seed=SEEDS, mlp=BOTH, layernorm=BOTH, lr=RATES, map=MAPS)


def _figure21() -> list[Run]:
    """Heads and layers without MLP and LayerNorm, vocabulary 41: every map and learning rate."""
    bare = Run(task=Classification(), mlp=False, layernorm=False)
    return grid(bare, seed=SEEDS, heads=(1, 2, 4), layers=(1, 2), lr=RATES, map=MAPS)


def _classification_beyond() -> list[Run]:
    """Maps that are not in the paper, one layer, one head."""
    return grid(Run(task=Classification(), layers=1, heads=1), seed=SEEDS, map=BEYOND)


def _classification_paper() -> list[Run]:
    """All that the paper varies, with uniform attention as a control."""
    choices = {"task.vocab": VOCABULARIES, "layers": (1, 2), "heads": (1, 2, 4), "mlp": BOTH, "layernorm": BOTH}
    return grid(Run(task=Classification()), seed=SEEDS, **choices, lr=RATES, map=WITH_CONTROL)


PRESETS: dict[str, dict[str, Callable[[], list[Run] | list[list[Run]]]]] = {
    "induction": {
        "quick": _induction_quick,
        "full": _full,
        "figure4": _figure4,
        "figures14-17": _figures14_17,
        "settings": _settings,
        "variants": _variants,
        "bfloat16": _bfloat16,
        "beyond": _induction_beyond,
        "paper": _induction_paper,
    },
    "classification": {
        "quick": _classification_quick,
        "figure6": _figure6,
        "figures18-20": _figures18_20,
        "figure21": _figure21,
        "beyond": _classification_beyond,
        "paper": _classification_paper,
    },
}
