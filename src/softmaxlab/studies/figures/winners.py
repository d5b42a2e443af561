"""Study 2, the consequence: does a transformer's sink follow the flow's winner or Adam's (docs/studies/optimizers.md)?

SGD and AdamW from the same weights on the same batches. Early winners of a layer-2 head, from its mean drive u and its
mean share s up to step 10: the flow's, argmax u, and Adam's, the last key above the mean Σ s_j u_j. Compared with the
key that has the largest share at two losses: 97 % of the loss at the start, and the lowest that both runs reach.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.studies.rerun import results_of
from softmaxlab.studies.study import Seed, Study
from softmaxlab.studies.study_numbers import Number, counted
from softmaxlab.training import Induction, Run

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

LAYER = 1
EARLY = 10  # steps
BEGUN = 0.97  # of the first loss
LRS = {"sgd": 1.0, "adamw": 1e-3}  # each solves the task in one epoch
QUERIES = {True: "shifted queries", False: "plain queries"}
WINNERS = {"flow": "flow: argmax u", "adam": "Adam: last above the mean"}


class Winners(Study):
    """The early winners of each layer-2 head and the key it attends to, after SGD and after AdamW."""

    id: ClassVar[str] = "studies/winners"
    title: ClassVar[str] = "Which early winner a transformer's sink follows, under SGD and AdamW"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Study 2"
    reports: ClassVar[str] = "Sinks are not on Adam's winner; most are on the flow's with shifted queries alone"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "committed": {},
        "quick": {"runs": "made", "seeds": (6, 7)},
        "paper": {"runs": "made"},
        "later": {"runs": "made", "shifted": False, "seeds": (3, 4, 5)},
    }
    cost: ClassVar[dict[str, str]] = {"committed": "1 s", "quick": "4 min", "paper": "12 min", "later": "6 min"}

    table: ClassVar[str] = "winners.csv"
    intervals: ClassVar[str] = (
        "95 % intervals of shares, as if heads were independent, which those of a run are not quite"
    )

    shifted: bool = True
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0, 1, 2, 3, 4, 5)

    def made(self, device: str) -> "pandas.DataFrame":
        import pandas

        specs = [run_of(Induction(shifted=self.shifted), seed, optimizer) for seed in self.seeds for optimizer in LRS]
        results = results_of(specs, device)
        pairs = [results[i : i + 2] for i in range(0, len(results), 2)]
        return pandas.concat([rows_of(pair) for pair in pairs], ignore_index=True)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        parts: list[Any] = list(result.to_pandas().groupby(["shifted", "matched"], sort=False))
        figure = Figure(figsize=(9, 2.1 * len(parts)), layout="constrained")
        for ax, ((shifted, matched), part) in zip(figure.subplots(len(parts) // 2, 2, sharey=True).flat, parts):
            _draw_shares(ax, part)
            title = f"{QUERIES[shifted]}, matched loss {part['loss'].max():.2f} ({matched})"
            label(ax, "optimizer", "share of heads whose\nlargest share is on it", title)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2, title="early winner of")
        heads = len(result["head"]) // (2 * len(parts))
        figure.suptitle(f"{Winners.title}\n({heads} heads a bar, 95 % intervals)", fontsize=11)
        return figure

    @staticmethod
    def numbers(table: "pandas.DataFrame") -> list[Number]:
        numbers, parts = [], cast(Any, table.groupby(["shifted", "optimizer", "matched"], sort=False))
        for (shifted, optimizer, matched), part in parts:
            where = f"{QUERIES[shifted]}, {optimizer} at loss {matched}, heads on the winner of"
            numbers += [counted(f"{where} {by}", (part[by] == part["token"]).to_numpy()) for by in WINNERS]
        return numbers


def _draw_shares(ax: "Axes", table: "pandas.DataFrame") -> None:
    names = list(dict.fromkeys(table["optimizer"]))
    for k, (winner, name) in enumerate(WINNERS.items()):
        parts = [table.loc[table["optimizer"] == name] for name in names]
        shares = [counted(name, (part[winner] == part["token"]).to_numpy()) for part in parts]
        value, low, high = (np.array([getattr(one, name) for one in shares]) for name in ("value", "low", "high"))
        place, error = np.arange(len(names)) + 0.36 * (k - 0.5), np.maximum([value - low, high - value], 0.0)
        ax.bar(place, value, 0.34, yerr=error, capsize=3, color=COLOURS[k], hatch=("", "//")[k], ec="w", label=name)
    ax.set_xticks(range(len(names)), [{"sgd": "SGD", "adamw": "AdamW"}[name] for name in names])
    ax.set_ylim(0, 1.05)


def run_of(task: Induction, seed: int, optimizer: Any) -> Run:
    return Run(
        task=task,
        optimizer=optimizer,
        lr=LRS[optimizer],
        weight_decay=0.0,
        epochs=1,
        seed=seed,
        track=("heads",),
    )


def rows_of(pair: list[Result]) -> "pandas.DataFrame":
    """A row for each layer-2 head of two runs that began alike."""
    import pandas

    lowest = max(float(run["track_loss"].min()) for run in pair)
    matched = {"97 %": BEGUN * float(pair[0]["track_loss"][0]), "lowest": lowest}
    return pandas.DataFrame([row for run in pair for name, loss in matched.items() for row in _heads(run, name, loss)])


def _heads(run: Result, matched: str, loss: float) -> list[dict[str, Any]]:
    spec, step = run.spec, run["track_step"]
    assert isinstance(spec, Run)
    reached = run["track_loss"] <= loss
    if not reached.any():
        raise SpecError(f"{spec.optimizer} with seed {spec.seed} never reaches the loss {loss:.3g} ({matched})")
    early, at = step <= EARLY, int(np.argmax(reached))
    seen = spec.task.seen().any(axis=0)
    assert isinstance(spec.task, Induction)
    settings = {"shifted": spec.task.shifted, "seed": spec.seed, "optimizer": spec.optimizer, "matched": matched}
    settings |= {"step": int(step[at]), "loss": float(run["track_loss"][at])}
    rows = []
    for head in range(spec.heads):
        u, s = (run[f"track_{name}"][early, LAYER, head][:, seen].mean(axis=0) for name in ("drive", "share"))
        share = run["track_share"][at, LAYER, head]
        winners = {"flow": int(u.argmax()), "adam": last_above(u, s), "token": int(share.argmax())}
        rows.append(settings | {"head": head} | winners | {"share": float(share.max())})
    return rows


def last_above(u: np.ndarray, s: np.ndarray) -> int:
    """The key whose drive is the least of those above the weighted mean."""
    above = np.where(u > (s * u).sum() / s.sum(), u, np.inf)
    return int(above.argmin())
