"""Study 3, part A: why the loss of a text rises and falls again as softmax-1's bias grows (docs/studies/mitigation.md).

A row is one text at one bias (−∞ is softmax): its loss, and the massive activation `top` of its sink, the largest |h|
of layer LAYER, which is past where SmolLM2 makes it, with the position of the token that has it.
"""

from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.studies.figures.mitigation import CALIBRATION, MODEL, OFF, TEXT
from softmaxlab.studies.study import Study
from softmaxlab.studies.study_numbers import Number, counted, interval

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

    Table = pandas.DataFrame

LAYER = 15
BUMP = 0.05  # nats by which a loss lies above that at a larger bias


class Bumps(Study):
    """Losses of single texts and their sink's massive activation over softmax-1's bias."""

    id: ClassVar[str] = "studies/bumps"
    title: ClassVar[str] = "Softmax-1's loss on single texts, and the massive activation of their sink"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Study 3 A"
    reports: ClassVar[str] = "Single texts have bumps; that their massive activation is gone there is not confirmed"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "committed": {},
        "quick": {"runs": "made", "draw_number": 1, "texts": 6},
        "paper": {"runs": "made"},
        "later": {"runs": "made", "text": "python"},
    }
    cost: ClassVar[dict[str, str]] = {"committed": "1 s", "quick": "3 min", "paper": "6 min", "later": "6 min"}

    table: ClassVar[str] = "bumps.csv"
    intervals: ClassVar[str] = "95 % intervals over texts"
    alike: ClassVar[tuple[str, ...]] = ("text", "length", "biases")

    text: str = TEXT
    draw_number: Annotated[int, Field(ge=0)] = 3
    texts: Annotated[int, Field(ge=2)] = 12
    length: Annotated[int, Field(ge=16)] = 256
    biases: Annotated[tuple[float, ...], Field(min_length=2)] = (-8.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0)

    def made(self, device: str) -> "Table":
        import pandas

        from softmaxlab.core.progress import Progress
        from softmaxlab.probing.load import load
        from softmaxlab.probing.swap.swapped import swapped
        from softmaxlab.probing.text import sequences, texts

        corpus, loaded = texts(self.text), load(MODEL, device=device)
        drawn = sequences(loaded.tokenizer, corpus, self.length, CALIBRATION + self.texts, seed=self.draw_number)
        rows = []
        with Progress(1 + len(self.biases), "biases") as progress:
            for b in (-np.inf, *self.biases):
                with swapped(loaded.model, "softmax1", bias=max(b, OFF)):
                    rows += [
                        {"text": i, "b": b} | _measured(loaded.model, x) for i, x in enumerate(drawn[CALIBRATION:])
                    ]
                progress.advance()
        table = pandas.DataFrame(rows)
        table.attrs = {"text": corpus.name, "sha256": corpus.sha256}
        return table

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        table = result.to_pandas()
        figure = Figure(figsize=(11, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_texts(left, table, "loss", "rise of the loss, nats per token", "Loss of each text")
        _draw_texts(right, table, "top", "largest |h| over softmax's", "Massive activation of its sink")
        right.set_yscale("log")
        right.axhline(0.5, color="k", ls=":", lw=1, label="gone is below")
        right.legend(fontsize=8)
        figure.suptitle(Bumps.title, fontsize=12)
        return figure

    @staticmethod
    def numbers(table: "Table") -> list[Number]:
        losses = table.pivot(index="text", columns="b", values="loss")
        rises = losses.sub(losses[-np.inf], axis="index").drop(columns=-np.inf)
        numbers = [counted("share of texts with a bump", losses.index.isin(bumps(table)["text"].tolist()))]
        return numbers + [Number(f"rise of the loss at b = {b:g}", *interval(rises[b].to_numpy())) for b in rises]


def _measured(model: Any, text: Any) -> dict[str, Any]:
    from softmaxlab.probing.heads import measure_heads
    from softmaxlab.probing.inference import as_batches
    from softmaxlab.probing.next_token_loss import loss

    batches = as_batches([text])
    layer = measure_heads(model, batches, "fast").activations.iloc[LAYER]
    return {"loss": loss(model, batches).mean, "top": float(layer["top"]), "position": int(layer["position"])}


def bumps(table: "Table") -> "Table":
    """The largest fall of each text whose loss falls by more than BUMP from one bias to a larger one.

    `small`: its massive activation at the smaller bias is below half of softmax's and below half of that at the larger.
    """
    import pandas

    rows = []
    for text, one in table.groupby("text"):
        one = one.sort_values("b")
        b, loss, top = (one[name].to_numpy() for name in ("b", "loss", "top"))
        if np.isnan(loss).any():
            raise SpecError(f"text {text} has no loss at one of its biases")
        fall, i, j = max((loss[i] - loss[j], i, j) for i, j in combinations(range(1, len(b)), 2))  # 0 is softmax
        if fall > BUMP:
            rows.append((text, b[i], b[j], fall, top[i] < min(top[0], top[j]) / 2))
    return pandas.DataFrame(rows, columns=["text", "b", "larger", "fall", "small"])


def _draw_texts(ax: "Axes", table: "Table", name: str, unit: str, title: str) -> None:
    """Thin lines: texts; thick: those with a bump."""
    thick = set(bumps(table)["text"])
    labelled = set()
    for text, one in table.groupby("text"):
        one = one.sort_values("b")
        first, rest = one[name].iloc[0], one.iloc[1:]
        y = rest[name] - first if name == "loss" else rest[name] / first
        bump = text in thick
        kind = "texts with a bump" if bump else "other texts"
        ax.plot(
            rest["b"],
            y,
            "-",
            color=COLOURS[1 if bump else 0],
            lw=1.6 if bump else 0.7,
            label=None if kind in labelled else kind,
        )
        labelled.add(kind)
    ax.legend(fontsize=8)
    label(ax, "bias b", unit, title)
