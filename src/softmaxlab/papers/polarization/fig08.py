"""Figures 8 and 9: what a sample of the two tasks looks like, drawn from real samples."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.polarization.fig01 import token_names
from softmaxlab.training import Classification, Induction, Run

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

CELL = 0.9  # width of a token's box, where boxes stand 1 apart


class Fig08(FigureSpec):
    """An induction sequence, with the two steps of the induction mechanism as arrows."""

    id: ClassVar[str] = "polarization/fig08"
    title: ClassVar[str] = "The induction task"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 8"
    reports: ClassVar[str] = "The format of a sequence and the induction head mechanism"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "1 s", "paper": "1 s"}

    vocab: Annotated[int, Field(ge=12, le=10**6)] = 51
    seed: Annotated[int, Field(ge=0)] = 0

    def _run(self, device: str) -> Result:
        task = Induction(vocab=self.vocab)
        data = task.data(self.seed, "evaluate")
        tokens = np.append(data.tokens[0].numpy(), int(data.targets[0, -1]))
        first = int(np.flatnonzero(tokens == tokens[-2] - (self.vocab - 1))[0])
        return Result({"tokens": tokens, "first": first}, {"tokens": ("token",)}, notes={"vocab": self.vocab})

    @staticmethod
    def seen(result: Result) -> str:
        """How many tokens are distinct, and whether the answer is what followed the token that comes again."""
        tokens, first = result["tokens"].tolist(), int(result["first"])
        *seen, again, answer = token_names(result["tokens"], result.notes["vocab"])
        followed = "what" if tokens[-1] == tokens[first + 1] else "not what"
        return (
            f"The sequence is BOS, {len(seen) - 1} tokens of which {len(set(seen[1:]))} are distinct, {again}, and then"
            f" {answer}, which is {followed} followed {seen[first]} at place {first}."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        tokens, first = result["tokens"], int(result["first"])
        picture = Figure(figsize=(9, 2.6), layout="constrained")
        ax = picture.subplots()
        names = token_names(tokens, result.notes["vocab"])
        draw_tokens(ax, names, np.zeros(len(names)), 0.0)
        last = len(names) - 2
        arrow(ax, first + 1, first, "layer 1: attend to the previous token", 0.55)
        arrow(ax, last, first + 1, "layer 2: attend to what followed the same token, and copy it", 1.9)
        ax.annotate("predicted", (last + 1, -0.5), (last + 1, -1.1), ha="center", fontsize=8, arrowprops=LEADER)
        frame(ax, len(names), (-1.4, 3.0))
        picture.suptitle(
            f"{Fig08.title}: {len(names) - 3} distinct tokens, one of them again (′), and what followed it"
        )
        return picture


class Fig09(FigureSpec):
    """Two samples of a trained classifier before and after their most attended tokens are swapped."""

    id: ClassVar[str] = "polarization/fig09"
    title: ClassVar[str] = "The classification task and the token swap"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 9"
    reports: ClassVar[str] = "Swapping the most attended tokens of two samples swaps the predictions"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"epochs": 3}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "3 s", "paper": "6 s"}

    vocab: Annotated[int, Field(ge=41, le=10**6)] = 41
    epochs: Annotated[int, Field(ge=1, le=1000)] = 10
    seed: Annotated[int, Field(ge=0)] = 0

    def _run(self, device: str) -> Result:
        from softmaxlab.training.evaluate import patterns, predictions
        from softmaxlab.training.run import train
        from softmaxlab.training.sharing import LAST

        spec = Run(task=Classification(vocab=self.vocab), layers=1, heads=1, epochs=self.epochs, seed=self.seed)
        model, trained = train(spec, device)
        data = spec.task.data(self.seed, "evaluate", device)
        other = int((data.targets != data.targets[0]).nonzero()[0])
        before = data.tokens[[0, other]]
        top = patterns(model, before)[0, 0, :, -1, :-1].argmax(dim=-1).tolist()
        after = before.clone()
        after[0, top[0]], after[1, top[1]] = before[1, top[1]], before[0, top[0]]
        both = [before, after]
        arrays = {
            "tokens": np.stack([x.cpu().numpy() for x in both]),
            "weights": np.stack([patterns(model, x)[0, 0, :, -1].cpu().numpy() for x in both]),
            "prediction": np.stack([predictions(model, x, LAST)[:, 0].cpu().numpy() for x in both]),
            "swapped": top,
        }
        axes = {"tokens": ("swap", "sample", "key"), "weights": ("swap", "sample", "key")}
        axes |= {"prediction": ("swap", "sample"), "swapped": ("sample",)}
        return Result(arrays, axes, trained.status)

    @staticmethod
    def seen(result: Result) -> str:
        """The predictions before and after, with the weights of the tokens that were swapped."""
        before, after = (label.tolist() for label in result["prediction"])
        w = [result["weights"][0, sample, token] for sample, token in enumerate(result["swapped"])]
        swapped = "are swapped" if before[0] != before[1] and after == before[::-1] else "are not swapped"
        return (
            f"With the swap of the most attended tokens, of weight {w[0]:.3f} and {w[1]:.3f}, the predicted labels go"
            f" from {before[0]} and {before[1]} to {after[0]} and {after[1]}: they {swapped}."
        )

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        picture = Figure(figsize=(9, 3.4), layout="constrained")
        ax = picture.subplots()
        length = result["tokens"].shape[-1]
        for swap, when in enumerate(("before", "after")):
            for sample in range(2):
                y = -2.6 * swap - sample
                names = ["CLS" if t == 0 else str(t) for t in result["tokens"][swap, sample]]
                draw_tokens(ax, names, result["weights"][swap, sample], y, int(result["swapped"][sample]))
                ax.text(length, y, f"→ label {result['prediction'][swap, sample]}", va="center", fontsize=9)
            ax.text(-0.8, -2.6 * swap - 0.5, f"{when} the swap", ha="right", va="center", fontsize=9)
        frame(ax, length, (-4.3, 0.7), left=-3.2, right=2.5)
        picture.suptitle(f"{Fig09.title}\n(darker: more weight from CLS; framed: the tokens swapped)", fontsize=10)
        return picture


LEADER = {"arrowstyle": "->", "lw": 0.9}


def draw_tokens(ax: "Axes", names: list[str], weights: np.ndarray, y: float, framed: int | None = None) -> None:
    """A row of boxes; the more weight, the darker."""
    from matplotlib.patches import Rectangle

    from softmaxlab.papers.style import COLOURS

    for i, (name, weight) in enumerate(zip(names, weights)):
        frame = {"edgecolor": COLOURS[1], "lw": 2} if i == framed else {"edgecolor": "0.5", "lw": 0.8}
        corner = (i - CELL / 2, y - CELL / 2)
        shade = COLOURS[0], float(np.clip(weight, 0, 1))
        ax.add_patch(Rectangle(corner, CELL, CELL, facecolor=shade, **frame))
        ax.text(i, y, name, ha="center", va="center", fontsize=9, color="white" if weight > 0.6 else "black")


def arrow(ax: "Axes", start: int, end: int, name: str, height: float) -> None:
    """An angular arrow over the boxes from one token to another, named at its top."""
    low, high = CELL / 2, CELL / 2 + height
    ax.plot([start, start, end], [low, high, high], color="black", lw=1.1)
    ax.annotate("", (end, low), (end, high), arrowprops=LEADER)
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # another arrow may pass there
    ax.text((start + end) / 2, high + 0.15, name, ha="center", fontsize=8, bbox=behind)


def frame(ax: "Axes", length: int, height: tuple[float, float], left: float = -1.0, right: float = 0.0) -> None:
    ax.set_xlim(left, length + right)
    ax.set_ylim(*height)
    ax.set_aspect("equal")
    ax.axis("off")
