"""Figure 18: flip rates with and without MLP and LayerNorm, at vocabulary 41."""

from typing import ClassVar

from softmaxlab.papers.polarization.classification_figures import FlipRuns, Panel, Vocabularies

ON = {True: "", False: "no "}


class Fig18(FlipRuns):
    """Panels of mean flip rates: a bar for each map, a dot for each run."""

    id: ClassVar[str] = "polarization/fig18"
    title: ClassVar[str] = "Flip rates at vocabulary 41"
    place: ClassVar[str] = "Figure 18"
    errata: ClassVar[tuple[str, ...]] = ("polarization/23",)
    reports: ClassVar[str] = "Flip rates with and without MLP and LayerNorm"

    vocabs: Vocabularies = (41,)

    def panels(self) -> list[tuple[str, Panel]]:
        one = {"layers": 1, "heads": 1}
        choices = [(mlp, norm) for mlp in (True, False) for norm in (True, False)]
        return [(f"{ON[mlp]}MLP, {ON[norm]}LayerNorm", {**one, "mlp": mlp, "layernorm": norm}) for mlp, norm in choices]
