"""Study 3: what the sink costs in int8, and what gets it back (docs/studies/mitigation.md). Part A, SmolLM2.

A row is the loss of one evaluation text under one condition. Calibration texts and evaluation texts are cut from
different places of the same book; a draw is a choice of places.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.lines import label
from softmaxlab.papers.studies.study import Study
from softmaxlab.papers.style import COLOURS

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

    Table = pandas.DataFrame

MODEL, TEXT = "smollm2", "kjv"
CALIBRATION = 4  # texts
SINK_HEAD = 0.3  # the sink score of a head that has a sink, as in fold_sink
OFF = -30.0  # a bias at which softmax-1 is softmax in float32


class Mitigation(Study):
    """Losses of SmolLM2 in float and int8, with the sink folded away, and with softmax-1 at several biases."""

    id: ClassVar[str] = "studies/mitigation"
    title: ClassVar[str] = "What the sink costs in int8, and what gets it back"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Study 3"
    reports: ClassVar[str] = "Most of the damage of per-tensor int8 is the sink's"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "committed": {},
        "quick": {"runs": "made", "draws": (3,), "texts": 4, "biases": (-10.0, -4.0, 0.0, 4.0)},
        "paper": {"runs": "made"},
    }
    cost: ClassVar[dict[str, str]] = {"committed": "1 s", "quick": "4 min", "paper": "30 min"}

    table: ClassVar[str] = "mitigation.csv"

    draws: Annotated[tuple[int, ...], Field(min_length=1)] = (0, 1, 2)
    texts: Annotated[int, Field(ge=2)] = 12
    length: Annotated[int, Field(ge=16)] = 256
    biases: tuple[float, ...] = (-12.0, -10.0, -8.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0)

    def made(self, device: str) -> "Table":
        import pandas

        from softmaxlab.core.progress import Progress
        from softmaxlab.probing.models.corpora import sequences, texts
        from softmaxlab.probing.models.load import load

        loaded = load(MODEL, device=device)
        rows = []
        with Progress(len(self.draws) * (6 + 2 * len(self.biases)), "conditions") as progress:
            for draw in self.draws:
                found = sequences(loaded.tokenizer, texts(TEXT), self.length, CALIBRATION + self.texts, seed=draw)
                for name, losses in self._losses(loaded.model, found[:CALIBRATION], found[CALIBRATION:]):
                    rows += [{"draw": draw, "condition": name, "text": i, "loss": x} for i, x in enumerate(losses)]
                    progress.advance()
        return pandas.DataFrame(rows)

    def _losses(self, model: Any, calibration: list, judged: list) -> Iterator[tuple[str, np.ndarray]]:
        from softmaxlab.probing import fold_sink, swapped
        from softmaxlab.probing.changes.loss import loss
        from softmaxlab.probing.changes.quantise import quantised
        from softmaxlab.probing.probe import examine
        from softmaxlab.probing.running import as_batches

        folds = {"": nullcontext(), " + prefix": fold_sink(model, "prefix", calibration)}
        folds[" + bias"] = fold_sink(model, "bias", calibration)
        for name, fold in folds.items():
            with fold:
                yield f"float{name}", loss(model, judged).per_sequence
                with quantised(model):
                    yield f"int8{name}", loss(model, judged).per_sequence
        heads = examine(model, as_batches(calibration), "fast").heads
        sink = heads.pivot(index="layer", columns="head", values="sink").to_numpy() > SINK_HEAD
        for b in self.biases:
            for where, chosen in (("all heads", np.ones_like(sink)), ("sink heads", sink)):
                with swapped(model, "softmax1", bias=np.where(chosen, b, OFF).tolist()):
                    yield f"softmax1 {b:g} {where}", loss(model, judged).per_sequence

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        table = result.to_pandas()
        figure = Figure(figsize=(12, 4.4), layout="constrained")
        bars, curve = figure.subplots(1, 2)
        _draw_folds(bars, table)
        _draw_biases(curve, table)
        texts = table.groupby("draw")["text"].nunique().max()
        figure.suptitle(
            f"{Mitigation.title}\n(SmolLM2-135M, {table['draw'].nunique()} draws of {texts} texts)", fontsize=12
        )
        return figure


def rise(table: "Table", condition: str, draw: int, of: str = "float") -> np.ndarray:
    """Of each text, the loss under a condition less that under another."""
    losses = table.loc[table["draw"] == draw].pivot(index="text", columns="condition", values="loss")
    return (losses[condition] - losses[of]).to_numpy()


def interval(x: np.ndarray) -> tuple[float, float, float]:
    """Mean and Student's 95 % interval."""
    from scipy.stats import t

    half = t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean()), float(x.mean() - half), float(x.mean() + half)


def recovered(table: "Table", fold: str, draw: int) -> tuple[float, float, float]:
    """The share of the int8 gap that a fold closes, with its interval: the gap it leaves, over the whole gap."""
    gap = rise(table, "int8", draw)
    left = rise(table, f"int8 + {fold}", draw, of=f"float + {fold}")
    share = 1.0 - left.mean() / gap.mean()
    _, low, high = interval((gap - left) - share * gap)  # of a ratio, by linearising it
    return float(share), float(share + low / gap.mean()), float(share + high / gap.mean())


def _draw_folds(ax: "Axes", table: "Table") -> None:
    names = ("int8", "int8 + prefix", "int8 + bias", "float + prefix", "float + bias")
    draws = sorted(set(table["draw"]))
    for k, draw in enumerate(draws):
        found = np.array([interval(rise(table, name, draw)) for name in names])
        place = np.arange(len(names)) + 0.25 * (k - (len(draws) - 1) / 2)
        error = [found[:, 0] - found[:, 1], found[:, 2] - found[:, 0]]
        ax.bar(place, found[:, 0], 0.23, yerr=error, color=COLOURS[k], ec="w", capsize=2, label=f"draw {draw}")
    ax.set_xticks(range(len(names)), names, rotation=15)
    ax.legend(fontsize=8)
    label(ax, "", "rise of the loss, nats per token", "Against float as it is (95 % intervals over texts)")


def _draw_biases(ax: "Axes", table: "Table") -> None:
    names = sorted({name for name in table["condition"] if name.startswith("softmax1")})
    for k, where in enumerate(("all heads", "sink heads")):
        biases = sorted(float(name.split()[1]) for name in names if name.endswith(where))
        for draw in sorted(set(table["draw"])):
            found = np.array([interval(rise(table, f"softmax1 {b:g} {where}", draw)) for b in biases])
            told = where if draw == min(table["draw"]) else None
            ax.plot(biases, found[:, 0], "os"[k] + "-", color=COLOURS[k], ms=3, label=told)
            ax.fill_between(biases, found[:, 1], found[:, 2], color=COLOURS[k], alpha=0.15)
    ax.set_yscale("symlog", linthresh=0.01)
    ax.legend(fontsize=8, title="softmax-1 in", title_fontsize=8)
    label(ax, "bias b", "rise of the loss, nats per token", "softmax-1 put in place of softmax")
