"""Figure 6: one layer, one head, all vocabularies together."""

from typing import TYPE_CHECKING, ClassVar

from softmaxlab.papers.polarization.classification_figures import FlipRuns, Panel

if TYPE_CHECKING:
    pass


class Fig06(FlipRuns):
    """One layer, one head, all vocabularies together."""

    id: ClassVar[str] = "polarization/fig06"
    title: ClassVar[str] = "One swapped token flips the class: one layer, one head"
    place: ClassVar[str] = "Figure 6"
    reports: ClassVar[str] = "The softmax model's predictions can be easily reversed"

    def panels(self) -> list[tuple[str, Panel]]:
        return [("MLP, LayerNorm", {"layers": 1, "heads": 1, "mlp": True, "layernorm": True})]
