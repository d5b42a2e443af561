"""Study 3, part B: language models equal but for attention, their sinks, massive activations and int8 gap.

Protocol: docs/studies/mitigation.md. A row is a trained model: held-out loss in float and int8, the largest sink score
of its heads, the largest |h| over the median |h| of its layers.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.studies.rerun import results_of
from softmaxlab.studies.study import Seed, Study
from softmaxlab.studies.study_numbers import Number, range_of

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

    from softmaxlab.training.language_model import LanguageModel

    Table = pandas.DataFrame

Kind = Literal["softmax", "softmax1", "sigmoid", "gated"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MEASURES = {"sink": "largest sink score", "massive": "largest |h| / median |h|", "gap": "int8 gap, nats per token"}
TOLD = {"loss": "held-out loss, nats per token"} | MEASURES


class SmallModels(Study):
    """Small Llamas with softmax, softmax1, sigmoid, and softmax with a gate, on equal text for equal steps."""

    id: ClassVar[str] = "studies/small-models"
    title: ClassVar[str] = "Sinks, massive activations and the int8 gap of small language models"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Study 3 B"
    reports: ClassVar[str] = (
        "Whether models that can do without a sink have fewer massive activations and lose less in int8"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "committed": {},
        "quick": {"runs": "made", "models": ("softmax",), "seeds": (3,)},
        "paper": {"runs": "made"},
        "later": {"runs": "made", "context": 64, "batch": 16, "steps": 1000, "seeds": (3,)},
    }
    cost: ClassVar[dict[str, str]] = {"committed": "1 s", "quick": "5 min", "paper": "50 min", "later": "10 min"}

    table: ClassVar[str] = "small-models.csv"
    intervals: ClassVar[str] = "where one more seed would lie 19 times of 20"
    alike: ClassVar[tuple[str, ...]] = ("context", "batch", "steps")

    context: Annotated[int, Field(ge=2, le=4096)] = 128
    batch: Annotated[int, Field(ge=1)] = 32
    steps: Annotated[int, Field(ge=1)] = 500
    models: Annotated[tuple[Kind, ...], Field(min_length=1)] = KINDS
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0, 1, 2)

    def made(self, device: str) -> "Table":
        import pandas

        cases = [{"kind": kind, "seed": seed} for seed in self.seeds for kind in self.models]
        results = results_of([self._spec(**case) for case in cases], device)
        return pandas.DataFrame([case | measured(result) for case, result in zip(cases, results)])

    def _spec(self, kind: Kind, seed: int) -> "LanguageModel":
        from softmaxlab.training.language_model import LanguageModel

        map = "softmax" if kind == "gated" else kind
        size = {name: getattr(self, name) for name in ("context", "batch", "steps")}
        return LanguageModel(map=map, gate=kind == "gated", seed=seed, **size)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        study, table = result.spec, with_gap(result.to_pandas())
        assert isinstance(study, SmallModels)
        uniform = (1 / np.arange(1, study.context + 1)).mean()  # of the first key, over queries
        kinds = [kind for kind in KINDS if kind in set(table["kind"])]
        figure = Figure(figsize=(14, 3.8), layout="constrained")
        for ax, (name, unit) in zip(figure.subplots(1, len(TOLD)), TOLD.items()):
            for k, kind in enumerate(kinds):
                values = table.loc[table["kind"] == kind, name].to_numpy()
                ax.plot(np.full(len(values), k), values, "o", color=COLOURS[k], mfc="none")
                ax.plot([k - 0.25, k + 0.25], [values.mean()] * 2, "-", color=COLOURS[k], lw=2)
            ax.set_xticks(range(len(kinds)), kinds, rotation=15)
            ax.set_xlim(-0.5, len(kinds) - 0.5)
            if name == "sink":
                ax.axhline(uniform, color="k", ls=":", lw=1, label="uniform attention")
                ax.set_ylim(0, max(2 * uniform, 1.1 * table[name].max()))
                ax.legend(fontsize=8)
            label(ax, "", unit, "")
        seeds = table["seed"].nunique()
        figure.suptitle(f"{SmallModels.title}\n(circles: {seeds} seed{'s' * (seeds > 1)}; lines: means)", fontsize=12)
        return figure

    @staticmethod
    def numbers(table: "Table") -> list[Number]:
        return [
            Number(f"{kind}, {unit}", *range_of(1, part[name].to_numpy()))
            for kind, part in with_gap(table).groupby("kind")
            for name, unit in TOLD.items()
        ]


def measured(result: Result) -> dict[str, float]:
    """Metrics of one trained model."""
    return {
        "loss": float(result["loss"]),
        "int8_loss": float(result["int8_loss"]),
        "sink": float(result["sink"].max()),
        "massive": float(result["massive"].max()),
    }


def with_gap(table: "Table") -> "Table":
    return table.assign(gap=table["int8_loss"] - table["loss"])


def seeds_led(table: "Table", kind: str, measure: str) -> int:
    """Return in how many seeds a kind has the largest value of a measure."""
    values = with_gap(table).pivot(index="seed", columns="kind", values=measure)
    return int((values.idxmax(axis="columns", skipna=False) == kind).sum())
