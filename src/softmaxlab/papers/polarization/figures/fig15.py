"""Figure 15: shares of sink heads with λ = 0.2. Its sentence is about pairs of runs that differ in positions alone."""

from typing import ClassVar

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.polarization.induction_figures import InductionRuns
from softmaxlab.papers.polarization.induction_summary import seen_positions
from softmaxlab.papers.polarization.pairs import matched
from softmaxlab.papers.polarization.precision import without_unvalidated
from softmaxlab.papers.polarization.runs import chosen
from softmaxlab.papers.polarization.sink_runs import map_order, of_usual_model, shares_of, solved


class Fig15(InductionRuns):
    """λ = 0.2; beside the bars the shares of sinks in pairs of runs without positions and with either kind of them."""

    id: ClassVar[str] = "polarization/fig15"
    title: ClassVar[str] = "Sink heads of the second layer, λ = 0.2"
    place: ClassVar[str] = "Figure 15"
    reports: ClassVar[str] = "Without explicit positional encodings more sinks form"

    def _run(self, device: str) -> Result:
        result = super()._run(device)
        table, _ = without_unvalidated(self.table())
        runs = solved(chosen(of_usual_model(table), task__aux=self.aux))  # of every length: pairs are of one
        runs = runs.assign(sinks=shares_of(runs, self.score)).dropna(subset=["sinks"])
        runs = runs.loc[runs["map"].isin(map_order(runs, self.beyond))]
        parts = [matched(runs, "positions", "none", explicit) for explicit in ("additive", "concat")]
        pairs = np.concatenate([np.stack([none["sinks"], other["sinks"]], axis=1) for none, other in parts])
        arrays = {**result.arrays, "pair": pairs.astype(float).reshape(-1, 2)}
        return Result(arrays, {**result.axes, "pair": ("pairs", "side")}, result.status, result.notes)

    @staticmethod
    def seen(result: Result) -> str:
        return seen_positions(result)
