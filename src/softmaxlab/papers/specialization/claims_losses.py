"""Figures 5, 7 and 11: losses after training, heads that can be pruned, and how alike two heads are."""

from functools import cache

import numpy as np

from softmaxlab.papers.claim import Claim, Finding, Verdict, within
from softmaxlab.papers.specialization.claims_runs import PAPER, finished, one_hot
from softmaxlab.specialization import FlippingSpike, Flow, OneHotSpikes, Pruning, SingleLocation

CLOSE = 0.1  # relative difference of two losses that a figure would show as one curve
SAME_RUN = 0.01  # a standard deviation over runs that a figure of losses from 0 to 1 does not show
RUNS = 5  # as in Figure 5
PRUNABLE = 0.1  # relative rise of the loss that counts as significant
TRAINED = 1000.0  # τ: within 5 % of the last loss for softmax, 2 % for Bayes-softmax
SETTLED = 7500.0  # τ: softmax-1 may change its minimum as late as 5000
STEADY = 0.02  # by which cos may break monotony: three times its spread over samples
GRID = (1.0, 2.0, 4.0)


def softmax_is_close_to_softmax1(nu: float) -> Finding:
    """Losses after training on the flipping spike, L = 5, H = 4 as in Figure 5 (right)."""
    loss = {}
    for map, tau_end in (("softmax", 1000.0), ("softmax1", 3000.0)):
        model = SingleLocation(prior=FlippingSpike(nu=(nu, nu)), length=5, heads=4, map=map)
        loss[map] = float(finished(Flow(model=model, tau_end=tau_end, points=2, samples=2**10))["loss"][-1])
    apart = loss["softmax"] / loss["softmax1"] - 1
    text = f"ν = {nu:g}: softmax {loss['softmax']:.3f}, softmax-1 {loss['softmax1']:.3f}, {apart:.0%} apart"
    return within(abs(apart), CLOSE, text)


def runs_agree(map: str) -> Finding:
    """The losses of five runs, each with its own start and samples, as in Figure 5: one-hot spikes, H = F = 4."""
    model = SingleLocation(prior=OneHotSpikes(F=4, nu=10.0), length=5, heads=4, map=map)
    settled = SETTLED if map == "softmax1" else TRAINED
    specs = [Flow(model=model, tau_end=settled, points=2, seed=seed, samples=2**11) for seed in range(RUNS)]
    losses = np.array([finished(spec)["loss"][-1] for spec in specs])
    text = f"{map}: {RUNS} runs have losses {_losses(losses)} at τ = {settled:g}, standard deviation {losses.std():.3f}"
    return within(float(losses.std()), SAME_RUN, text)


def heads_can_be_pruned(tau_end: float) -> Finding:
    """How many of H = 8 heads go before the loss rises by a tenth, F = 4: rule `renormalise`."""
    found = {}
    for map in ("softmax", "bayes_softmax"):
        loss = _pruned(map, tau_end, "renormalise")
        found[map] = (int(np.argmax(loss > (1 + PRUNABLE) * loss[0])) - 1, loss)
    shown = "; ".join(f"{map} {n} ({_losses(loss)})" for map, (n, loss) in found.items())
    text = f"before a rise of {PRUNABLE:.0%}: {shown}; H − F = 4"
    return within(max(abs(n - 4) for n, _ in found.values()), 1, text)


def rescaling_does_not_matter(map: str) -> Finding:
    """The loss after removing H − F = 4 of 8 heads under the three readings of the paper's rule."""
    after = {rule: _pruned(map, TRAINED, rule)[[0, 4]] for rule in ("count", "renormalise", "total")}
    rises = [loss[1] / loss[0] - 1 for loss in after.values()]
    shown = ", ".join(f"{loss[1]:.3f} ({rule})" for rule, loss in after.items())
    text = f"{map}: loss {after['count'][0]:.3f}, after 4 removals {shown}"
    fits = [rise <= PRUNABLE for rise in rises]
    return Finding(Verdict.HOLDS if all(fits) else Verdict.CONDITION if any(fits) else Verdict.FAILS, text)


def _pruned(map: str, tau_end: float, rule: str) -> np.ndarray:
    model, order = one_hot(map, 8, tau_end, 0)
    return finished(Pruning(model=model, order=order, rule=rule, samples=2**9))["loss"]  # type: ignore[arg-type]


def _losses(loss: np.ndarray) -> str:
    return ", ".join(f"{x:.3f}" for x in loss)


def specialization_grows_with_the_mean(exchanged: bool) -> Finding:
    """cos of the two heads over (ν1, ν2): as printed, specialization grows with ν1 and falls with ν2."""
    cos = np.array([[_cosine(*((b, a) if exchanged else (a, b))) for b in GRID] for a in GRID])
    similar = (np.diff(cos, axis=0) > -STEADY).all() and (np.diff(cos, axis=1) < STEADY).all() and np.ptp(cos) > STEADY
    special = (np.diff(cos, axis=0) < STEADY).all() and (np.diff(cos, axis=1) > -STEADY).all()
    rows = "; ".join(", ".join(f"{x:.3f}" for x in row) for row in cos)
    text = f"cos(k_1, k_2) for ν1 = 1; 2; 4 and ν2 = 1, 2, 4: {rows}: it is the similarity that grows with ν1"
    if special:
        return Finding(Verdict.HOLDS, text)
    return Finding(Verdict.CONDITION if similar else Verdict.FAILS, text)


@cache
def _cosine(nu1: float, nu2: float) -> float:
    model = SingleLocation(prior=FlippingSpike(nu=(nu1, nu2)), length=4, heads=2)
    q = finished(Flow(model=model, tau_end=1000.0, points=2, samples=2**12))["q"][-1]
    return float(q[0, 1] / np.sqrt(q[0, 0] * q[1, 1]))


CLAIMS = (
    Claim(
        id="specialization/fig5-flipping",
        source=PAPER,
        place="Section IV, Figure 5 (right)",
        statement="On the flipping spike softmax and softmax-1 have close losses for all signal strengths",
        tolerance=f"{CLOSE:.0%}: more would be seen in the figure",
        judge=softmax_is_close_to_softmax1,
        subject=4.0,
        control=0.5,
        control_is="ν = 0.5, a weak signal, where it is so",
        expected=Verdict.FAILS,
    ),
    Claim(
        id="specialization/fig5-bistable",
        source=PAPER,
        place="Figure 5 (left)",
        statement="Five runs of each map end at the same loss: standard deviations are not visible (softmax-1, H = 4)",
        tolerance=f"{SAME_RUN:g}: what a figure of losses from 0 to 1 shows",
        judge=runs_agree,
        subject="softmax1",
        control="bayes_softmax",
        control_is="Bayes-softmax, for which it is so",
        expected=Verdict.FAILS,
    ),
    Claim(
        id="specialization/fig7-pruning",
        source=PAPER,
        place="Section IV, Figure 7",
        statement="About H − F heads can be pruned without a significant loss (rule: renormalise over the kept heads)",
        tolerance=f"one head; significant is a rise of {PRUNABLE:.0%} (at 25 % softmax could do without 6)",
        judge=heads_can_be_pruned,
        subject=TRAINED,
        control=0.01,
        control_is="heads that are not trained",
    ),
    Claim(
        id="specialization/fig7-rule",
        source=PAPER,
        place="Section IV, Figure 7",
        statement="Pruned outputs are “uniformly rescaled to keep constant the amplitude of the attention scores”",
        tolerance=f"a rise of {PRUNABLE:.0%} after H − F removals contradicts the figure's text",
        judge=rescaling_does_not_matter,
        subject="bayes_softmax",
        control="softmax",
        control_is="softmax, for which the three readings agree",
        expected=Verdict.CONDITION,
    ),
    Claim(
        id="specialization/fig11",
        source=PAPER,
        place="Appendix C.2, Figure 11",
        statement="Specialization grows with ν1 and decreases with ν2",
        tolerance=f"{STEADY:g} in cos: three times its spread over samples",
        judge=specialization_grows_with_the_mean,
        subject=False,
        control=True,
        control_is="ν1 and ν2 exchanged",
        expected=Verdict.CONDITION,
    ),
)
