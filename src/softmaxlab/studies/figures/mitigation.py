"""Study 3, part A: what the sink costs SmolLM2 in int8, and what gets it back (docs/studies/mitigation.md).

A row is the loss of one evaluation text: in float or int8 (`weights`), with a `change` of the model: none, the keys and
values of the text's own first token in float, the sink folded into a searched prefix or into biases, or softmax-1 with
bias b in all heads or in the sink heads (`heads`). Texts to calibrate and to evaluate on are cut from different places
of the same book; a draw is a choice of places.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.plotting.journal import COLOURS
from softmaxlab.plotting.lines import label
from softmaxlab.studies.study import Seed, Study
from softmaxlab.studies.study_numbers import Number, interval

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    from matplotlib.axes import Axes

    Table = pandas.DataFrame

MODEL, TEXT = "smollm2", "kjv"
CALIBRATION = 4  # texts
FOLDS = {"none": "", "first": ",\nfirst token float", "prefix": " +\nprefix", "bias": " +\nbiases"}  # as bars are named
LINEAR = 0.01  # nats up to which rises are drawn to scale, beyond it their logarithms
OFF = -30.0  # a bias at which softmax-1 is softmax in float32


class Mitigation(Study):
    """Losses of SmolLM2 in float and int8, with the sink folded away, and with softmax-1 at several biases."""

    version: ClassVar[int] = 2  # the first token in float was added
    id: ClassVar[str] = "studies/mitigation"
    title: ClassVar[str] = "What the sink costs in int8, and what gets it back"
    source: ClassVar[str] = "softmaxlab"
    place: ClassVar[str] = "Study 3 A"
    reports: ClassVar[str] = "Most of the damage of per-tensor int8 is the sink's"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "committed": {},
        "quick": {"runs": "made", "draws": (3,), "texts": 4, "biases": (-10.0, -4.0, 0.0, 4.0)},
        "paper": {"runs": "made"},
        "later": {
            "runs": "made",
            "text": "python",
            "length": 512,
            "draws": (0,),
            "texts": 8,
            "biases": (-6.0, -4.0, -2.0, 0.0, 2.0),
        },
    }
    cost: ClassVar[dict[str, str]] = {"committed": "1 s", "quick": "2 min", "paper": "30 min", "later": "7 min"}

    table: ClassVar[str] = "mitigation.csv"
    intervals: ClassVar[str] = "95 % intervals of means over texts, as if those of different draws shared no part"
    alike: ClassVar[tuple[str, ...]] = ("text", "length")

    text: str = TEXT
    draws: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0, 1, 2, 4)
    texts: Annotated[int, Field(ge=2)] = 12
    length: Annotated[int, Field(ge=16)] = 256
    biases: Annotated[tuple[float, ...], Field(min_length=1)] = tuple(float(b) for b in range(-12, 7, 2))

    def made(self, device: str) -> "Table":
        import pandas

        from softmaxlab.core.progress import Progress
        from softmaxlab.probing.load import load
        from softmaxlab.probing.text import sequences, texts

        corpus, loaded = texts(self.text), load(MODEL, device=device)
        rows = []
        with Progress(len(self.draws) * (8 + 2 * len(self.biases)), "conditions") as progress:
            for draw in self.draws:
                drawn = sequences(loaded.tokenizer, corpus, self.length, CALIBRATION + self.texts, seed=draw)
                for condition, losses in self._losses(loaded.model, drawn[:CALIBRATION], drawn[CALIBRATION:]):
                    rows += [{"draw": draw, "text": i} | condition | {"loss": x} for i, x in enumerate(losses)]
                    progress.advance()
        table = pandas.DataFrame(rows)
        table.attrs = {"text": corpus.name, "sha256": corpus.sha256}
        return table

    def _losses(self, model: Any, calibration: list, judged: list) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
        """Conditions, and the loss of each text under them."""
        from softmaxlab.measure.thresholds import SINK_EPS
        from softmaxlab.probing import fold_sink, swapped
        from softmaxlab.probing.heads import measure_heads
        from softmaxlab.probing.inference import as_batches
        from softmaxlab.probing.interventions.quantise import quantised
        from softmaxlab.probing.next_token_loss import loss

        folds = {"none": nullcontext()} | {name: fold_sink(model, name, calibration) for name in ("prefix", "bias")}
        for weights, rounding in {"float": nullcontext, "int8": quantised}.items():
            for name, fold in folds.items():
                with fold, rounding(model):
                    yield _condition(name, weights), loss(model, judged).per_sequence
            yield _condition("first", weights), _first_in_float(model, judged, rounding)
        heads = measure_heads(model, as_batches(calibration), "fast").heads
        sink = heads.pivot(index="layer", columns="head", values="sink").to_numpy() > SINK_EPS
        for b in self.biases:
            for name, chosen in {"all": np.ones_like(sink), "sink": sink}.items():
                with swapped(model, "softmax1", bias=np.where(chosen, b, OFF).tolist()):
                    yield _condition("softmax1", b=b, heads=name), loss(model, judged).per_sequence

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        table = result.to_pandas()
        figure = Figure(figsize=(12, 4.4), layout="constrained")
        bars, curve = figure.subplots(1, 2)
        _draw_folds(bars, table)
        _draw_biases(curve, table)
        texts, count = (len(set(table[name])) for name in ("text", "draw"))
        amount = f"{texts} texts" if count == 1 else f"{count} draws of {texts} texts"
        figure.suptitle(f"{Mitigation.title}\n(SmolLM2-135M, {amount})", fontsize=12)
        return figure

    @staticmethod
    def numbers(table: "Table") -> list[Number]:
        all_draws = draws(table)
        folds = {"first": "the first token in float", "prefix": "a prefix", "bias": "biases"}
        closed = {by: recovered(table, fold, *all_draws) for fold, by in folds.items()}
        numbers = [Number(f"int8 gap closed by {by}", *share) for by, share in closed.items()]
        plain = np.concatenate([losses(table, draw, "none") for draw in all_draws])
        for b in sorted(set(table["b"].dropna())):
            rise = np.concatenate([curve(table, draw, "all")[b] for draw in all_draws]) - plain
            numbers.append(Number(f"rise of the loss with softmax-1 at b = {b:g}", *interval(rise)))
        return numbers


def _first_in_float(model: Any, texts: list, rounding: Callable[[Any], AbstractContextManager]) -> np.ndarray:
    """The loss of each text whose first token is computed, and predicts the second, before anything is rounded."""
    from softmaxlab.probing.interventions.sink_prefix import Prefix
    from softmaxlab.probing.next_token_loss import loss

    numbers = []
    for text in texts:
        first = loss(model, [text[:2]])
        with Prefix(model, text[:1].tolist()), rounding(model):
            rest = loss(model, [text[1:]])
        numbers.append((first.S + rest.S) / (first.n + rest.n))
    return np.concatenate(numbers)


def _condition(change: str, weights: str = "float", b: float = np.nan, heads: str = "all") -> dict[str, Any]:
    return {"change": change, "weights": weights, "b": b, "heads": heads}


def draws(table: "Table") -> list[int]:
    return sorted(set(table["draw"]))


def losses(table: "Table", draw: int, change: str, weights: str = "float") -> np.ndarray:
    """The loss of each text of a draw."""
    here = (table["draw"] == draw) & (table["change"] == change) & (table["weights"] == weights)
    return table.loc[here].sort_values("text")["loss"].to_numpy()


def curve(table: "Table", draw: int, heads: str) -> "Table":
    """Losses with softmax-1, [text, b]."""
    here = (table["draw"] == draw) & (table["change"] == "softmax1") & (table["heads"] == heads)
    return table.loc[here].pivot(index="text", columns="b", values="loss")


def recovered(table: "Table", fold: str, *draws: int) -> tuple[float, float, float]:
    """The share of the int8 gap that a fold closes, with its interval: 1 − the gap it leaves over the whole gap."""
    gap, left = (np.concatenate([_gap(table, draw, change) for draw in draws]) for change in ("none", fold))
    share = 1.0 - left.mean() / gap.mean()
    _, low, high = interval((gap - left) - share * gap)  # of a ratio, by linearising it
    return float(share), float(share + low / gap.mean()), float(share + high / gap.mean())


def _gap(table: "Table", draw: int, change: str) -> np.ndarray:
    return losses(table, draw, change, "int8") - losses(table, draw, change)


@dataclass(frozen=True)
class Fall:
    """A fall of the loss from one bias to a larger one: in nats, and in standard errors of the paired difference."""

    b: float
    larger: float
    nats: float
    errors: float


def steepest_fall(table: "Table", draw: int, heads: str) -> Fall:
    """Return the largest fall in standard errors."""
    losses_by_bias = curve(table, draw, heads)
    if losses_by_bias.isna().any(axis=None):
        raise SpecError(f"a text of draw {draw} has no loss at one of its biases")
    falls = []
    for b, larger in combinations(losses_by_bias.columns, 2):
        fall = (losses_by_bias[b] - losses_by_bias[larger]).to_numpy()
        error = fall.std(ddof=1) / np.sqrt(len(fall))
        falls.append(Fall(b, larger, fall.mean(), fall.mean() / error if fall.any() else 0.0))
    return max(falls, key=lambda fall: fall.errors)


def _draw_folds(ax: "Axes", table: "Table") -> None:
    bars = [(change, "int8") for change in FOLDS] + [("prefix", "float"), ("bias", "float")]
    names = [f"{weights}{FOLDS[change]}" for change, weights in bars]
    all_draws = draws(table)
    width = 0.8 / len(all_draws)
    for k, draw in enumerate(all_draws):
        before = losses(table, draw, "none")
        intervals = np.array([interval(losses(table, draw, *bar) - before) for bar in bars])
        place = np.arange(len(bars)) + width * (k - (len(all_draws) - 1) / 2)
        error = [intervals[:, 0] - intervals[:, 1], intervals[:, 2] - intervals[:, 0]]
        colour = COLOURS[k % len(COLOURS)]
        ax.bar(place, intervals[:, 0], 0.92 * width, yerr=error, color=colour, ec="w", capsize=2, label=f"draw {draw}")
    ax.set_xticks(range(len(bars)), names, fontsize=8)
    ax.legend(fontsize=8)
    label(ax, "", "rise of the loss, nats per token", "Against float as it is (95 % intervals over texts)")


def _draw_biases(ax: "Axes", table: "Table") -> None:
    looks = {"all": ("o", COLOURS[6]), "sink": ("s", COLOURS[4])}  # colours that no draw has
    for heads, (marker, colour) in looks.items():
        for draw in draws(table):
            losses_of = curve(table, draw, heads)
            rises = losses_of.to_numpy() - losses(table, draw, "none")[:, None]
            intervals = np.array([interval(rise) for rise in rises.T])
            name = f"{heads} heads" if draw == draws(table)[0] else None
            ax.plot(losses_of.columns, intervals[:, 0], marker + "-", color=colour, ms=3, label=name)
            ax.fill_between(losses_of.columns, intervals[:, 1], intervals[:, 2], color=colour, alpha=0.15)
    ax.set_yscale("symlog", linthresh=LINEAR)
    ax.set_xticks(sorted(set(table["b"].dropna())))
    ax.legend(fontsize=8, title="softmax-1 in", title_fontsize=8)
    title = f"softmax-1 put for softmax (a line a draw; linear to {LINEAR})"
    label(ax, "bias b", "rise of the loss, nats per token", title)
