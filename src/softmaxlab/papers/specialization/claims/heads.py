"""Sections III.1 and III.2: in which order heads learn features, and which combinations of them.

s_f are the eigenvectors of Cov θ, ν_f their variances, the largest first; heads are seen in their basis.
"""

from dataclasses import dataclass

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.claim import Claim, Finding, Verdict, within
from softmaxlab.papers.specialization.claim_flows import PAPER, Effort, finished
from softmaxlab.papers.specialization.head_paths import PART, sign_patterns
from softmaxlab.specialization import Discrete, FlippingSpike, Flow, Gaussian, OrderParameters, Prior, SingleLocation

FIG4 = SingleLocation(prior=Gaussian(F=3, nu=(20.0, 1.0)), length=5, heads=8)
UNEVEN = Gaussian(F=2, nu=(8.0, 2.0))
CROSS = Discrete(points=np.sqrt(8.0) * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
SEEDS = 3
PAIRED_FROM = 100.0  # a τ from which heads are longer than their noise
OWN = Effort(samples=2**12, tau_end=3000.0)
OWN_MORE = Effort(samples=2**14, tau_end=12_000.0, seeds=(3, 4, 5))
ORDERED = Effort(samples=2**10, tau_end=300.0)
ORDERED_LONG = Effort(samples=2**13, tau_end=1200.0, seeds=(3, 4, 5, 6))
PAIRING = Effort(samples=2**10, tau_end=3000.0)
PAIRING_LONG = Effort(samples=2**12, tau_end=12_000.0, seeds=(3, 4, 5, 6))
LONG = Effort(samples=2**15, tau_end=4e4, seeds=(3, 4, 5))
LATE = 5000.0  # a τ at which slow heads have moved
LEARNT = 0.1  # mean |m_hf|: ten times the noise of the start
LATER = 1.2  # a feature comes after another if it takes that much longer
TOGETHER = 1.5  # times longer, at most: the start's noise differs as much between directions, over eight heads
ALIGNED = 0.95  # |cos| of the first direction learnt and s_1, when the noise of the start is still a tenth of it
OPPOSITE = 0.95  # |cos| of two heads, or of a head and s_f
STARTS = {6: 1, 5: 3}  # starts with so many of eight heads on one side
ANGLE = 0.5  # between s_1 and the first axis


def rotation() -> np.ndarray:
    """s_1, s_2 as columns."""
    c, s = np.cos(ANGLE), np.sin(ANGLE)
    return np.array([[c, -s], [s, c]])


@dataclass(frozen=True)
class Trained:
    """A model, and the effort with which it is trained."""

    model: SingleLocation
    effort: Effort

    def flows(self) -> list[Result]:
        return self.effort.flows(self.model)


@dataclass(frozen=True)
class Rested(Effort):
    """Flows that are followed until they are certified to be at rest."""

    def flows(self, model: SingleLocation, tau_end: float | None = None) -> list[Result]:
        ends = {"tau_end": tau_end or self.tau_end, "samples": self.samples, "points": 2}
        return [finished(Flow(model=model, seed=seed, until="rest", **ends)) for seed in self.seeds]


AT_REST = Rested(samples=2**14, tau_end=1e4, seeds=(0, 1, 2, 3, 4))


def three_features(*nu: float) -> SingleLocation:
    return SingleLocation(prior=Gaussian(F=3, nu=(nu[0], nu[1])), length=5, heads=8)


def two_features(*nu: float) -> SingleLocation:
    """Figure 3's model with eight heads."""
    return SingleLocation(prior=Gaussian(F=2, nu=(nu[0], nu[1])), length=4, heads=8)


def learnt_in_order_of_variance(trained: Trained) -> Finding:
    """Judge when mean_h |m_hf| exceeds 0.1 for three features, H = 8, L = 5, over seeds.

    Figure 4's third feature, Var θ = 1, comes late, and with few samples along their noise: it needs 2^15 base points.
    """
    runs = trained.flows()
    times = np.array([_times(run, np.eye(3)) for run in runs])
    ratio = float((times[:, 1:] / times[:, :-1]).min())
    shown = "; ".join(", ".join(f"{t:.0f}" for t in row) for row in times)
    last = ", ".join(f"{float(np.abs(run['m'][-1, :, 2]).mean()):.2f}" for run in runs)
    variances = ", ".join(f"{x:g}" for x in np.diag(trained.model.prior.moments()[1]))
    text = f"Var θ = {variances}: learnt at τ = {shown}; mean |m_h3| = {last} at τ = {trained.effort.tau_end:g}"
    return Finding(Verdict.HOLDS if ratio >= LATER else Verdict.FAILS, text)


def equal_features_are_learnt_together(trained: Trained) -> Finding:
    """Judge when mean_h |m_hf| exceeds 0.1 for each of two features, over seeds."""
    times = np.array([_times(run, np.eye(trained.model.features)) for run in trained.flows()])
    ratio = float((times.max(axis=1) / times.min(axis=1)).max())
    shown = "; ".join(", ".join(f"{t:.0f}" for t in row) for row in times)
    variances = ", ".join(f"{x:g}" for x in np.diag(trained.model.prior.moments()[1]))
    return within(ratio, TOGETHER, f"Var θ = {variances}: learnt at τ = {shown}; at most {ratio:.2f} times longer")


def pca_of_theta(variances: tuple[float, float]) -> Finding:
    """Judge when the heads learn s_1 and s_2 of a rotated covariance, and along which direction they first split."""
    R = rotation()
    prior = Gaussian(covariance=R @ np.diag(variances) @ R.T)
    model = SingleLocation(prior=prior, length=4, heads=4)
    runs = [_run(model, 300.0, seed) for seed in range(SEEDS)]
    times = np.array([_times(run, R) for run in runs])
    first = [run["m"][int(np.searchsorted(run["tau"], t.min()))] for run, t in zip(runs, times)]
    cosines = [abs(float(np.linalg.svd(m)[2][0] @ R[:, 0])) for m in first]
    shown = "; ".join(f"{a:.0f} then {b:.0f}" for a, b in times)
    text = (
        f"eigenvalues {variances}: s_1, s_2 learnt at τ = {shown}; the first split is along s_1 to {min(cosines):.4f}"
    )
    ordered = (times[:, 1] > LATER * times[:, 0]).all()
    return within(ALIGNED / min(cosines) if ordered else np.inf, 1.0, text)


def _run(model: SingleLocation, tau_end: float, seed: int) -> Result:
    times = tuple(np.geomspace(5.0, tau_end, 60))
    return finished(Flow(model=model, tau_end=tau_end, record=times, seed=seed, samples=2**10))


def _times(run: Result, basis: np.ndarray) -> list[float]:
    """Return when each column of the basis is learnt; NaN if never."""
    size = np.abs(run["m"] @ basis).mean(axis=1)
    reached = [np.nonzero(column > LEARNT)[0] for column in size.T]
    return [float(run["tau"][rows[0]]) if len(rows) else float("nan") for rows in reached]


def heads_learn_all_combinations(trained: Trained) -> Finding:
    """Count the sign patterns ±s_1 ± … ± s_F, out of 2^F, that the heads have at the end, H = 2^F, over seeds."""
    model = trained.model
    runs = trained.flows()
    found, wanted = [sign_patterns(run["m"][-1]) for run in runs], 2**model.features
    ends = ", ".join(f"{run['tau'][-1]:g} ({run.notes['certificate']['kind']})" for run in runs)
    text = f"F = {model.features}, H = {model.heads}: {found} of {wanted} combinations at τ = {ends}"
    return Finding(Verdict.HOLDS if min(found) == wanted else Verdict.FAILS, text)


def pairs_learn_one_direction(trained: Trained) -> Finding:
    """Count the learnt heads that have an opposite, at the end and at most, and those that also lie along ±s_f."""
    runs = trained.flows()
    rows = [[_pairs(m) for m in run["m"][run["tau"] >= PAIRED_FROM]] for run in runs]
    learnt, opposite, along = np.array([of_run[-1] for of_run in rows]).T
    share = np.array([[o / n for n, o, _ in of_run] for of_run in rows]).mean(axis=0)
    tau = runs[0]["tau"][runs[0]["tau"] >= PAIRED_FROM]
    text = (
        f"F = {trained.model.features}: of {learnt.tolist()} heads that have learnt at τ = {trained.effort.tau_end:g} "
        f"{opposite.tolist()} have an opposite, {along.tolist()} along ±s_f too; most have one at τ = "
        f"{tau[share.argmax()]:.0f}, {share.max():.2f} of them"
    )
    if 2 * along.sum() > learnt.sum():
        return Finding(Verdict.HOLDS, text)
    return Finding(Verdict.CONDITION if share.max() > 0.5 else Verdict.FAILS, text)


def _pairs(m: np.ndarray) -> tuple[int, int, int]:
    """Count the heads that have learnt, that have an opposite, and that also lie along ±s_f."""
    u = directions(m)
    has = (u @ u.T).min(axis=1) < -OPPOSITE
    return len(u), int(has.sum()), int((has & (np.abs(u).max(axis=1) > OPPOSITE)).sum())


def directions(m: np.ndarray) -> np.ndarray:
    """Unit vectors along the heads that have learnt: those at least half as long as the longest."""
    length = np.linalg.norm(m, axis=1)
    return (m / length[:, None])[length > 0.5 * length.max()]


def misplaced_heads_return(prior: Prior) -> Finding:
    """Eight heads that start 6 to 2, and 5 to 3, on the two sides of s_1: how they are split late.

    With as few as 2^11 base points some stay 5 to 3, in a minimum of those samples that 2^13 do not have.
    """
    ends = {ahead: [split_at_the_end(prior, ahead, seed) for seed in range(runs)] for ahead, runs in STARTS.items()}
    shown = "; ".join(
        f"from {ahead} to {8 - ahead}: " + ", ".join(f"{end} to {8 - end} ({loss:.3f})" for end, loss in of_start)
        for ahead, of_start in ends.items()
    )
    even = [end == 4 for of_start in ends.values() for end, _ in of_start]
    verdict = Verdict.HOLDS if all(even) else Verdict.CONDITION if any(even) else Verdict.FAILS
    return Finding(verdict, f"splits (and losses) at τ = {LATE:g} {shown}")


def split_at_the_end(prior: Prior, ahead: int, seed: int) -> tuple[int, float]:
    """Return how many of eight heads are on the side of s_1 at the end, if `ahead` are at first; and the loss."""
    draw = np.random.default_rng([seed, ahead])
    m = 0.01 * draw.standard_normal((8, 2))
    m[:, 0] += 0.3 * np.where(np.arange(8) < ahead, 1.0, -1.0)
    start = OrderParameters(m=m, r=0.3 * np.eye(8) + 0.01 * draw.standard_normal((8, 8)))
    model = SingleLocation(prior=prior, length=4, heads=8)
    run = finished(Flow(model=model, tau_end=LATE, points=2, start=start, seed=seed, samples=2**13))
    return int((run["m"][-1, :, 0] > 0).sum()), float(run["loss"][-1])


CLAIMS = (
    Claim(
        id="specialization/sequential",
        source=PAPER,
        place="Section III.1",
        statement="Heads learn the features one after the other, from the largest Var θ_f to the smallest",
        tolerance=f"mean |m_hf| > {LEARNT:g}, ten times the start's noise; each at least {LATER:g} times later",
        judge=learnt_in_order_of_variance,
        subject=Trained(three_features(20.0, 8.0), ORDERED),
        control=Trained(three_features(12.0, 12.0), ORDERED),
        control_is="equal variances",
        evidence=ORDERED.evidence("own"),
        refined=Trained(FIG4, LONG),
        refined_evidence=LONG.evidence("refined"),
        erratum=("specialization/23",),
        figures=("specialization/fig03", "specialization/fig04"),
    ),
    Claim(
        id="specialization/equal-strengths",
        source=PAPER,
        place="Section III.1, Figure 3 (right)",
        statement="Two features of the same signal strength are learnt at the same time",
        tolerance=f"neither takes {TOGETHER:g} times longer, which the noise of the start explains",
        judge=equal_features_are_learnt_together,
        subject=Trained(two_features(8.0, 8.0), ORDERED),
        control=Trained(two_features(8.0, 2.0), ORDERED),
        control_is="ν = (8, 2)",
        evidence=ORDERED.evidence("own"),
        refined=Trained(two_features(8.0, 8.0), ORDERED_LONG),
        refined_evidence=ORDERED_LONG.evidence("refined"),
        figures=("specialization/fig03",),
    ),
    Claim(
        id="specialization/pca",
        source=PAPER,
        place="Section III.1",
        statement="With Cov θ not diagonal, heads learn its eigenvectors, from the largest eigenvalue to the smallest",
        tolerance=f"the first split along s_1 to {ALIGNED:g}, s_2 at least {LATER:g} times later",
        judge=pca_of_theta,
        subject=(12.0, 5.0),
        control=(8.0, 8.0),
        control_is="an isotropic covariance, with no first eigenvector",
    ),
    Claim(
        id="specialization/combinations",
        source=PAPER,
        place="Section III.2, Figures 3, 4",
        statement="Softmax heads learn all 2^F combinations ±s_1 ± … ± s_F if H is large enough",
        tolerance=f"distinct sign patterns of heads with every |m_hf| above {PART:g} of the largest; every seed",
        judge=heads_learn_all_combinations,
        subject=Trained(SingleLocation(prior=UNEVEN, length=4, heads=4), OWN),
        control=Trained(SingleLocation(prior=FlippingSpike(nu=(8.0, 2.0)), length=4, heads=4), OWN),
        control_is="the flipping spike, whose constant direction has one sign",
        evidence=OWN.evidence("own"),
        refined=Trained(FIG4, AT_REST),
        refined_evidence=AT_REST.evidence("refined"),
        remark="Figure 4's model seems to rest with 4 to 6 of 8 combinations at τ = 3000, or with 2^12 base points: "
        "both samples and horizon are needed to see all eight.",
        erratum=("specialization/21",),
        figures=("specialization/fig03", "specialization/fig04"),
    ),
    Claim(
        id="specialization/combinations-softmax1",
        source=PAPER,
        place="Section III.2, Figure 17",
        statement="Softmax-1 heads, too, learn all 2^F combinations ±s_1 ± … ± s_F if H is large enough",
        tolerance=f"distinct sign patterns of heads with every |m_hf| above {PART:g} of the largest; every seed",
        judge=heads_learn_all_combinations,
        subject=Trained(SingleLocation(prior=UNEVEN, length=4, heads=4, map="softmax1"), OWN),
        control=Trained(SingleLocation(prior=FlippingSpike(nu=(8.0, 2.0)), length=4, heads=4, map="softmax1"), OWN),
        control_is="the flipping spike, whose constant direction has one sign",
        evidence=OWN.evidence("own"),
        refined=Trained(SingleLocation(prior=UNEVEN, length=4, heads=4, map="softmax1"), OWN_MORE),
        refined_evidence=OWN_MORE.evidence("refined"),
        figures=("specialization/fig17",),
    ),
    Claim(
        id="specialization/pairs",
        source=PAPER,
        place="Section III.2, Figure 4",
        statement="Each pair of Bayes-softmax heads learns a single direction ±s_f",
        tolerance=f"|cos| > {OPPOSITE:g} with s_f and with an opposite head, for most heads that have "
        "learnt; with condition: most have an opposite at some time",
        judge=pairs_learn_one_direction,
        subject=Trained(FIG4.replace(map="bayes_softmax"), PAIRING),
        control=Trained(SingleLocation(prior=CROSS, length=5, heads=4, map="bayes_softmax"), PAIRING),
        control_is="θ uniform on ±√8 e_1, ±√8 e_2, where it is so",
        expected=Verdict.UNDECIDED,
        evidence=PAIRING.evidence("own"),
        refined=Trained(FIG4.replace(map="bayes_softmax"), PAIRING_LONG),
        refined_evidence=PAIRING_LONG.evidence("refined"),
        remark="Pairs form and dissolve again, and how many there are depends on the start.",
        erratum=("specialization/22",),
        figures=("specialization/fig04",),
    ),
    Claim(
        id="specialization/excursions",
        source=PAPER,
        place="Section III.2, Figure 3",
        statement="Misplaced heads make excursions, so that in the end the split is even",
        tolerance="exactly 4 to 4 in every run",
        judge=misplaced_heads_return,
        subject=UNEVEN,
        control=FlippingSpike(nu=(8.0, 2.0)),
        control_is="the flipping spike, whose constant direction has one sign: nothing makes a split even",
        figures=("specialization/fig03",),
    ),
)
