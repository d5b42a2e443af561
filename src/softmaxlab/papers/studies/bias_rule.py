"""Study 3, part C: softmax-1 trained with a fixed bias b, and the b that its conserved quantity selects.

Protocol and derivation: docs/studies/mitigation.md. A row is a trained model: the held-out loss that it was trained on,
and, for induction, the cross-entropy at the last position alone.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.papers.lines import label
from softmaxlab.papers.studies.making import checked
from softmaxlab.papers.studies.numbers import Number, range_of_one
from softmaxlab.papers.studies.study import Study
from softmaxlab.papers.style import COLOURS
from softmaxlab.specialization.fixed_points import unspecialised_fixed_point
from softmaxlab.training import Induction, Run

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

    Table = pandas.DataFrame

MAP = "softmax1"
EPOCHS, STEPS = 2, 150  # of induction, of the language model
HEADS, LENGTH = 4, {"induction": 12, "language model": 128}  # H and L, the longest row
NEAR = 0.1  # the protocol's: excess over the best loss, as a share of it


class BiasRule(Study):
    """Losses over fixed biases of softmax-1, in induction and in a small language model."""

    id: ClassVar[str] = "studies/bias-rule"
    title: ClassVar[str] = "Softmax-1 with a fixed bias, and the bias that its conserved quantity selects"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Study 3 C"
    reports: ClassVar[str] = "Whether the rule for the bias is within 10 % of the best loss of a sweep"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "committed": {},
        "quick": {"runs": "made", "biases": (0.0, 5.0), "seeds": (3,)},
        "paper": {"runs": "made"},
    }
    cost: ClassVar[dict[str, str]] = {"committed": "1 s", "quick": "7 min", "paper": "1 h"}

    table: ClassVar[str] = "bias-rule.csv"

    tasks: Annotated[tuple[Literal["induction", "language model"], ...], Field(min_length=1)] = (
        "induction",
        "language model",
    )
    biases: Annotated[tuple[float, ...], Field(min_length=1)] = (-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 5.0, 7.0, 9.0)
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (0, 1, 2)

    def made(self, device: str) -> "Table":
        import pandas

        from softmaxlab.core.progress import Progress

        cases = [(task, b, seed) for task in self.tasks for seed in self.seeds for b in self.biases]
        rows = []
        with Progress(len(cases), "trained models") as progress:
            for task, b, seed in cases:
                rows.append(row(task, b, seed, device))
                progress.advance()
        return pandas.DataFrame(rows)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        table = result.to_pandas()
        tasks = [task for task in LENGTH if task in set(table["task"])]
        figure = Figure(figsize=(5.5 * len(tasks), 4.2), layout="constrained")
        for ax, task in zip(np.atleast_1d(np.asarray(figure.subplots(1, len(tasks)))), tasks):
            part = table.loc[table["task"] == task]
            for k, (seed, one) in enumerate(part.groupby("seed")):
                ax.plot(one["b"], one["loss"], "o-", color=COLOURS[k], ms=3, lw=0.8, label=f"seed {seed}")
            means = part.groupby("b")["loss"].mean()
            ax.plot(means.index, means, "k-", lw=2, label="mean")
            ax.axhspan(means.min(), (1 + NEAR) * means.min(), color="0.9", zorder=0, label="within 10 % of the best")
            ax.axvline(rule(task), color="k", ls=":", label=f"the rule, b* = {rule(task):.2g}")
            ax.legend(fontsize=8)
            label(ax, "bias b", "held-out loss, nats", task)
        figure.suptitle(BiasRule.title, fontsize=12)
        return figure

    @staticmethod
    def numbers(table: "Table") -> list[Number]:
        """Intervals are for one more seed."""
        found = []
        for task, b in sorted(set(zip(table["task"], table["b"]))):
            part = table.loc[(table["task"] == task) & (table["b"] == b)]
            found.append(Number(f"{task}, loss at b = {b:g}", *range_of_one(part["loss"].to_numpy())))
        return found


def rule(task: str) -> float:
    """b* with I(b*, 1 + e^{b*}/L) = I(0, 1)."""
    return unspecialised_fixed_point(HEADS, LENGTH[task])[0]


def row(task: str, b: float, seed: int, device: str) -> dict[str, Any]:
    loss, last = _induction(b, seed, device) if task == "induction" else _language_model(b, seed, device)
    return {"task": task, "b": b, "seed": seed, "loss": loss, "last_loss": last}


def _induction(b: float, seed: int, device: str) -> tuple[float, float]:
    """Train with layer 2's biases held at b: the loss at all positions, and at the last."""
    import torch

    from softmaxlab.training import loop
    from softmaxlab.training.run import build, optimizer_of

    spec = Run(task=Induction(), map=MAP, heads=HEADS, epochs=EPOCHS, seed=seed)
    model, aux = build(spec, device), spec.task.weight_elsewhere()
    held: Any = model.blocks[-1].attention
    held.bias.requires_grad_(False).fill_(b)
    data, held_out = (spec.task.data(seed, split, device) for split in ("train", "evaluate"))
    order = loop.batches(len(data.tokens), spec.batch, spec.epochs, seed, device)
    for _ in loop.train(model, data, optimizer_of(spec, model), order, aux):
        pass
    with torch.no_grad():
        logits = model(held_out.tokens)
        whole, last = (float(loop.loss_of(logits, held_out.targets, weight)) for weight in (aux, 0.0))
    if not np.isfinite(whole):
        raise SpecError(f"the loss of induction with bias {b:g} and seed {seed} is {whole}")
    return whole, last


def _language_model(b: float, seed: int, device: str) -> tuple[float, float]:
    from softmaxlab.core.simulate import simulate
    from softmaxlab.probing.small import LanguageModel

    found = checked(simulate(LanguageModel(map=MAP, heads=HEADS, bias=b, steps=STEPS, seed=seed), device=device))
    return float(found["loss"]), np.nan


def excess(table: "Table", task: str) -> "pandas.Series":
    """Of each b, how far its mean loss is above the best one, as a share of that."""
    means = table.loc[table["task"] == task].groupby("b")["loss"].mean(skipna=False)
    return means / means.min(skipna=False) - 1
