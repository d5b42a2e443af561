"""Figures 8 and 9: what a sample of the two tasks looks like, drawn from real samples."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.polarization.figures.fig01 import token_names
from softmaxlab.papers.polarization.token_panels import CELL, draw_tokens, frame
from softmaxlab.training import Induction

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes


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
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        task = Induction(vocab=self.vocab)
        data = task.data(self.seed, "evaluate")
        tokens = np.append(data.tokens[0].numpy(), int(data.targets[0, -1]))
        first = int(np.flatnonzero(tokens == tokens[-2] - (self.vocab - 1))[0])
        return Result({"tokens": tokens, "first": first}, {"tokens": ("token",)}, notes={"vocab": self.vocab})

    @staticmethod
    def seen(result: Result) -> str:
        """Say how many tokens are distinct, and whether the answer is what followed the token that comes again."""
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


LEADER = {"arrowstyle": "->", "lw": 0.9}


def arrow(ax: "Axes", start: int, end: int, name: str, height: float) -> None:
    """An angular arrow over the boxes from one token to another, named at its top."""
    low, high = CELL / 2, CELL / 2 + height
    ax.plot([start, start, end], [low, high, high], color="black", lw=1.1)
    ax.annotate("", (end, low), (end, high), arrowprops=LEADER)
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # another arrow may pass there
    ax.text((start + end) / 2, high + 0.15, name, ha="center", fontsize=8, bbox=behind)
