"""Which token wins, and how clearly, under GD, momentum, Adam and AdamW. Derivations: docs/theory/optimizers.md.

GD and momentum keep Theorem 3.2: the winner is argmax u(0). Adam polarizes too, but in a window of learning rates it
picks another token, mostly the one that started just above the mean, u_i(0) > ⟨u(0)⟩. A race for the scores takes
about 1/lr steps, for each step moves a score by about lr. Adam's step is m̂/√v̂, with memories of 1/(1−β₁) and 1/(1−β₂)
steps:

    1/lr ≪ 1/(1−β₁)                 m̂ and √v̂ are mean and root mean square of the whole past, |m̂| ≤ √v̂ with equality
                                    for constant gradients: no token gains by growth, and the order is kept
    1/(1−β₁) ≪ 1/lr ≪ 1/(1−β₂)      the step is g over the root mean square of its own past: it is largest for the
                                    token whose gradient grew most, the one that began just above the mean. Order lost
    1/(1−β₂) ≪ 1/lr                 √v̂ follows |g|, the steps are ±lr: sign descent, which keeps gaps of u, so order

The loss of order needs gradients that grow by a factor: initial gaps of u below what the race adds (V(0) not much above
0.3; the smaller V(0), the wider the window), and an eps below the scores' gradients, γ s|u − m| ~ 1e-3 here. Weight
decay in the gradient stops the weights at `decay.decayed_weight`; AdamW's, on the parameters, hardly does.
"""

import itertools
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result, Status
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.optimizer_grid import draw_panels
from softmaxlab.polarization import Descent, descend_many

if TYPE_CHECKING:
    import matplotlib.figure

Positive = Annotated[float, Field(gt=0)]
Several = Annotated[tuple[Positive, ...], Field(min_length=1, max_length=20)]
Decays = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1, max_length=20)]
BETAS = (0.9, 0.999)  # torch's own
LEAST_STEPS = 1000  # at large learning rates, where the horizon is a few steps away


@dataclass(frozen=True)
class Cell:
    """One setting of an optimizer and of the start V(0) ~ scale·N. `study` says which part of the survey it is of."""

    study: str  # "grid", "memory" or "descent"
    optimizer: str
    lr: float
    scale: float
    eps: float
    decay: float
    beta1: float
    beta2: float


class Optimizers(FigureSpec):
    """Descents of the logistic problem from `seeds` starts in each cell of three surveys.

    "grid" is lr × scale × eps × decay for AdamW, and for Adam where decay is not 0 (at 0 they are one); "memory" is
    Adam with other β₁ and β₂; "descent" is lr × scale × decay for GD and momentum. Adam runs to lr·steps = `horizon`.
    """

    id: ClassVar[str] = "polarization/optimizers"
    title: ClassVar[str] = (
        "Adam polarizes too, but in a window of learning rates towards another token than gradient flow"
    )
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Limitations (Theorem 3.2 under other optimizers)"
    reports: ClassVar[str] = (
        "GD and momentum pick argmax u(0); Adam does not where lr lies between about 0.2 (1−β₂) and (1−β₁)/2, V(0) is "
        "small and eps is tiny; weight decay stops GD, momentum and Adam at a known weight below 1"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {
            "seeds": 6,
            "lrs": (0.001, 0.01, 0.1),
            "scales": (0.1, 1.0),
            "epsilons": (1e-8, 1e-2),
            "decays": (0.0, 0.01),
            "memory_lrs": (0.01,),
            "memories": (10.0, 100.0, 1000.0),
            "descent_lrs": (1.0,),
            "descent_scales": (0.1,),
            "descent_decays": (0.0, 0.001, 0.01, 0.1),
            "descent_steps": 10_000,
        },
        "paper": {},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "3 s", "paper": "10 min"}

    p: Annotated[int, Field(ge=2, le=64)] = 8
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 64
    lrs: Several = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
    scales: Several = (0.03, 0.1, 0.3, 1.0)
    epsilons: Several = (1e-8, 1e-4, 1e-3, 1e-2)
    decays: Decays = (0.0, 0.01, 0.1)
    horizon: Positive = 10.0
    memory_lrs: Several = (1e-3, 1e-2)
    memories: Several = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
    descent_lrs: Several = (0.1, 1.0)
    descent_scales: Several = (0.1, 1.0)
    descent_decays: Decays = (0.0, 1e-4, 1e-3, 1e-2, 0.03, 0.1)
    descent_steps: Annotated[int, Field(ge=1)] = 100_000

    def cells(self) -> list[Cell]:
        """All settings, survey by survey."""
        grid = itertools.product(("adamw", "adam"), self.lrs, self.scales, self.epsilons, self.decays)
        cells = [Cell("grid", *at, *BETAS) for at in grid if at[0] == "adamw" or at[-1] > 0]
        base = (problems.SMALL, self.epsilons[0], 0.0)
        for lr, memory in itertools.product(self.memory_lrs, self.memories):
            beta = 1.0 - 1.0 / memory
            pairs = [pair for pair in ((BETAS[0], beta), (beta, BETAS[1])) if pair[0] <= pair[1]]
            cells += [Cell("memory", "adam", lr, *base, *pair) for pair in pairs]
        descents = itertools.product(("gd", "momentum"), self.descent_lrs, self.descent_scales, self.descent_decays)
        return cells + [Cell("descent", *at[:3], self.epsilons[0], at[3], *BETAS) for at in descents]

    def descent(self, cell: Cell, seed: int) -> Descent:
        """One run of a cell, tokens in the order of u(0)."""
        start = problems.classification(self.p, seed)
        steps = max(LEAST_STEPS, round(self.horizon / cell.lr)) if cell.study != "descent" else self.descent_steps
        return Descent(
            **(start | {"V": start["V"] * (cell.scale / problems.SMALL)}),
            # momentum's steps add up to 1/(1 − 0.9) times those of GD
            lr=cell.lr * (0.1 if cell.optimizer == "momentum" else 1.0),
            steps=steps,
            optimizer=cell.optimizer,  # type: ignore[arg-type]
            weight_decay=cell.decay,
            betas=(cell.beta1, cell.beta2),
            eps=cell.eps,
            points=2,
        )

    def _run(self, device: str) -> Result:
        cells = self.cells()
        ends, statuses = zip(*(self._ends(cell) for cell in cells))
        last = np.array(ends)
        winner = last.argmax(axis=-1)
        starts = [problems.classification(self.p, seed) for seed in range(self.seeds)]
        u = np.array([start["beta"] @ start["V"] for start in starts])  # ordered alike at every scale
        arrays = {name: [asdict(cell)[name] for cell in cells] for name in asdict(cells[0])}
        arrays |= {
            "p": self.p,
            "winner": winner,
            "right": winner == 0,
            "just_above": winner == just_above(u),
            "largest": last.max(axis=-1),
        }
        axes = {name: ("cell",) for name in asdict(cells[0])}
        axes |= {name: ("cell", "seed") for name in ("winner", "right", "just_above", "largest")}
        return Result(arrays, axes, next((status for status in statuses if not status.ok), Status()))

    def _ends(self, cell: Cell) -> tuple[list[np.ndarray], Status]:
        """The last weights of a cell's runs. A survey has tens of thousands of runs, too many to keep."""
        runs = descend_many(self.descent(cell, seed) for seed in range(self.seeds))
        return [run["weights"][-1] for run in runs], status_of(runs, [f"{cell}, seed {k}" for k in range(self.seeds)])

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        figure = draw_panels(result)
        figure.suptitle(f"{Optimizers.title} (descent)", fontsize=12)
        return figure


def just_above(u: np.ndarray) -> np.ndarray:
    """For each row of u(0), in falling order, the last token above the mean."""
    return (u > u.mean(axis=-1, keepdims=True)).sum(axis=-1) - 1
