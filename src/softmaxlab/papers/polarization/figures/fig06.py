"""Figure 6: flip rates with one layer and one head, a panel for each vocabulary.

The text does not say which vocabulary the figure is of, and the authors' notebook draws one at a time. The claim is
read at READ_AT, that of Figure 5, of which it is the test.
"""

from typing import TYPE_CHECKING, ClassVar

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.classification_figures import EASY, READ_AT, FlipRuns, Panel

if TYPE_CHECKING:
    import matplotlib.figure


class Fig06(FlipRuns):
    """One layer, one head, a panel for each vocabulary, with the rate from which the claim calls a flip easy."""

    id: ClassVar[str] = "polarization/fig06"
    title: ClassVar[str] = "One swapped token flips the class: one layer, one head"
    place: ClassVar[str] = "Figure 6"
    reports: ClassVar[str] = "The softmax model's predictions can be easily reversed"

    def panels(self) -> list[tuple[str, Panel]]:
        one = {"layers": 1, "heads": 1, "mlp": True, "layernorm": True}
        return [(f"vocabulary {vocab}", {**one, "task__vocab": vocab}) for vocab in self.vocabs]

    @classmethod
    def draw(cls, result: Result) -> "matplotlib.figure.Figure":
        picture = super().draw(result)
        for name, ax in zip(result["panel"], picture.axes):
            if name == f"vocabulary {READ_AT}":
                line = ax.axhline(EASY, color="0.3", lw=0.8, ls="--", label=f"{EASY:g}: the claim is judged here")
                ax.legend(handles=[line], fontsize=7, loc="upper right")
        return picture
