"""Figure 9: two samples of a trained classifier before and after their most attended tokens are swapped."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.polarization.token_panels import draw_tokens, frame
from softmaxlab.training import Classification, Run

if TYPE_CHECKING:
    import matplotlib.figure


class Fig09(FigureSpec):
    """Two samples of a trained classifier before and after their most attended tokens are swapped."""

    id: ClassVar[str] = "polarization/fig09"
    title: ClassVar[str] = "The classification task and the token swap"
    source: ClassVar[str] = "varre2026polarization"
    place: ClassVar[str] = "Figure 9"
    reports: ClassVar[str] = "Swapping the most attended tokens of two samples swaps the predictions"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"quick": {"epochs": 3}, "paper": {}}
    cost: ClassVar[dict[str, str]] = {"quick": "3 s", "paper": "6 s"}
    # 3 epochs in place of 10
    quick_within: ClassVar[dict[str, float]] = {"least weight of a token that is swapped": 0.2}

    vocab: Annotated[int, Field(ge=41, le=10**6)] = 41
    epochs: Annotated[int, Field(ge=1, le=1000)] = 10
    seed: Seed = 0

    def _run(self, device: str) -> Result:
        from softmaxlab.training.deduplicate import LAST
        from softmaxlab.training.evaluate import patterns, predictions
        from softmaxlab.training.run import train

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
    def summarize(result: Result) -> dict[str, float]:
        before, after = result["prediction"]
        swapped = [result["weights"][0, i, place] for i, place in enumerate(result["swapped"])]
        return {
            "the predictions are swapped": float(before.tolist() == after[::-1].tolist() and before[0] != before[1]),
            "least weight of a token that is swapped": float(min(swapped)),
        }

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
