"""Figure 7: how many heads can be pruned, under which rule, and what happens beyond.

The paper names two priors: one-hot spikes (its "flipping spike distribution over F spikes") and an isotropic Gaussian.
"""

from dataclasses import dataclass

import numpy as np

from softmaxlab.papers.claim import Claim, Finding, Verdict
from softmaxlab.papers.specialization.claim_flows import MAPS, MORE, ONE_RUN, PAPER, PRINTED, TRAINED, Effort, finished
from softmaxlab.specialization import Gaussian, OneHotSpikes, OrderParameters, Prior, Pruning, SingleLocation

PRUNABLE = 0.1  # relative rise of the loss that counts as significant
JUDGED = 2**9  # base points of the loss of pruned heads, at most
HEADS, NEEDED = 8, 4  # H and F
ONE_HOT = OneHotSpikes(F=NEEDED, nu=10.0)
ISOTROPIC = Gaussian(F=NEEDED, nu=(10.0, 10.0))
UNTRAINED = Effort(2**10, 0.01, (0,))
FIVE_RUNS = Effort(2**10, TRAINED, (0, 1, 2, 3, 4))
FIVE_MORE = Effort(2**12, 4 * TRAINED, (5, 6, 7, 8, 9))
FIVE_UNTRAINED = Effort(2**10, 0.01, (0, 1, 2, 3, 4))
LONGER = 10.0  # times as long for softmax-1, which has not come to rest by τ = 3000
ONE_NEEDED_HEAD = NEEDED + 1  # pruned of HEADS: the first that is needed is gone


@dataclass(frozen=True)
class Pruned:
    """Eight heads, trained on a prior of four features; softmax-1 is trained `LONGER` times as long."""

    effort: Effort
    maps: tuple[str, ...] = ("softmax", "bayes_softmax", "softmax1")
    prior: Prior = ONE_HOT

    def losses(self, map: str, rule: str) -> np.ndarray:
        """The loss after removing 0, 1, … heads, [run, pruned]."""
        model = SingleLocation(prior=self.prior, length=5, heads=HEADS, map=map)
        tau_end = self.effort.tau_end * (LONGER if map == "softmax1" else 1.0)
        orders = [OrderParameters.at(run) for run in self.effort.flows(model, tau_end)]
        count = min(self.effort.samples, JUDGED)
        specs = [Pruning(model=model, order=order, rule=rule, samples=count) for order in orders]  # type: ignore[arg-type]
        return np.array([finished(spec)["loss"] for spec in specs])


def heads_can_be_pruned(pruned: Pruned) -> Finding:
    """Count how many of eight heads can go before the mean loss rises by a tenth, F = 4: rule `renormalise`."""
    prunable = {}
    for map in pruned.maps:
        loss = pruned.losses(map, "renormalise").mean(axis=0)
        prunable[map] = (int(np.argmax(loss > (1 + PRUNABLE) * loss[0])) - 1, loss)
    shown = "; ".join(f"{map} {n} ({_listed(loss)})" for map, (n, loss) in prunable.items())
    text = f"before a rise of {PRUNABLE:.0%}: {shown}; H − F = {HEADS - NEEDED}"
    fits = [abs(n - (HEADS - NEEDED)) <= 1 for n, _ in prunable.values()]
    return Finding(Verdict.HOLDS if all(fits) else Verdict.CONDITION if any(fits) else Verdict.FAILS, text)


def rescaling_does_not_matter(pruned: Pruned) -> Finding:
    """The mean loss after removing H − F = 4 of 8 heads under the three readings of the paper's rule."""
    (map,) = pruned.maps
    rules = ("count", "renormalise", "total")
    after = {rule: pruned.losses(map, rule).mean(axis=0)[[0, HEADS - NEEDED]] for rule in rules}
    rises = [loss[1] / loss[0] - 1 for loss in after.values()]
    shown = ", ".join(f"{loss[1]:.3f} ({rule})" for rule, loss in after.items())
    text = f"{map}: loss {after['count'][0]:.3f}, after {HEADS - NEEDED} removals {shown}"
    fits = [rise <= PRUNABLE for rise in rises]
    return Finding(Verdict.HOLDS if all(fits) else Verdict.CONDITION if any(fits) else Verdict.FAILS, text)


def needed_heads_cost_more(pruned: Pruned) -> Finding:
    """The rise of the loss, and its standard deviation over runs, once heads that are needed go too, of each map."""
    rise, spread = {}, {}
    for map in MAPS:
        loss = pruned.losses(map, "renormalise")
        rise[map] = (loss - loss[:, :1]).mean(axis=0)[ONE_NEEDED_HEAD:]
        spread[map] = loss.std(axis=0, ddof=1)[ONE_NEEDED_HEAD:]
    text = "; ".join(f"{map} rises by {_listed(rise[map])}, deviations {_listed(spread[map])}" for map in MAPS)
    fits = [all((of[map] > of["softmax"]).all() for of in (rise, spread)) for map in MAPS if map != "softmax"]
    verdict = Verdict.HOLDS if all(fits) else Verdict.CONDITION if any(fits) else Verdict.FAILS
    removed = ", ".join(f"{n}" for n in range(ONE_NEEDED_HEAD, HEADS))
    return Finding(verdict, f"after {removed} removals {text}")


def _listed(loss: np.ndarray) -> str:
    return ", ".join(f"{x:.3f}" for x in loss)


CLAIMS = (
    Claim(
        id="specialization/fig7-pruning",
        source=PAPER,
        place="Section IV, Figure 7",
        statement="About H − F heads can be pruned without a significant loss",
        tolerance=f"one head, for all three maps and the rule renormalise; significant is a rise of {PRUNABLE:.0%} "
        "(at 25 % softmax could do without 6)",
        judge=heads_can_be_pruned,
        subject=Pruned(ONE_RUN),
        control=Pruned(UNTRAINED, ("softmax", "bayes_softmax")),
        control_is="heads that are not trained",
        expected=Verdict.CONDITION,
        evidence=ONE_RUN.evidence("own"),
        refined=Pruned(MORE),
        refined_evidence=MORE.evidence("refined"),
        protocol=Pruned(PRINTED),
        protocol_evidence=PRINTED.evidence("paper protocol"),
        remark="The condition is the map: softmax and Bayes-softmax can do without four heads, softmax-1 without one.",
        condition="the map is softmax or Bayes-softmax",
        why="For softmax-1 the loss rises when one head is removed.",
        erratum=("specialization/26",),
        figures=("specialization/fig07",),
    ),
    Claim(
        id="specialization/fig7-gaussian",
        source=PAPER,
        place="Section IV",
        statement="On an isotropic Gaussian, too, about H − F heads can be pruned without a significant loss",
        tolerance=f"one head; significant is a rise of {PRUNABLE:.0%}",
        judge=heads_can_be_pruned,
        subject=Pruned(ONE_RUN, prior=ISOTROPIC),
        control=Pruned(ONE_RUN, ("softmax", "bayes_softmax")),
        control_is="one-hot spikes with softmax and Bayes-softmax, where it is so",
        expected=Verdict.CONDITION,
        evidence=ONE_RUN.evidence("own"),
        refined=Pruned(MORE, prior=ISOTROPIC),
        refined_evidence=MORE.evidence("refined"),
        protocol=Pruned(PRINTED, prior=ISOTROPIC),
        protocol_evidence=PRINTED.evidence("paper protocol"),
        remark="The condition is the map: it is so for softmax alone. Bayes-softmax needs all but one of its heads, "
        "and softmax-1 all of them.",
        condition="the map is softmax",
        why="Bayes-softmax needs all heads but one there, and softmax-1 all of them.",
        figures=("specialization/fig07",),
    ),
    Claim(
        id="specialization/fig7-needed",
        source=PAPER,
        place="Section IV, Figure 7",
        statement="With more than H − F heads pruned softmax-1 and Bayes-softmax degrade more than softmax, and with a "
        "larger variance over runs",
        tolerance="mean rise and deviation of five runs, after 5, 6 and 7 removals; with condition: one of the two "
        "maps",
        judge=needed_heads_cost_more,
        subject=Pruned(FIVE_RUNS),
        control=Pruned(FIVE_UNTRAINED),
        control_is="heads that are not trained",
        expected=Verdict.UNDECIDED,
        remark="So it is for softmax-1. Bayes-softmax degrades more too, but its runs differ less than those of "
        "softmax.",
        evidence=FIVE_RUNS.evidence("own"),
        refined=Pruned(FIVE_MORE),
        refined_evidence=FIVE_MORE.evidence("refined"),
        figures=("specialization/fig07",),
    ),
    Claim(
        id="specialization/fig7-rule",
        source=PAPER,
        place="Section IV, Figure 7",
        statement="Pruned outputs are “uniformly rescaled to keep constant the amplitude of the attention scores”",
        tolerance=f"a rise of {PRUNABLE:.0%} after H − F removals contradicts the figure's text",
        judge=rescaling_does_not_matter,
        subject=Pruned(ONE_RUN, ("bayes_softmax",)),
        control=Pruned(ONE_RUN, ("softmax",)),
        control_is="softmax, for which the three readings agree",
        evidence=ONE_RUN.evidence("own"),
        refined=Pruned(MORE, ("bayes_softmax",)),
        refined_evidence=MORE.evidence("refined"),
        protocol=Pruned(PRINTED, ("bayes_softmax",)),
        protocol_evidence=PRINTED.evidence("paper protocol"),
        expected=Verdict.CONDITION,
        condition="the outputs are rescaled by the weights that heads keep, not by their number",
        why="With the mean over the heads that are kept Bayes-softmax loses what it had learnt.",
        erratum=("specialization/26",),
        figures=("specialization/fig07",),
    ),
)
