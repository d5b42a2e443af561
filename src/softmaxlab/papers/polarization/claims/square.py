"""The square loss: Lemma 3.5, Appendix C.1, what Section 3.2 and Figure 13 say of its sparsity; and the common orbit.

With V(0) ∥ β* the flow closes in (a, u), with γ = 1 − m/b, m = ⟨u, s⟩, b = ‖β*‖².
"""

from dataclasses import dataclass

import numpy as np

from softmaxlab.core.random import generator
from softmaxlab.core.result import Result
from softmaxlab.papers.claim import Claim, Finding, Verdict, within
from softmaxlab.papers.polarization import equations
from softmaxlab.papers.polarization.instances import b_of, finished, gaps, margin
from softmaxlab.papers.polarization.problems import Fields
from softmaxlab.polarization import Flow, StrengthFlow, exact

PAPER = "varre2026polarization"
P = 10
SIZES_OF_B = (1.0, 20.0, 100.0, 1000.0)
SETTLED = 1e4  # time by which γ ≤ e^{−t/p} is below every float
HALF = 0.5  # of all weight on one token: no longer dense
MOVED = 0.1  # of an entry of V: a flow that stands still agrees with any other


@dataclass(frozen=True)
class Start:
    """Assumption 3.4 as it stands: V(0) = 0, and a(0) ~ 0.1·N in falling order.

    `rising` is the size of a u(0) in rising order, `across` that of a part of V(0) that is not along β*.
    """

    loss: str = "square"
    rising: float = 0.0
    across: float = 0.0

    def fields(self, b: float, seed: int = 0) -> Fields:
        draw = generator(seed, "claims/square")
        beta, a, u = draw.standard_normal((3, P))
        beta *= np.sqrt(b) / np.linalg.norm(beta)
        V = np.outer(beta, self.rising * np.sort(u)) / b + self.across * draw.standard_normal((P, P))
        return {"loss": self.loss, "beta": beta, "V": V, "a": -np.sort(-0.1 * a)}


def reduction_is_exact(start: Start) -> Finding:
    """The full V, as the regression loss with X = I at half the time, against the equations in (a, u)."""
    worst, moved, t = 0.0, np.inf, 20.0
    for b in (1.0, 20.0):
        fields = start.fields(b)
        a, u = equations.integrated(fields, lambda m, b=b: 1 - m / b, t)
        full = finished(Flow(**{**fields, "loss": "regression"}, X=np.eye(P), t_end=t / 2, rtol=1e-12, points=20))
        V = np.outer(fields["beta"], u) / b
        worst = max(worst, np.abs(full["V"][-1] - V).max(), np.abs(full["a"][-1] - a).max())
        moved = min(moved, np.abs(full["V"][-1] - full["V"][0]).max())
    text = f"V is β*uᵀ/b with (a, u) of the equations to {worst:.1e} at t = 20, b = 1 and 20; V moved by {moved:.1f}"
    return within(float(worst) if moved > MOVED else np.inf, 1e-9, text)


def strength_is_finite(start: Start) -> Finding:
    """γ ≤ γ(0) e^{−t/p}, and Γ stands still."""
    worst, late, ends = 0.0, 0.0, []
    for b in SIZES_OF_B:
        run = finished(Flow(**start.fields(b), t_end=SETTLED, rtol=1e-11, points=200))
        t, strength = run["t"], run["strength"]
        early = t < 10 * P
        decay = _gamma(run)[early] * np.exp(t[early] / P)
        worst = max(worst, float(decay.max() / decay[0]))
        late = max(late, float(np.ptp(strength[t > 0.1 * SETTLED])))
        ends.append(float(strength[-1]))
    text = f"γ e^(t/p) ≤ {worst:.6f} γ(0); Γ ends at {max(ends):.2f} to {min(ends):.2f} and last moves by {late:.0e}"
    return within(max(worst - 1, late), 1e-8, text)


def _gamma(run: Result) -> np.ndarray:
    m = margin(run)
    return 1 - m / b_of(run) if run.spec.loss == "square" else 1 / (1 + np.exp(m))  # type: ignore[union-attr]


def rate_is_known(divisor: float) -> Finding:
    """−d log γ/dt = ‖s‖² + ‖Ju‖²/b, from differences of log γ along a run."""
    worst = 0.0
    for b in (1.0, 20.0, 100.0):
        run = finished(Flow(**Start().fields(b), t_end=20.0, rtol=1e-12, points=4000))
        rate = exact.square_rate(run["weights"], run["u"], divisor * b)
        seen = -np.gradient(np.log(_gamma(run)), run["t"])
        worst = max(worst, float(np.abs(seen / rate - 1)[10:-10].max()))
    return within(worst, 1e-4, f"−d log γ/dt is ‖s‖² + ‖Ju‖²/b to {worst:.1e}")


def order_is_kept(start: Start) -> Finding:
    kept = []
    for b in SIZES_OF_B:
        for seed in range(3):
            run = finished(Flow(**start.fields(b, seed), t_end=SETTLED, points=60))
            kept.append((gaps(run["weights"]) > 0).all() and (gaps(run["u"])[1:] > 0).all())
    verdict = Verdict.HOLDS if all(kept) else Verdict.FAILS
    return Finding(verdict, f"u and s keep the order of s(0) in {sum(kept)} of {len(kept)} runs, b = 1 to 1000")


def largest_start_wins(shift: float) -> Finding:
    """Find the largest weight at the end, from u(0) spread about `shift`·b: V(0) small, or an overshoot."""
    draw = generator(0, "claims/overshoot")
    beta, u = draw.standard_normal((2, P))
    u = -np.sort(-u) + shift * (beta @ beta)
    V = np.outer(beta, u) / (beta @ beta)
    run = finished(Flow(loss="square", beta=beta, V=V, a=np.zeros(P), t_end=SETTLED, points=2))
    winner = int(run["weights"][-1].argmax())
    text = f"m(0) = {u.mean() / (beta @ beta):.2g} b: of tokens 0 (largest u) to {P - 1}, {winner} wins"
    return Finding(Verdict.HOLDS if winner == 0 else Verdict.FAILS, text)


def square_is_dense(loss: str) -> Finding:
    """The largest weight at the end for b = 1 … 1000."""
    largest = [
        float(finished(Flow(**Start(loss=loss).fields(b), t_end=1e12, points=2))["weights"][-1].max())
        for b in SIZES_OF_B
    ]
    shown = ", ".join(f"{x:.3f}" for x in largest)
    text = f"largest weight at the end: {shown} for b = 1, 20, 100, 1000 (p = {P}, a(0) ~ 0.1·N, V(0) = 0)"
    if max(largest) < HALF:
        return Finding(Verdict.HOLDS, text)
    return Finding(Verdict.CONDITION if largest[0] < HALF else Verdict.FAILS, text)


def orbit_is_common(map: str) -> Finding:
    """The square flow at its final Γ, the logistic orbit under `map`, and du/dΓ = b s, da/dΓ = J u, at that Γ."""
    worst, ends = 0.0, []
    for b in (1.0, 20.0, 100.0):
        fields = Start().fields(b)
        square = finished(Flow(**fields, t_end=SETTLED, rtol=1e-12, points=2))
        end = float(square["strength"][-1])
        orbit = finished(
            StrengthFlow(**{**fields, "loss": "logistic"}, map=map, strength_end=end, rtol=1e-12, points=2)
        )
        a, u = equations.integrated(fields, lambda m: 1.0, end)
        true = {"weights": np.exp(a) / np.exp(a).sum(), "u": u}
        worst = max(worst, *(float(np.abs(run[x][-1] / true[x] - 1).max()) for run in (square, orbit) for x in true))
        ends.append(end)
    where = f"{min(ends):.2f} to {max(ends):.2f}"
    text = f"at the Γ where square stops ({where}) s and u of both losses are those of the equations to {worst:.1e}"
    return within(worst, 1e-8, text)


CLAIMS = (
    Claim(
        id="polarization/lem3.5-reduction",
        source=PAPER,
        place="Lemma 3.5",
        statement="From V(0) = 0, V stays β*uᵀ/b and (a, u) obey the logistic equations with γ = 1 − m/b",
        tolerance=f"1e-9: two solvers at rtol 1e-12; V must move by {MOVED:g}",
        judge=reduction_is_exact,
        subject=Start(),
        control=Start(across=0.1),
        control_is="a V(0) with a part across β*",
        figures=("polarization/orbit",),
    ),
    Claim(
        id="polarization/appC.1-strength",
        source=PAPER,
        place="Appendix C.1",
        statement="γ goes to 0 like e^(−t/p) at least, so that Γ stays finite",
        tolerance="1e-8: the solver's error at rtol 1e-11, kept for t < 10p, beyond which γ is rounding",
        judge=strength_is_finite,
        subject=Start(),
        control=Start(loss="logistic"),
        control_is="the logistic loss, for which Γ ~ log t",
        erratum=("polarization/12",),
    ),
    Claim(
        id="polarization/square-rate",
        source="softmaxlab",
        place="Sharper than Appendix C.1",
        statement="−d log γ/dt = ‖s‖² + ‖Ju‖²/b",
        tolerance="1e-4: differences of second order over 4000 times",
        judge=rate_is_known,
        subject=1.0,
        control=2.0,
        control_is="half of the second term",
    ),
    Claim(
        id="polarization/appC.1-order",
        source=PAPER,
        place="Appendix C.1",
        statement="No crossing: the order of s and u is kept for the square loss",
        tolerance="strict; the solver's error is below 1e-6 of a gap",
        judge=order_is_kept,
        subject=Start(),
        control=Start(rising=1.0),
        control_is="u(0) in the opposite order of a(0)",
        erratum=("polarization/13",),
    ),
    Claim(
        id="polarization/square-overshoot",
        source=PAPER,
        place="Section 3.2, Regression",
        statement="An analogue of Theorem 3.2 holds for the square loss: the largest u(0) wins",
        tolerance="none: which token has the largest weight",
        judge=largest_start_wins,
        subject=0.0,
        control=3.0,
        control_is="a start with m(0) = 3b, which Assumption 3.4 excludes: the smallest u wins",
        remark="It needs m(0) < b, which Assumption 3.4 grants; from m(0) > b the order turns round.",
    ),
    Claim(
        id="polarization/square-sparsity",
        source=PAPER,
        place="Section 3.2, Figure 13a",
        statement="Square loss does not give rise to sparse solutions",
        tolerance=f"a largest weight below {HALF:g} counts as dense",
        judge=square_is_dense,
        subject="square",
        control="logistic",
        control_is="the logistic loss, one-hot for b = 1 already",
        expected=Verdict.CONDITION,
        proof="In w = u/√b and the clock √b Γ the orbit does not depend on b; the square loss stops on it "
        "where ⟨w, s⟩ = √b, and far along it s is one-hot (Theorem 3.3 and claim "
        "polarization/common-orbit).",
        condition="‖β*‖ is so small that the flow stops before weights are sparse",
        why="The square loss stops where ⟨u, s⟩ = ‖β*‖², and far along the orbit of the flow, which a large ‖β*‖ "
        "reaches, the weights are one-hot.",
        figures=("polarization/fig13a", "polarization/fig13b"),
    ),
    Claim(
        id="polarization/common-orbit",
        source="softmaxlab",
        place="Beyond Lemma 3.5",
        statement="Logistic and square loss follow the same orbit in (a, u); the loss sets only the clock dΓ/dt = γ",
        tolerance="1e-8: three solvers at rtol 1e-12, magnified along the orbit",
        judge=orbit_is_common,
        subject="softmax",
        control="softmax1",
        control_is="the orbit of another map",
        figures=("polarization/orbit",),
    ),
)
