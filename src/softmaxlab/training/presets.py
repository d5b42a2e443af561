"""The sweeps of the polarization paper, in an order that makes an unfinished one as useful as it can be.

What a preset holds is said by the docstring of its function, which `softmaxlab list sweeps` shows.
"""

from collections.abc import Callable

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
    if task not in PRESETS:
        raise unknown("sweep", task, PRESETS)
    if name not in PRESETS[task]:
        told, _, _ = str(unknown(f"preset of {task}", name, PRESETS[task])).partition(", known: ")
        raise SpecError(f"{told} ({task} has: {', '.join(PRESETS[task])})")
    return PRESETS[task][name]()


def about(task: str, name: str) -> str:
    """A preset in one line."""
    return PRESETS[task][name].__doc__ or ""


def _induction_quick() -> list[Run]:
    """Three maps, one epoch."""
    return grid(Run(task=Induction(), epochs=1), map=("softmax", "sigmoid", "linear"))


def _figure4() -> list[Run]:
    """λ = 0.2, shifted queries, additive positions: every map, heads, learning rates; runs end when settled."""
    return _plainest_first(grid(Run(task=Induction(), stop="settled"), seed=SEEDS, heads=HEADS, lr=RATES, map=MAPS))


def _settings() -> list[Run]:
    """Figure 4's settings with one seed, heads tracked; runs end when settled."""
    return [run.replace(track=("heads",)) for run in _figure4() if run.seed == SEEDS[0]]


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


def _induction_beyond() -> list[Run]:
    """Maps that are not in the paper, and a gate; runs end when settled."""
    usual = Run(task=Induction(), stop="settled")
    return [*grid(usual, map=BEYOND), usual.replace(gate=True)]


def _induction_paper() -> list[Run]:
    """All that the paper varies, with uniform attention as a control."""
    choices = {"seed": SEEDS, "task.aux": (0.2, 0.0), "task.shifted": BOTH, "positions": POSITIONS}
    return grid(Run(task=Induction()), **choices, heads=HEADS, lr=RATES, map=WITH_CONTROL)


def _plainest_first(runs: list[Run]) -> list[Run]:
    """Seed by seed, and in each the default heads and learning rate before the others."""
    usual = runs[0]
    return sorted(runs, key=lambda run: (run.seed, (run.heads, run.lr) != (usual.heads, usual.lr)))


def _classification_quick() -> list[Run]:
    """Softmax and sigmoid with one layer and head, softmax with 2 layers of 4 heads."""
    one = grid(Run(task=Classification(), layers=1, heads=1), map=("softmax", "sigmoid"))
    return [*one, Run(task=Classification(), layers=2, heads=4)]


def _figure6() -> list[Run]:
    """One layer, one head, MLP and LayerNorm: every map and learning rate, the three vocabularies."""
    base = Run(task=Classification(), layers=1, heads=1)
    return grid(base, **{"task.vocab": VOCABULARIES}, seed=SEEDS, lr=RATES, map=MAPS)


def _figure18() -> list[Run]:
    """With and without MLP and LayerNorm, two seeds, one learning rate: Figures 18 to 20."""
    base = Run(task=Classification(), layers=1, heads=1)
    return grid(base, **{"task.vocab": VOCABULARIES}, seed=SEEDS[:2], mlp=BOTH, layernorm=BOTH, map=MAPS)


def _figure21() -> list[Run]:
    """Heads and layers without MLP and LayerNorm, one learning rate."""
    bare = Run(task=Classification(), mlp=False, layernorm=False)
    return grid(bare, seed=SEEDS, heads=(1, 2, 4), layers=(1, 2), map=MAPS)


def _classification_beyond() -> list[Run]:
    """Maps that are not in the paper, one layer, one head."""
    return grid(Run(task=Classification(), layers=1, heads=1), seed=SEEDS, map=BEYOND)


def _classification_paper() -> list[Run]:
    """All that the paper varies, with uniform attention as a control."""
    choices = {"task.vocab": VOCABULARIES, "layers": (1, 2), "heads": (1, 2, 4), "mlp": BOTH, "layernorm": BOTH}
    return grid(Run(task=Classification()), seed=SEEDS, **choices, lr=RATES, map=WITH_CONTROL)


PRESETS: dict[str, dict[str, Callable[[], list[Run]]]] = {
    "induction": {
        "quick": _induction_quick,
        "full": _full,
        "figure4": _figure4,
        "settings": _settings,
        "variants": _variants,
        "beyond": _induction_beyond,
        "paper": _induction_paper,
    },
    "classification": {
        "quick": _classification_quick,
        "figure6": _figure6,
        "figure18": _figure18,
        "figure21": _figure21,
        "beyond": _classification_beyond,
        "paper": _classification_paper,
    },
}
