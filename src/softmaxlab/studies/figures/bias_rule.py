"""Study 3, part C: softmax-1 trained with a fixed bias b, and the b that its conserved quantity selects.

Protocol and derivation: docs/studies/mitigation.md. A row is a trained model: the held-out loss that it was trained on,
and, for induction, the cross-entropy at the last position alone.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from softmaxlab.core.result import Outcome, Result, Status
from softmaxlab.core.spec import Spec
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.specialization.landscape.softmax1_fixed_points import unspecialised_fixed_point
from softmaxlab.studies.rerun import results_of
from softmaxlab.studies.study import Seed, Study
from softmaxlab.studies.study_numbers import Number, range_of
from softmaxlab.training import Induction, Run

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

    Table = pandas.DataFrame

MAP = "softmax1"
EPOCHS, STEPS = 2, 150  # of induction, of the language model
TASKS = ("induction", "language model")
RULE = 0.0  # the swept bias that stands for b*
CLOSE = 0.01  # to b*, for that
ABOVE = "the rule above the best"
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
        "later": {"runs": "made", "heads": 2, "context": 32, "biases": (RULE, 2.0, 3.5, 5.0, 7.0), "seeds": (3, 4, 5)},
    }
    cost: ClassVar[dict[str, str]] = {"committed": "1 s", "quick": "7 min", "paper": "1 h", "later": "15 min"}

    table: ClassVar[str] = "bias-rule.csv"
    intervals: ClassVar[str] = "where one more seed would lie 19 times of 20"
    alike: ClassVar[tuple[str, ...]] = ("heads", "context")

    tasks: Annotated[tuple[Literal["induction", "language model"], ...], Field(min_length=1)] = TASKS
    heads: Annotated[int, Field(ge=1)] = 4
    context: Annotated[int, Field(ge=2, le=4096)] = 128
    biases: Annotated[tuple[float, ...], Field(min_length=1)] = (-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 5.0, 7.0, 9.0)
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0, 1, 2)

    def reference(self) -> list[Number]:
        """The numbers of the same biases; the best of them is not compared if some were not swept."""
        committed = self.read()
        numbers = self.numbers(committed.loc[committed["b"].isin(self.biases)])
        return [one for one in numbers if ABOVE not in one.name or set(self.biases) <= set(committed["b"])]

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        for task in self.tasks:
            if abs((b := self.rule(task)) - RULE) > CLOSE:
                raise ValueError(f"the rule's bias must be within {CLOSE} of {RULE:g}, got {b:.3g} for {task}")
        return self

    def made(self, device: str) -> "Table":
        import pandas

        cases = [
            {"task": task, "b": b, "seed": seed} for task in self.tasks for seed in self.seeds for b in self.biases
        ]
        results = results_of([self._spec(**case) for case in cases], device)
        return pandas.DataFrame([case | _losses(result) for case, result in zip(cases, results)])

    def _spec(self, task: str, b: float, seed: int) -> Spec:
        from softmaxlab.training.language_model import LanguageModel

        if task == "induction":
            return HeldBias(run=Run(task=Induction(), map=MAP, heads=self.heads, epochs=EPOCHS, seed=seed), b=b)
        return LanguageModel(map=MAP, heads=self.heads, context=self.context, bias=b, steps=STEPS, seed=seed)

    def rule(self, task: str) -> float:
        """b* with I(b*, 1 + e^{b*}/L) = I(0, 1), L the longest row."""
        return unspecialised_fixed_point(self.heads, Induction().length() if task == "induction" else self.context)[0]

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        study, table = result.spec, result.to_pandas()
        assert isinstance(study, BiasRule)
        tasks = [task for task in TASKS if task in set(table["task"])]
        figure = Figure(figsize=(5.5 * len(tasks), 4.2), layout="constrained")
        for ax, task in zip(np.atleast_1d(np.asarray(figure.subplots(1, len(tasks)))), tasks):
            part = table.loc[table["task"] == task]
            for k, (seed, one) in enumerate(part.groupby("seed")):
                ax.plot(
                    one["b"], one["loss"], "o-", color=COLOURS[k % len(COLOURS)], ms=3, lw=0.8, label=f"seed {seed}"
                )
            means = part.groupby("b")["loss"].mean()
            ax.plot(means.index, means, "k-", lw=2, label="mean")
            ax.axhspan(means.min(), (1 + NEAR) * means.min(), color="0.9", zorder=0, label="within 10 % of the best")
            b = study.rule(task)
            ax.axvline(b, color="k", ls=":", label=f"the rule, b* = {b:.2g}")
            ax.legend(fontsize=8)
            label(ax, "bias b", "held-out loss, nats", task)
        figure.suptitle(BiasRule.title, fontsize=12)
        return figure

    @staticmethod
    def numbers(table: "Table") -> list[Number]:
        numbers = []
        for task, b in sorted(set(zip(table["task"], table["b"]))):
            part = table.loc[(table["task"] == task) & (table["b"] == b)]
            numbers.append(Number(f"{task}, loss at b = {b:g}", *range_of(1, part["loss"].to_numpy())))
        return numbers + [number for task in TASKS for number in _above(table, task)]


class HeldBias(Spec):
    """Train with the last layer's biases held at b: the loss on held-out data at all positions, and at the last."""

    run: Run
    b: float

    def _run(self, device: str) -> Result:
        import torch

        from softmaxlab.training import loop
        from softmaxlab.training.run import build, optimizer_of

        run, model = self.run, build(self.run, device)
        aux, held = run.task.weight_elsewhere(), cast(Any, model.blocks[-1].attention)
        held.bias.requires_grad_(False).fill_(self.b)
        data, held_out = (run.task.data(run.seed, split, device) for split in ("train", "evaluate"))
        order = loop.batches(len(data.tokens), run.batch, run.epochs, run.seed, device)
        for _ in loop.train(model, data, optimizer_of(run, model), order, aux):
            pass
        with torch.no_grad():
            logits = model(held_out.tokens)
            loss, last = (float(loop.loss_of(logits, held_out.targets, weight)) for weight in (aux, 0.0))
        ended = Status() if np.isfinite(loss) else Status(Outcome.DIVERGED, f"the loss is {loss}")
        return Result({"loss": loss, "last_loss": last}, {}, ended)


def _losses(result: Result) -> dict[str, float]:
    """Return the loss at all positions and, if it is known, at the last."""
    return {"loss": float(result["loss"]), "last_loss": float(result["last_loss"]) if "last_loss" in result else np.nan}


def _above(table: "Table", task: str) -> list[Number]:
    """Return the rule's excess over the bias best in the mean, by seed; none if either was not run."""
    losses = table.loc[table["task"] == task].pivot(index="seed", columns="b", values="loss")
    if RULE not in losses or len(losses.columns) < 2:
        return []
    best = losses.mean(skipna=False).idxmin(skipna=False)
    share = (losses[RULE] / losses[best] - 1).to_numpy()
    return [Number(f"{task}, {ABOVE}", *range_of(1, share))]


def excess(table: "Table", task: str) -> "pandas.Series":
    """The distance of each b's mean loss above the best one, as a share of that."""
    means = table.loc[table["task"] == task].groupby("b")["loss"].mean(skipna=False)
    return means / means.min(skipna=False) - 1
