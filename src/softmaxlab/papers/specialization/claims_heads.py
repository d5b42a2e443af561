"""Sections III.1 and III.2: in which order heads learn features, and which combinations of them.

s_f are the eigenvectors of Cov θ, ν_f their variances, the largest first; heads are seen in their basis.
"""

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.papers.claim import Claim, Finding, Verdict, within
from softmaxlab.papers.specialization.claims_runs import PAPER, finished
from softmaxlab.specialization import Discrete, FlippingSpike, Flow, Gaussian, OrderParameters, Prior, SingleLocation

FIG4 = SingleLocation(prior=Gaussian(F=3, nu=(20.0, 1.0)), length=5, heads=8)
UNEVEN = Gaussian(F=2, nu=(8.0, 2.0))
CROSS = Discrete(points=np.sqrt(8.0) * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
SEEDS = 3
LATE = 5000.0  # a τ at which slow heads have moved
RUNS = 4  # of Figure 4, as many as in Figures 19 and 20
LEARNT = 0.1  # mean |m_hf|: ten times the noise of the start
LATER = 1.2  # a feature comes after another if it takes that much longer
ALIGNED = 0.95  # |cos| of the first direction learnt and s_1, when the noise of the start is still a tenth of it
PART = 0.1  # of the largest |m_hf|: less does not count as a head's part in a combination
OPPOSITE = 0.95  # |cos| of two heads, or of a head and s_f
STARTS = {6: 1, 5: 3}  # starts with so many of eight heads on one side
ANGLE = 0.5  # between s_1 and the first axis


def rotation() -> np.ndarray:
    """s_1, s_2 as columns."""
    c, s = np.cos(ANGLE), np.sin(ANGLE)
    return np.array([[c, -s], [s, c]])


def learnt_in_order_of_variance(nu: tuple[float, float]) -> Finding:
    """When mean_h |m_hf| exceeds 0.1 for three features, H = 8, L = 5, over seeds; and how far Figure 4's third comes.

    For Figure 4, Var θ = 20, 10.5, 1: a late time, and more samples, since with few the third follows their noise.
    """
    model = SingleLocation(prior=Gaussian(F=3, nu=nu), length=5, heads=8)
    times = np.array([_times(_run(model, 300.0, seed), np.eye(3)) for seed in range(SEEDS)])
    ratio = float((times[:, 1:] / times[:, :-1]).min())
    shown = "; ".join(", ".join(f"{t:.0f}" for t in row) for row in times)
    text = f"Var θ = {np.diag(model.prior.moments()[1])}: learnt at τ = {shown}"
    if not ratio >= LATER:
        return Finding(Verdict.FAILS, text)
    third = last_feature_of_figure_4()
    text += f"; Figure 4's third feature, Var θ_3 = 1, has mean |m_h3| = {', '.join(f'{x:.2f}' for x in third)}"
    text += f" at τ = {LATE:g} in {RUNS} runs"
    return Finding(Verdict.HOLDS if min(third) > LEARNT else Verdict.CONDITION, text)


def last_feature_of_figure_4() -> list[float]:
    """mean_h |m_h3| at a late time, in each run."""
    specs = [Flow(model=FIG4, tau_end=LATE, points=2, seed=seed, samples=2**12) for seed in range(RUNS)]
    return [float(np.abs(finished(spec)["m"][-1, :, 2]).mean()) for spec in specs]


def pca_of_theta(variances: tuple[float, float]) -> Finding:
    """When the heads learn s_1 and s_2 of a rotated covariance, and the direction of their first split."""
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
    """When each column of the basis is learnt; NaN if never."""
    size = np.abs(run["m"] @ basis).mean(axis=1)
    reached = [np.nonzero(column > LEARNT)[0] for column in size.T]
    return [float(run["tau"][rows[0]]) if len(rows) else float("nan") for rows in reached]


def heads_learn_all_combinations(two: SingleLocation) -> Finding:
    """How many of the 2^F sign patterns ±s_1 ± … ± s_F the heads have at τ = 3000, H = 2^F, over seeds."""
    few = [_patterns(m) for m in _settled(two, 2**12)]
    text = f"F = 2, H = 4: {few} of 4 combinations"
    if min(few) < 4:
        return Finding(Verdict.FAILS, text)
    many = [_patterns(m) for m in _settled(FIG4, 2**12)]
    text += f"; F = 3, H = 8 as in Figure 4: {many} of 8"
    return Finding(Verdict.HOLDS if min(many) == 8 else Verdict.CONDITION, text)


def _settled(model: SingleLocation, samples: int) -> list[np.ndarray]:
    """m [head, feature] after a long time, for each seed."""
    specs = [Flow(model=model, tau_end=3000.0, points=2, seed=seed, samples=samples) for seed in range(SEEDS)]
    return [finished(spec)["m"][-1] for spec in specs]


def _patterns(m: np.ndarray) -> int:
    whole = (np.abs(m) > PART * np.abs(m).max(axis=0)).all(axis=1)
    return len({tuple(row) for row in m[whole] > 0})


def pairs_learn_one_direction(model: SingleLocation) -> Finding:
    """Of the heads that have learnt at τ = 3000, how many have an opposite, and how many are along some ±s_f too."""
    opposite, along, learnt = [], [], []
    for m in _settled(model, 2**10):
        u = directions(m)
        has = (u @ u.T).min(axis=1) < -OPPOSITE
        opposite.append(int(has.sum()))
        along.append(int((has & (np.abs(u).max(axis=1) > OPPOSITE)).sum()))
        learnt.append(len(u))
    text = (
        f"F = {model.features}: of {learnt} heads that have learnt {opposite} have an opposite, {along} along ±s_f too"
    )
    return Finding(Verdict.HOLDS if 2 * sum(along) > sum(learnt) else Verdict.FAILS, text)


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
    """How many of eight heads are on the side of s_1 in the end, if `ahead` are at first; and the loss."""
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
        subject=(20.0, 8.0),
        control=(12.0, 12.0),
        control_is="equal variances",
        expected=Verdict.CONDITION,
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
        subject=SingleLocation(prior=UNEVEN, length=4, heads=4),
        control=SingleLocation(prior=FlippingSpike(nu=(8.0, 2.0)), length=4, heads=4),
        control_is="the flipping spike, whose constant direction has one sign",
        expected=Verdict.CONDITION,
    ),
    Claim(
        id="specialization/pairs",
        source=PAPER,
        place="Section III.2, Figure 4",
        statement="Each pair of Bayes-softmax heads learns a single direction ±s_f",
        tolerance=f"|cos| > {OPPOSITE:g} with s_f and with an opposite head, for most heads that have learnt",
        judge=pairs_learn_one_direction,
        subject=FIG4.replace(map="bayes_softmax"),
        control=SingleLocation(prior=CROSS, length=5, heads=4, map="bayes_softmax"),
        control_is="θ uniform on ±√8 e_1, ±√8 e_2, where it is so",
        expected=Verdict.FAILS,
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
    ),
)
