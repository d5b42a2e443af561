"""Other maps: Lemma D.4, Section 3.2 and Figure 13; and what is conserved, which is ours.

σ_f(a) = f(a)/Σf(a). All problems are logistic, start as Assumption 3.1 has it, and p = 8 or less.
"""

from collections.abc import Callable, Mapping

import numpy as np

from softmaxlab.core.result import Result
from softmaxlab.errors import SpecError
from softmaxlab.papers.claim import Claim, Finding, Verdict, within
from softmaxlab.papers.polarization.instances import Family, b_of, finished, gaps, runs
from softmaxlab.papers.polarization.problems import classification
from softmaxlab.polarization import Flow, exact

PAPER = "varre2026polarization"
SHARES = ("sum", "square_norm", "relu_norm", "abs_norm", "sigmoid_norm", "elu_norm")
P = 8
HALF = 0.5  # of all weight on one token: no longer dense
ALIVE = 1e-6  # weight above which a token still counts: below, relu and |x| bring scores to 0, and x² nearly so
MOVED = 0.1  # of a score: a flow that stands still keeps every order
Invariant = Callable[[Result], np.ndarray]


def shares_do_not_cross(tilt: float) -> Finding:
    """Order of u and a under each σ_f, from a(0) = 0, from a(0) = 1, and from a(0) tilted against u(0)."""
    undefined, crossed, moved = [], [], np.inf
    for map in SHARES:
        fields = {**classification(P, 0), "map": map}
        try:
            Flow(**fields, t_end=1.0)
        except SpecError:
            undefined.append(map)
        run = finished(Flow(**{**fields, "a": 1 + tilt * np.arange(P)}, t_end=1e6, points=60))
        moved = min(moved, float(np.abs(run["a"][-1] - run["a"][0]).max()))
        if not _in_order(run):
            crossed.append(map)
    text = f"from equal a(0) = 1 order is kept under {len(SHARES) - len(crossed)} of {len(SHARES)} maps, "
    text += f"under which some score moves by {moved:.1f} or more; "
    text += f"at a(0) = 0 the flow is 0/0 under {', '.join(undefined)}"
    if crossed or moved < MOVED:
        return Finding(Verdict.FAILS, text)
    return Finding(Verdict.CONDITION if undefined else Verdict.HOLDS, text)


def _in_order(run: Result) -> bool:
    """u_i > u_j always, and a_i > a_j for t > 0 as long as token i lives; two that do not may tie."""
    first = np.triu_indices(run["a"].shape[-1], 1)[0]
    floor = np.where(run["weights"][1:, first] > ALIVE, 0.0, -1e-9)
    return bool((gaps(run["u"]) > 0).all() and (gaps(run["a"])[1:] > floor).all())


def elementwise_maps_stay_dense(maps: tuple[str, ...]) -> Finding:
    """The largest share s_i/Σs at t = 1e12."""
    largest = {map: max(_share(run) for run in runs(_family(map))) for map in maps}
    shown = ", ".join(f"{share:.3f} ({map})" for map, share in largest.items())
    return within(max(largest.values()), HALF, f"largest share at t = 1e12 with p = {P}: {shown}")


def _family(map: str) -> Family:
    return Family(map=map, sizes=(P,), b=(1.0,))


def _share(run: Result) -> float:
    return float(run["weights"][-1].max() / run["weights"][-1].sum())


def figure_13_relu_is_dense(map: str) -> Finding:
    """The share of the winner, and how many others are exactly 0."""
    ends = [run["weights"][-1] for run in runs(_family(map))]
    exact = sum(bool((np.sort(s)[:-1] == 0).all()) for s in ends)
    shares = [float(s.max() / s.sum()) for s in ends]
    text = (
        f"{map}: largest share {max(shares):.3f}; all others exactly 0 at t = 1e12 in {exact} of {len(ends)} problems"
    )
    return within(max(shares), HALF, text)


def sum_map_is_not_one_hot(map: str) -> Finding:
    """f = x: (a ± u/√b) without their means only change length, by reciprocal factors; Σa falls, s leaves [0, 1]."""
    off, low, high = 0.0, np.inf, -np.inf
    for run in runs(_family(map)):
        u = run["u"] / np.sqrt(b_of(run))
        growing, shrinking = (x - x.mean(axis=1, keepdims=True) for x in (run["a"] + u, run["a"] - u))
        factor = growing[-1] @ growing[0] / (growing[0] @ growing[0])
        off = max(off, *np.abs(growing[-1] / factor - growing[0]), *np.abs(shrinking[-1] * factor - shrinking[0]))
        low, high = min(low, run["weights"][-1].min()), max(high, run["weights"][-1].max())
    text = f"at t = 1e12 the weights reach from {low:.1f} to {high:.1f}; the closed form in ∫dΓ/Σa holds to {off:.0e}"
    return within(off if high > 1 + HALF else np.inf, 1e-7, text)


def square_map_is_one_hot(map: str) -> Finding:
    """f = x²: −log(s_1/s_0) ~ 2 log²t/(b‖a‖²), from its second differences in log t up to 1e20."""
    ratios = []
    for fields in _family(map).problems():
        run = finished(Flow(**fields, t_end=1e20, points=100))
        rows = [-41, -21, -1]  # evenly spaced in log t, from about 1e11
        seen = -np.log(run["weights"][rows, 1] / run["weights"][rows, 0])
        norm = float(np.square(run["a"][-1]).sum())  # that at the start, too, but not in the control
        limit = exact.square_map_log_ratio(np.log(run["t"][rows]), b_of(run), norm)
        ratios.append(float(np.diff(seen, n=2)[0] / np.diff(limit, n=2)[0]))
    text = f"d² log(s_0/s_1)/d(log t)² is {min(ratios):.4f} to {max(ratios):.4f} of 4/(b‖a‖²) up to t = 1e20"
    return within(max(abs(x - 1) for x in ratios), 1e-3, text)


def _norm(run: Result) -> np.ndarray:
    return np.square(run["a"]).sum(axis=1)


def _elementwise(run: Result) -> np.ndarray:
    return np.square(run["u"]) / (2 * b_of(run)) - exact.PRIMITIVES[run.spec.map](run["a"])  # type: ignore[union-attr]


def _two_tokens(run: Result) -> np.ndarray:
    return exact.two_token(run["a"], run["u"][:, :, None] / np.sqrt(b_of(run)))


def invariants_hold(invariants: Mapping[str, Invariant]) -> Finding:
    """The drift of each map's invariant over runs to t = 1e12, relative to the largest u² there."""
    drift = {}
    for map, invariant in invariants.items():
        sizes = (2,) if invariant is _two_tokens else (3, P)
        of_map = [
            np.abs(invariant(run) - invariant(run)[0]).max() / (1 + np.square(run["u"]).max())
            for run in runs(Family(map=map, sizes=sizes, b=(0.5, 4.0), seeds=1))
        ]
        drift[map] = float(max(of_map))
    shown = ", ".join(f"{x:.0e} ({map})" for map, x in drift.items())
    return within(max(drift.values()), 1e-8, f"largest relative drift to t = 1e12: {shown}")


INVARIANTS: dict[str, Invariant] = {
    **dict.fromkeys(("sum", "square_norm", "abs_norm", "relu_norm"), _norm),
    **dict.fromkeys(("sigmoid", "relu"), _elementwise),
    "softmax": _two_tokens,
}

CLAIMS = (
    Claim(
        id="polarization/lemD.4-order",
        source=PAPER,
        place="Lemma D.4",
        statement="No crossing under every normalised increasing f, from Assumption 3.1",
        tolerance=f"strict; 1e-9 in a for tokens of weight below {ALIVE:g}, which tie at 0; some a moves by {MOVED:g}",
        judge=shares_do_not_cross,
        subject=0.0,
        control=0.1,
        control_is="an a(0) in the opposite order of u(0)",
        expected=Verdict.CONDITION,
        proof="f(0) = 0 and a(0) = 0 give σ_f = 0/0, for x, x², |x| and relu (erratum 15).",
        condition="f(a(0)) has a positive sum: f(0) ≠ 0, or a(0) ≠ 0",
        why="With f(0) = 0 and a(0) = 0, as for x, x², |x| and relu, the weights are 0/0.",
        erratum=("polarization/15",),
    ),
    Claim(
        id="polarization/elementwise-dense",
        source=PAPER,
        place="Section 3.2",
        statement="Elementwise maps, sigmoid and relu, do not polarize",
        tolerance=f"a largest share below {HALF:g} counts as dense; uniform is 0.125",
        judge=elementwise_maps_stay_dense,
        subject=("sigmoid", "relu"),
        control=("softmax",),
        control_is="softmax",
    ),
    Claim(
        id="polarization/fig13-relu",
        source=PAPER,
        place="Section 3.2, Figure 13",
        statement="Figure 13's Relu shows that relu does not polarize",
        tolerance=f"a largest share below {HALF:g} counts as dense; 0 is exact",
        judge=figure_13_relu_is_dense,
        subject="relu_norm",
        control="relu",
        control_is="the elementwise relu, which the text speaks of; the figure's is relu/Σrelu",
        expected=Verdict.FAILS,
        proof="The figure’s map is relu/Σrelu, not the relu of the text; under it a weight that has come to 0 "
        "has no gradient and stays exactly 0, as all but one do in every run here (erratum 20).",
        why="The figure's map is relu divided by its sum, not the relu of the text, and that one becomes one-hot.",
        erratum=("polarization/20",),
        figures=("polarization/fig13a", "polarization/fig13b"),
    ),
    Claim(
        id="polarization/f-linear",
        source=PAPER,
        place="Section 3.2",
        statement="With f(x) = x the polarization is typically insufficient to yield one-hot scores",
        tolerance="1e-7: the solver's error, magnified by the growth of a ± u/√b",
        judge=sum_map_is_not_one_hot,
        subject="sum",
        control="softmax",
        control_is="softmax",
    ),
    Claim(
        id="polarization/f-square",
        source=PAPER,
        place="Section 3.2",
        statement="With f(x) = x² the dynamics can drive the scores toward a one-hot limit",
        tolerance="1e-3: what is left of the approach at t = 1e11",
        judge=square_map_is_one_hot,
        subject="square_norm",
        control="softmax",
        control_is="softmax, one-hot only like 1/log² t",
    ),
    Claim(
        id="polarization/invariants",
        source="softmaxlab",
        place="Beyond Lemma D.1",
        statement="Conserved: ‖a‖² (f homogeneous), u²/2b − a − e^a (sigmoid), u² − ba² (relu), "
        "(u_0 − u_1)² − 4b sinh²((a_0 − a_1)/2) (softmax, p = 2)",
        tolerance="1e-8: the solver's error at rtol 1e-10 over all of the run",
        judge=invariants_hold,
        subject=INVARIANTS,
        control={"softmax": _norm},
        control_is="‖a‖² under softmax",
    ),
)
