"""Losses whose gradient is not along one direction: regression with a matrix X, cross-entropy, and the literal KL."""

import numpy as np

from softmaxlab.papers.claim import Claim, Evidence, Finding, Verdict
from softmaxlab.papers.polarization.instances import finished
from softmaxlab.papers.polarization.problems import classification, prediction, regression
from softmaxlab.polarization import Descent, Flow

PAPER = "varre2026polarization"
P = 20
KAPPAS = (1.0, 5.0)
CLEAR = 0.5  # a clear rise of the largest weight
RESTS = 1e-3  # change of a loss over three decades of t by which it counts as at rest


def conditioning_makes_sparse(norms_of: tuple[float, float]) -> Finding:
    """The largest weight at the end for κ = 1, 5 (rows) and ‖X⁻¹β*‖² as in the paper at κ = `norms_of` (columns)."""
    norms = [_solution_norm(regression(P, 0, kappa)) for kappa in norms_of]
    s = np.array([[_largest_at_end(kappa, norm) for norm in norms] for kappa in KAPPAS])
    text = (
        f"largest weight {s[0, 0]:.3f} → {s[1, 1]:.3f} for κ = 1 → 5, with ‖X⁻¹β*‖² {norms[0]:.0f} → "
        f"{norms[1]:.0f}; κ alone {s[0, 0]:.3f} → {s[1, 0]:.3f} and {s[0, 1]:.3f} → {s[1, 1]:.3f}, "
        f"the norm alone {s[0, 0]:.3f} → {s[0, 1]:.3f}"
    )
    if s[1, 1] - s[0, 0] < CLEAR:
        return Finding(Verdict.FAILS, text)
    by_kappa = (s[1] - s[0]).min()
    return Finding(Verdict.HOLDS if by_kappa > CLEAR else Verdict.CONDITION, text)


def _solution_norm(fields: dict) -> float:
    return float(np.square(np.linalg.solve(fields["X"], fields["beta"])).sum())


def _largest_at_end(kappa: float, norm: float) -> float:
    fields = regression(P, 0, kappa)
    fields["beta"] = fields["beta"] * np.sqrt(norm / _solution_norm(fields))
    # the paper's step 1e-3 leaves κ = 5 with a small norm unfinished at its 3e5 steps; the end is what counts here
    run = finished(Descent(**fields, lr=2e-2, steps=200_000, points=2))
    return float(run["scores"][-1].max())


def prediction_polarizes_less(map: str) -> Finding:
    """Cross-entropy with targets softmax(k·U[0, 1]) against logistic with b = 1, both at t = 1e6."""
    classified = _largest(Flow(**classification(10, 0), map=map, t_end=1e6, points=2))
    predicted = {k: _largest(Flow(**prediction(10, 0, k), map=map, t_end=1e6, points=2)) for k in (1.0, 10.0, 30.0)}
    shown = ", ".join(f"{x:.3f} (k = {k:g})" for k, x in predicted.items())
    text = f"largest weight at t = 1e6: logistic {classified:.3f}; cross-entropy of softmax(k·U) {shown}"
    less = [x < classified for x in predicted.values()]
    verdict = Verdict.HOLDS if all(less) else Verdict.CONDITION if any(less) else Verdict.FAILS
    return Finding(verdict, text)


def _largest(spec: Flow) -> float:
    return float(finished(spec)["scores"][-1].max())


def kl_is_like_regression(loss: str) -> Finding:
    """Whether the strength Γ stays finite and weights dense, as for the square loss; b = 1."""
    fields = prediction(10, 0, 3.0)
    start = {"V": 0.1 + np.abs(fields["V"]), "a": fields["a"]}
    target = fields["target"]
    goal = {"beta": target / np.linalg.norm(target)} if loss == "square" else {"target": target}
    run = finished(Flow(loss=loss, **start, **goal, t_end=1e9, points=40))
    at = [float(np.interp(t, run["t"], run["loss"])) for t in (1e3, 1e6, 1e9)]
    weight = float(np.interp(1e3, run["t"], run["scores"].max(axis=1)))
    text = (
        f"{loss}: loss {at[0]:.3f}, {at[1]:.3f}, {at[2]:.3f} at t = 1e3, 1e6, 1e9; largest weight {weight:.3f} at 1e3, "
        f"{float(run['scores'][-1].max()):.3f} at 1e9"
    )
    return Finding(Verdict.HOLDS if abs(at[2] - at[1]) < RESTS else Verdict.FAILS, text)


CLAIMS = (
    Claim(
        id="polarization/kappa-sparsity",
        source=PAPER,
        place="Section 3.2, Figures 3 and 12",
        statement="A higher condition number κ slows the optimization and makes it sparser",
        tolerance=f"a rise of the largest weight by {CLEAR:g} is clear",
        judge=conditioning_makes_sparse,
        subject=KAPPAS,
        control=(1.0, 1.0),
        control_is="the solution norm ‖X⁻¹β*‖² held at that of κ = 1",
        expected=Verdict.UNDECIDED,
        evidence=Evidence("own", horizon="2e5 steps of 0.02", runs="seed 0"),
    ),
    Claim(
        id="polarization/kl-weaker",
        source=PAPER,
        place="Section 3.2, Figure 10",
        statement="With KL the polarization is weaker than in classification, at equal time t = 1e6",
        tolerance="none: which is larger",
        judge=prediction_polarizes_less,
        subject="softmax",
        control="uniform",
        control_is="uniform attention, which polarizes under neither",
        expected=Verdict.UNDECIDED,
        evidence=Evidence("own", horizon=1e6, runs="seed 0"),
    ),
    Claim(
        id="polarization/kl-literal",
        source=PAPER,
        place="Section 3.2, KL divergence",
        statement="With ℓ(β) = −⟨p*, log β⟩ the flow is analogous to that of regression, which comes to rest",
        tolerance=f"{RESTS:g} from t = 1e6 to 1e9",
        judge=kl_is_like_regression,
        subject="kl",
        control="square",
        control_is="regression itself",
        expected=Verdict.FAILS,
        evidence=Evidence("own", horizon=1e9, runs="seed 0"),
        proof="β = Vs is not confined to distributions and ℓ(cβ) = ℓ(β) − log c, so that ℓ has no least value and no "
        "point of rest: ⟨∇ℓ, β⟩ = −1 everywhere (erratum 16).",
        remark="Weights become one-hot under it, as the paper says that it polarizes.",
    ),
)
