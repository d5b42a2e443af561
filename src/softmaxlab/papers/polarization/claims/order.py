"""Theorem 3.2 and its assumption: the order of tokens is kept, and they repel each other.

u = Vᵀβ*, s = σ(a), and Φ_ij = (u_i − u_j)(e^{−a_j} − e^{−a_i}) is the potential of the paper's proof.
"""

from dataclasses import dataclass

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.papers.claim import Claim, Finding, Verdict
from softmaxlab.papers.polarization.instances import Family, finished, gaps, runs
from softmaxlab.papers.polarization.problems import classification
from softmaxlab.polarization import Flow

PAPER = "varre2026polarization"
STRICT = "strict sign at 99 times a run; the solver's error is below 1e-7 of a gap, 1e-4 of its change between times"
# a change of a score gap, up to 30, by less than this is within the solver's error
SOLVER_STEP = 1e-8
WINS = 0.9  # of the weight: at t = 1e12 the winner has .99
OPPOSED = Family(sizes=(3,), seeds=1, opposed=0.1)
OPPOSED_IS = "an a(0) in the opposite order of u(0), against Assumption 3.1"


def order_is_kept(family: Family) -> Finding:
    """u_i > u_j and s_i > s_j for i < j and t > 0."""
    kept = [(gaps(run["u"]) > 0).all() and (gaps(run["a"])[1:] > 0).all() for run in runs(family)]
    least = min(min(gaps(run["u"]).min(), gaps(run["a"])[1:].min()) for run in runs(family))
    verdict = Verdict.HOLDS if all(kept) else Verdict.FAILS
    return Finding(verdict, f"{sum(kept)} of {len(kept)} problems keep both orders to t = 1e12; least gap {least:.1e}")


def values_repel(family: Family) -> Finding:
    """u_i − u_j grows for i < j, and so shrinks for i > j."""
    growing = [(np.diff(gaps(run["u"]), axis=0) > 0).all() for run in runs(family)]
    verdict = Verdict.CONDITION if all(growing) else Verdict.FAILS
    text = f"for i < j every gap grows in {sum(growing)} of {len(growing)} problems; printed for i ≠ j, false for i > j"
    return Finding(verdict, text)


def potential_grows(family: Family) -> Finding:
    growing = []
    for run in runs(family):
        potential = gaps(run["u"]) * -gaps(np.exp(-run["a"]))
        growing.append((np.diff(potential, axis=0) > 0).all())
    verdict = Verdict.HOLDS if all(growing) else Verdict.FAILS
    return Finding(verdict, f"every Φ_ij grows at every step in {sum(growing)} of {len(growing)} problems")


def scores_repel(family: Family) -> Finding:
    """Gaps of a and of s: to the winner, and between two that do not win."""
    to_winner, between = [], []
    for run in runs(family):
        p = run["a"].shape[-1]
        steps = np.concatenate([np.diff(gaps(run[name])[1:], axis=0) for name in ("a", "weights")])
        steps = np.where(np.abs(steps) < SOLVER_STEP, 0.0, steps)
        wins = np.triu_indices(p, 1)[0] == 0
        to_winner.append((steps[:, wins] >= 0).all())
        between.append((steps[:, ~wins] >= 0).all())
    n = len(between)
    if all(to_winner) and all(between):
        return Finding(Verdict.HOLDS, f"all gaps of a and s grow in {n} of {n} problems")
    text = (
        f"a gap of a or s between two non-winners shrinks in {n - sum(between)} of {n} problems; "
        f"those to the winner never shrink in {sum(to_winner)} of {n}"
    )
    return Finding(Verdict.FAILS, text)


@dataclass(frozen=True)
class Start:
    """Figure 2's problem with p = 8, over some seeds; `spread` is the size of the random a(0)."""

    spread: float
    seeds: int
    map: str = "softmax"


def winner_is_largest_start(start: Start) -> Finding:
    """Whether argmax u(0) wins, from a(0) = 0 and from random a(0)."""
    n = start.seeds
    equal, random = (_right_winners(start, spread) for spread in (0.0, start.spread))
    text = f"argmax u(0) wins from a(0) = 0 in {equal} of {n} seeds, from a(0) ~ {start.spread:g}·N in {random}"
    if equal < n:
        return Finding(Verdict.FAILS, text)
    return Finding(Verdict.HOLDS if random == n else Verdict.CONDITION, text)


def _right_winners(start: Start, spread: float) -> int:
    right = 0
    for seed in range(start.seeds):
        fields = classification(8, seed)
        fields["a"] = spread * generator(seed, "claims/a").standard_normal(8)
        run = finished(Flow(**fields, map=start.map, t_end=1e12, points=2, rtol=1e-6))
        right += bool(run["weights"][-1, 0] > WINS)
    return right


CLAIMS = (
    Claim(
        id="polarization/thm3.2a-order",
        source=PAPER,
        place="Theorem 3.2a",
        statement="Under Assumption 3.1, u_0 > u_1 > … and s_0 > s_1 > … for all t > 0",
        tolerance=STRICT,
        judge=order_is_kept,
        subject=Family(),
        control=OPPOSED,
        control_is=OPPOSED_IS,
        figures=("polarization/fig02", "polarization/optimizers", "polarization/unaligned"),
    ),
    Claim(
        id="polarization/thm3.2b-repulsion",
        source=PAPER,
        place="Theorem 3.2b",
        statement="For any i ≠ j the gap u_i − u_j grows over time",
        tolerance=STRICT,
        judge=values_repel,
        subject=Family(),
        control=OPPOSED,
        control_is=OPPOSED_IS,
        expected=Verdict.CONDITION,
        proof="The gap of (i, j) is minus that of (j, i): where one grows the other shrinks (erratum 4).",
        condition="i < j, in the order of u(0)",
        why="The gap of (i, j) is minus that of (j, i): where one grows the other shrinks.",
        erratum=("polarization/4",),
        figures=("polarization/optimizers", "polarization/unaligned"),
    ),
    Claim(
        id="polarization/thm3.2-potential",
        source=PAPER,
        place="Theorem 3.2, proof",
        statement="The potential Φ_ij = −(e^{−a_i} − e^{−a_j})(u_i − u_j) grows",
        tolerance=STRICT,
        judge=potential_grows,
        subject=Family(),
        control=Family(map="sigmoid", sizes=(3,), seeds=1),
        control_is="elementwise sigmoid",
        figures=("polarization/optimizers", "polarization/unaligned"),
    ),
    Claim(
        id="polarization/thm3.2-score-repulsion",
        source=PAPER,
        place="Theorem 3.2, end of the proof",
        statement="Gaps of a and s grow as those of u do (“a similar argument holds for a_i and s_i”)",
        tolerance=f"a change below {SOLVER_STEP:g} does not count: the solver's error",
        judge=scores_repel,
        subject=Family(),
        control=Family(sizes=(2,)),
        control_is="p = 2, where every gap is one to the winner",
        expected=Verdict.FAILS,
        proof="For p > 2 two tokens that do not win have equal weights at t = 0, different ones for t > 0 "
        "(Theorem 3.2a), and both tend to 0 (Theorem 3.3): their gap shrinks again (erratum 5).",
        why="Only gaps to the winner grow: tokens that lose become equal again.",
        erratum=("polarization/5",),
        figures=("polarization/optimizers", "polarization/unaligned"),
    ),
    Claim(
        id="polarization/asm3.1-start",
        source=PAPER,
        place="Assumption 3.1",
        statement="Assumption 3.1, with a(0) = 0, is mild",
        tolerance=f"the token with the largest u(0) wins in every seed, with weight > {WINS:g} at t = 1e12",
        judge=winner_is_largest_start,
        subject=Start(spread=0.1, seeds=60),
        control=Start(spread=0.1, seeds=3, map="uniform"),
        control_is="uniform attention, which cannot move",
        expected=Verdict.CONDITION,
        proof="Two tokens: (u_0 − u_1)² − 4b sinh²((a_0 − a_1)/2) is conserved (claim "
        "polarization/invariants), so that from u_0 > u_1 token 1 wins if a_1 − a_0 is so large that it "
        "is negative.",
        condition="the scores start equal, a(0) = 0; otherwise their differences are small beside those of u(0)",
        why="Start values of the scores decide too: (u_0 − u_1)² − 4b sinh²((a_0 − a_1)/2) is conserved for two "
        "tokens, and where it is negative the larger score wins.",
        erratum=("polarization/25",),
    ),
)
