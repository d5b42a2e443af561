"""Section 4.1: the matrix model β = σ(A)V and its sink, and the tied model U σ(U a) of Figure 11."""

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.papers.claim import Claim, Finding, within
from softmaxlab.papers.polarization.instances import b_of, finished
from softmaxlab.papers.polarization.problems import SMALL, Fields, tied
from softmaxlab.polarization import Flow, StrengthFlow, exact

PAPER = "varre2026polarization"
D = 8
DRAWS = 10
ONE_HOT = 0.99


def rows_of_attention(T: int, seed: int, spread: float = 0.0) -> Fields:
    """T rows over T tokens in the order of u(0) = V(0)β*, ‖β*‖ = 1, V ~ 0.1·N, A ~ spread·N."""
    draw = generator(seed, "claims/sink")
    beta = draw.standard_normal(D)
    beta /= np.linalg.norm(beta)
    V = SMALL * draw.standard_normal((T, D))
    V = V[np.argsort(-(V @ beta))]
    A = spread * draw.standard_normal((T, T))
    return {"loss": "logistic", "model": "matrix", "beta": beta, "V": V, "A": A}


def sink_forms_at_token_0(map: str) -> Finding:
    """The mass of column 0 from A(0) = 0, which is Assumption 3.1; and, as a remark, from random A(0)."""
    run = finished(Flow(**rows_of_attention(32, 0), map=map, t_end=1e100, points=103, rtol=1e-7))
    mass = np.interp(np.log([1e6, 1e12, 1e100]), np.log(run["t"][1:]), run["weights"][1:, :, 0].mean(axis=1))
    chosen = {spread: sum(_all_rows_choose_0(map, seed, spread) for seed in range(DRAWS)) for spread in (0.1, 1.0)}
    text = (
        f"A(0) = 0, T = 32: mass on token 0 {mass[0]:.3f}, {mass[1]:.3f}, {mass[2]:.4f} at t = 1e6, 1e12, 1e100; "
        f"random A(0), T = 8: all rows go there in {chosen[0.1]} (A ~ 0.1·N) and {chosen[1.0]} (A ~ N) of {DRAWS} draws"
    )
    return within(1 - mass[2], 1 - ONE_HOT, text)


def _all_rows_choose_0(map: str, seed: int, spread: float) -> bool:
    run = finished(Flow(**rows_of_attention(8, seed, spread), map=map, t_end=1e30, points=2, rtol=1e-6))
    return bool((run["weights"][-1].argmax(axis=-1) == 0).all())


def rows_are_slower_by_root(power: float) -> Finding:
    """T rows from A(0) = 0 at Γ are one row at Γ/T^power from u(0)/T^power."""
    worst = 0.0
    for T in (2, 8):
        fields = rows_of_attention(T, 1)
        rows = finished(Flow(**fields, t_end=1e12, points=2, rtol=1e-11))
        strength = float((rows["u"][-1] - rows["u"][0]).sum() / b_of(rows))  # since du/dΓ = b s and Σs = 1
        one = {"loss": "logistic", "beta": fields["beta"], "V": fields["V"].T / T**power, "a": np.zeros(T)}
        row = finished(StrengthFlow(**one, strength_end=strength / T**power, points=2, rtol=1e-11))
        worst = max(worst, float(np.abs(rows["weights"][-1] / row["weights"][-1] - 1).max()))
    return within(
        worst, 1e-7, f"every row is one row of its own at Γ/T^{power:g} from u(0)/T^{power:g}, to {worst:.0e}"
    )


def tied_column_diverges(map: str) -> Finding:
    """The winner's weight, and ‖β*‖ d‖U^(m)‖/d log t over the last decades to t = 1e100."""
    slopes, least, others = [], 1.0, 0.0
    for dim, norm in ((5, 1.0), (10, 1.0), (10, 2.0)):
        fields = tied(dim, 0)
        fields["beta"] = norm * fields["beta"]
        run = finished(Flow(**fields, map=map, t_end=1e100, points=21))
        lengths, winner = np.linalg.norm(run["U"], axis=1), run["weights"][-1].argmax()
        limit = exact.tied_column_limit(np.log(run["t"][[-6, -1]]), fields["beta"])
        slopes.append(float(np.diff(lengths[[-6, -1], winner])[0] / np.diff(limit)[0]))
        least = min(least, float(run["weights"][-1, winner]))
        others = max(others, float(np.delete(lengths[-1], winner).max()))
    text = (
        f"largest weight ≥ {least:.6f}; ‖β*‖ d‖U^(m)‖/d log t = {min(slopes):.6f} to {max(slopes):.6f}, "
        f"all other columns stay below {others:.1f}"
    )
    return within(max(1 - least, *(abs(slope - 1) for slope in slopes)), 1e-4, text)


CLAIMS = (
    Claim(
        id="polarization/sec4.1-sink",
        source=PAPER,
        place="Section 4.1",
        statement="In σ(A)V every row becomes one-hot on the token with the largest u(0): an attention sink",
        tolerance=f"mass above {ONE_HOT:g} at t = 1e100, from A(0) = 0",
        judge=sink_forms_at_token_0,
        subject="softmax",
        control="uniform",
        control_is="uniform attention",
        remark="From random A(0), which Assumption 3.1 excludes, not all rows choose that token.",
        erratum=("polarization/17",),
        figures=("polarization/sink",),
    ),
    Claim(
        id="polarization/sink-slower",
        source="softmaxlab",
        place="Beyond Section 4.1",
        statement="From A(0) = 0 all T rows stay equal, and are one row with Γ and u(0) divided by √T",
        tolerance="1e-7: two solvers at rtol 1e-11, magnified in the small weights",
        judge=rows_are_slower_by_root,
        subject=0.5,
        control=1.0,
        control_is="T in place of √T",
        figures=("polarization/sink",),
    ),
    Claim(
        id="polarization/fig11-tied",
        source=PAPER,
        place="Figure 11",
        statement="In the tied model a sparse solution is found and ‖U^(m)‖ diverges",
        tolerance="1e-4: the slope's approach over log t = 170 to 230",
        remark="‖U^(m)‖ grows like log t/‖β*‖ (ours).",
        judge=tied_column_diverges,
        subject="softmax",
        control="uniform",
        control_is="uniform attention",
        erratum=("polarization/18",),
        figures=("polarization/fig11",),
    ),
)
