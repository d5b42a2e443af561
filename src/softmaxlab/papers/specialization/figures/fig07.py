"""Figure 7: the loss when heads are removed one by one, for three maps and every reading of "we rescale the output".

The paper's text says that Bayes-softmax loses nothing as long as one head per feature is left. That depends on the rule
(specialization/pruning.py): dividing by the number of heads kept gives .95 after four removals, renormalising .151.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from softmaxlab.core.result import Result
from softmaxlab.core.simulate import simulate
from softmaxlab.papers.figure import FigureSpec
from softmaxlab.papers.gather import status_of
from softmaxlab.papers.specialization.head_paths import kinds_of
from softmaxlab.plotting.lines import label
from softmaxlab.plotting.map_styles import BAYES, CALLED, LOOK, MapName
from softmaxlab.specialization import Flow, OneHotSpikes, OrderParameters, Pruning, SingleLocation, flow_many

if TYPE_CHECKING:
    import matplotlib.figure

# the rules that differ: softmax's weights sum to one whatever is removed, and only Bayes-softmax mixes its heads
CASES: tuple[tuple[MapName, tuple[str, ...]], ...] = (
    ("softmax", ("count",)),
    ("softmax1", ("count", "total")),
    ("bayes_softmax", ("count", "renormalise", "total")),
)
RULES: dict[str, tuple[str, str]] = {
    "count": ("-", "o"),
    "renormalise": ("--", "s"),
    "total": (":", "^"),
}  # line and mark
LIMIT = 1.1  # of the loss axis: above it an answer is worse than none


class Fig07(FigureSpec):
    """Greedy pruning of `runs` trained models of `heads` heads per map, under each rule that matters to it."""

    id: ClassVar[str] = "specialization/fig07"
    title: ClassVar[str] = "Loss as heads are removed one by one, for three maps and every rescaling rule"
    source: ClassVar[str] = "sagitova2026specialization"
    place: ClassVar[str] = "Figure 7"
    reports: ClassVar[str] = (
        "About H − F heads can be removed without a significant loss; then softmax-1 and Bayes-softmax degrade most"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {"runs": 1, "tau_end": 3000.0, "tau_end_softmax1": 1e4, "judged": 2**10},
        "paper": {"runs": 5, "tau_end": 3000.0, "tau_end_softmax1": 1e4},
    }
    cost: ClassVar[dict[str, str]] = {"quick": "10 s", "paper": "about 60 s"}

    heads: Annotated[int, Field(ge=2, le=32)] = 8
    F: Annotated[int, Field(ge=1, le=64)] = 4
    nu: Annotated[float, Field(gt=0)] = 10.0
    length: Annotated[int, Field(ge=2, le=100)] = 5
    runs: Annotated[int, Field(ge=1, le=100)] = 3
    tau_end: Annotated[float, Field(gt=0)] = 1000.0
    tau_end_softmax1: Annotated[float, Field(gt=0)] = 3000.0
    samples: Annotated[int, Field(ge=2**6, le=2**18)] = 2**12
    judged: Annotated[int, Field(ge=2**6, le=2**18)] = 2**12  # base points for losses of pruned models

    def _run(self, device: str) -> Result:
        specs = [self.flow(map, run) for map, _ in CASES for run in range(self.runs)]
        flows = flow_many(specs)
        losses, errors, names = [], [], []
        for i, (map, rules) in enumerate(CASES):
            chosen = slice(i * self.runs, (i + 1) * self.runs)
            for rule in rules:
                names.append((map, rule))
                pairs = zip(specs[chosen], flows[chosen])
                prunings = (Pruning(s.model, OrderParameters.at(f), rule, self.judged, s.seed) for s, f in pairs)  # type: ignore
                pruned = [simulate(pruning) for pruning in prunings]
                losses.append([each["loss"] for each in pruned])
                errors.append([each["loss_error"] for each in pruned])
        risk, _ = specs[0].model.bayes_risk()
        arrays = {
            "map": [map for map, _ in names],
            "rule": [rule for _, rule in names],
            "pruned": np.arange(self.heads),
            "loss": losses,
            "loss_error": errors,
            "certificate": kinds_of(flows).reshape(len(CASES), self.runs),
            "bayes": risk,
            "tau_end": (self.tau_end, self.tau_end_softmax1),
        }
        axes = {"map": ("case",), "rule": ("case",), "pruned": ("pruned",), "loss": ("case", "run", "pruned")}
        axes |= {"tau_end": ("time",), "loss_error": axes["loss"], "certificate": ("trained_map", "run")}
        return Result(arrays, axes, status_of(flows, [f"{s.model.map}, run {s.seed}" for s in specs]))

    def flow(self, map: MapName, run: int) -> Flow:
        prior = OneHotSpikes(F=self.F, nu=self.nu)
        model = SingleLocation(prior=prior, length=self.length, heads=self.heads, map=map)
        tau = self.tau_end_softmax1 if map == "softmax1" else self.tau_end
        return Flow(model=model, tau_end=tau, seed=run, samples=self.samples, points=3)

    @staticmethod
    def draw(result: Result) -> "matplotlib.figure.Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11.5, 4.0), layout="constrained")
        axes = figure.subplots(1, len(CASES), sharey=True)
        pruned = result["pruned"]
        for map, rule, loss, error in zip(*(result[name] for name in ("map", "rule", "loss", "loss_error"))):
            ax, (line, mark) = axes[[name for name, _ in CASES].index(str(map))], RULES[str(rule)]
            mean = loss.mean(axis=0)
            spread = loss.std(axis=0, ddof=1) if len(loss) > 1 else 2 * error[0]
            look = {"color": LOOK[str(map)]["color"], "ls": line, "marker": mark, "ms": 5}
            ax.errorbar(pruned, mean, spread, **look, lw=1.4, capsize=2, label=f"rule: {rule}")
        for ax, (map, rules), kinds in zip(axes, CASES, result["certificate"]):
            ax.axhline(float(result["bayes"]), **BAYES)
            ax.set_ylim(0, LIMIT)
            note = "all rules agree" if len(rules) == 1 else f"{len(rules)} rules differ"
            moving = [str(kind) for kind in kinds if kind != "minimum"]
            rest = f"not at rest: {', '.join(moving)}" if moving else "at rest"
            label(ax, "heads removed", "loss", f"{CALLED[map]}: {note}\n({rest})")
            ax.legend(fontsize=8, frameon=False, loc="upper left")
        runs, H = result["loss"].shape[1], len(pruned)
        end, end_softmax1 = result["tau_end"]
        trained = f"flow to τ = {end:g}, softmax-1 to {end_softmax1:g}, {runs} run{'s' * (runs > 1)}"
        bars = "bars: standard deviation of runs" if runs > 1 else "bars: two standard errors"
        note = f"one-hot spikes, H = {H}; {trained}; {bars}; losses above {LIMIT} not shown"
        figure.suptitle(f"{Fig07.title}\n({note})", fontsize=11)
        return figure
