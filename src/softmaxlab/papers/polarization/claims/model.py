"""Appendix D.1 on the value-softmax model itself, and Section 3.1 on what causes polarization.

J = diag(s) − ssᵀ, r = −∇ℓ(β), M = ‖s‖²I + VJ²Vᵀ. Points are random, and derivatives are autograd's.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch

from softmaxlab.attention import weights
from softmaxlab.core.random import generator
from softmaxlab.papers.claim import Claim, Finding, Verdict, within
from softmaxlab.papers.polarization import equations
from softmaxlab.papers.polarization.instances import Family, b_of, finished, runs
from softmaxlab.papers.polarization.problems import Fields, classification
from softmaxlab.polarization import Descent, Flow

PAPER = "varre2026polarization"
ROUNDING = 1e-12  # of float64 sums of a few dozen terms of order 1, with a wide margin
FEATURES, TOKENS = 3, 8
IDENTITY = torch.eye(FEATURES, dtype=torch.float64)
ONE_HOT = 0.9  # of all weight on one token
WHOLE = (
    0.99  # share of one token; a random direction of three tokens reaches 0.92, softmax 1 − 1e-5 where it is compared
)
MOVED = 0.1  # of an entry of V: a flow that stands still agrees with any other
LINEAR = Family(map="linear", sizes=(3, 8), b=(1.0, 10.0), strength_end=15.0)


def logistic_reduces_to_u(spread: float) -> Finding:
    """The full V, as a dataset of the samples β* ± spread·x, against the equations in (a, u)."""
    fields = classification(TOKENS, 0)
    away = spread * generator(0, "claims/away").standard_normal(TOKENS)
    samples = {"X": np.stack([fields["beta"] + away, fields["beta"] - away])}
    full = {**samples, "V": fields["V"], "a": fields["a"], "loss": "dataset"}
    t, lr, steps = 1e6, 0.5, 20_000
    pairs = (
        (Flow(**full, t_end=t, rtol=1e-12, points=2), equations.integrated(fields, _logistic_speed, t)),
        (Descent(**full, lr=lr, steps=steps, points=2), equations.descended(fields, _logistic_speed, lr, steps)),
    )
    worst, moved, beta = 0.0, np.inf, fields["beta"]
    for spec, (a, u) in pairs:
        run = finished(spec)
        V = fields["V"] + np.outer(beta, u - beta @ fields["V"]) / (beta @ beta)
        worst = max(worst, np.abs(run["V"][-1] - V).max(), np.abs(run["a"][-1] - a).max())
        moved = min(moved, np.abs(run["V"][-1] - fields["V"]).max())
    text = f"V(t) = V(0) + β*(u(t) − u(0))ᵀ/b and a to {worst:.0e}, flow to t = {t:.0e} and {steps} steps of descent; "
    text += f"V moved by {moved:.1f}"
    return within(float(worst) if moved > MOVED else np.inf, 1e-9, text)


def _logistic_speed(m: float) -> float:
    return 1 / (1 + np.exp(m))


def scores_sum_to_start(family: Family) -> Finding:
    drift = max(float(np.abs(run["a"].sum(axis=1) - run["a"][0].sum()).max()) for run in runs(family))
    return within(drift, 1e-9, f"largest |Σa(t) − Σa(0)| = {drift:.1e} to t = 1e12")


def loss_decays(divisor: int) -> Finding:
    """dL/dt = −‖∇_V L‖² − ‖∇_a L‖² at 200 random points, against −‖∇ℓ‖²/divisor and −⟨r, Mr⟩."""
    slack, gap = np.inf, 0.0
    for seed in range(200):
        V, a, beta = _point(seed)
        s = torch.softmax(a, 0)
        output = V @ s
        r = beta - output
        by_V, by_a = torch.autograd.grad(0.5 * r @ r, (V, a))
        rate = (by_V.square().sum() + by_a.square().sum()).item()
        J = torch.diag(s) - torch.outer(s, s)
        M = s @ s * IDENTITY + V @ J @ J @ V.T
        gap = max(gap, abs(rate / (r @ M @ r).item() - 1))
        slack = min(slack, rate * divisor / (r @ r).item())
    text = (
        f"−dL/dt ≥ {slack:.4f}·‖∇ℓ‖²/{divisor} for {FEATURES} features, {TOKENS} tokens; −dL/dt = ⟨r, Mr⟩ to {gap:.0e}"
    )
    return within(max(1 - slack, gap), ROUNDING, text)


def _point(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """V, nearly uniform or sharp a, and β*, as V is small or large."""
    draw = generator(seed, "claims/point")
    size = 10.0 ** draw.uniform(-2, 1)
    V, a = size * draw.standard_normal((FEATURES, TOKENS)), size * draw.standard_normal(TOKENS)
    return (
        torch.tensor(V, requires_grad=True),
        torch.tensor(a, requires_grad=True),
        torch.tensor(draw.normal(size=FEATURES)),
    )


def jacobians_are_right(map: str) -> Finding:
    """(25)-(29): ∂s/∂a = J, ∂β/∂V = sᵀ⊗I by columns of V, ∂β/∂s = V, ∂β/∂a = VJ."""
    jacobian = partial(torch.autograd.functional.jacobian, create_graph=False)
    worst = 0.0
    for seed in range(20):
        V, a, _ = (x.detach() for x in _point(seed))

        def softmax(a: torch.Tensor) -> torch.Tensor:
            return weights(map, a[None, None])[0, 0]

        s = softmax(a)
        J = torch.diag(s) - torch.outer(s, s)
        columns = V.T.flatten()
        pairs = (
            (jacobian(softmax, a), J),
            (jacobian(lambda v, s=s: v.view(TOKENS, FEATURES).T @ s, columns), torch.kron(s[None], IDENTITY)),
            (jacobian(lambda s, V=V: V @ s, s), V),
            (jacobian(lambda a, V=V: V @ softmax(a), a), V @ J),
        )
        worst = max(worst, *(((x - y).abs().max() / (1 + y.abs().max())).item() for x, y in pairs))  # type: ignore[operator]
    return within(worst, ROUNDING, f"(25)-(29) agree with autograd to {worst:.0e} at 20 points")


@dataclass(frozen=True)
class Cause:
    """A problem that polarizes when all of it is trained."""

    loss: Literal["logistic", "square"]

    def fields(self) -> Fields:
        fields = classification(8, 0)
        if self.loss == "logistic":
            return fields
        return {"loss": "square", "beta": 30 * fields["beta"], "V": np.zeros((8, 8)), "a": -0.01 * np.arange(8.0)}


def joint_training_is_the_cause(cause: Cause) -> Finding:
    """The largest weight at t = 1e6 with both trained, V frozen, a frozen."""
    joint, no_V, no_a = (
        float(finished(Flow(**cause.fields(), freeze=freeze, t_end=1e6, points=2))["weights"][-1].max())
        for freeze in (None, "V", "a")
    )
    text = (
        f"largest weight at t = 1e6: {joint:.6f} with both trained, {no_V:.6f} with V frozen, {no_a:.6f} with a frozen"
    )
    caused = joint > ONE_HOT and no_V < ONE_HOT and no_a < ONE_HOT
    return Finding(Verdict.HOLDS if caused else Verdict.FAILS, text)


def linear_network_stays_dense(family: Family) -> Finding:
    """With σ the identity, a turns towards √b a(0) + u(0), which is far from one-hot."""
    off, shares = 0.0, []
    for run in runs(family):
        end = run["weights"][-1] / np.linalg.norm(run["weights"][-1])
        towards = np.sqrt(b_of(run)) * run["a"][0] + run["u"][0]
        off = max(off, float(np.abs(end - towards / np.linalg.norm(towards)).max()))
        shares.append(float(np.abs(end).max() / np.abs(end).sum()))
    text = f"s/‖s‖ is (√b a(0) + u(0))/‖·‖ to {off:.0e}: any direction; largest share |s_i|/Σ|s| "
    text += f"{min(shares):.2f} to {max(shares):.2f}"
    return within(off if max(shares) < WHOLE else np.inf, 1e-6, text)


CLAIMS = (
    Claim(
        id="polarization/logistic-reduction",
        source=PAPER,
        place="Equations (6), (7)",
        statement="Under the logistic loss the flow reduces to (a, u); the rest of V never moves",
        tolerance="1e-9: two solvers at rtol 1e-12 over m ~ 14; rounding over 20000 steps",
        judge=logistic_reduces_to_u,
        subject=0.0,
        control=0.5,
        control_is="two samples in different directions",
        erratum=("polarization/1",),
    ),
    Claim(
        id="polarization/lemD.1-sum",
        source=PAPER,
        place="Lemma D.1",
        statement="Σa is conserved",
        tolerance="1e-9: the solver's error in a at rtol 1e-10",
        judge=scores_sum_to_start,
        subject=Family(),
        control=Family(map="sigmoid", sizes=(3,), seeds=1),
        control_is="elementwise sigmoid",
    ),
    Claim(
        id="polarization/lemD.2-decay",
        source=PAPER,
        place="Lemma D.2",
        statement="dL/dt ≤ −‖∇ℓ‖²/p with p the number of tokens (the paper's 1/d, where V is p×p)",
        tolerance=f"{ROUNDING:g}: rounding",
        judge=loss_decays,
        subject=TOKENS,
        control=FEATURES,
        control_is="1/d with d the number of features",
        erratum=("polarization/14",),
    ),
    Claim(
        id="polarization/propD.3-jacobians",
        source=PAPER,
        place="Property D.3",
        statement="The Jacobians (25)-(29) of the value-softmax model",
        tolerance=f"{ROUNDING:g}: rounding",
        judge=jacobians_are_right,
        subject="softmax",
        control="sigmoid_norm",
        control_is="another normalised map",
    ),
    Claim(
        id="polarization/joint-training",
        source=PAPER,
        place="Section 3.1",
        statement="Polarization is not caused by softmax in isolation but by the joint training of a and V",
        tolerance=f"a largest weight above {ONE_HOT:g} counts as polarized; uniform is 0.125",
        judge=joint_training_is_the_cause,
        subject=Cause("logistic"),
        control=Cause("square"),
        control_is="the square loss from V(0) = 0, where nothing moves unless both do",
        expected=Verdict.FAILS,
        proof="With V frozen and a(0) = 0, u_0 the largest: s_0 ≥ 1/p stays, so dm/dt = γ‖Ju‖² ≥ γ (u_0 − "
        "m)²/p² with γ ≥ σ(−u_0) > 0, hence m → u_0 and s is one-hot on token 0 (erratum 21).",
        why="With V frozen the weights become one-hot too, on the same token and faster.",
        erratum=("polarization/21",),
    ),
    Claim(
        id="polarization/linear-network",
        source=PAPER,
        place="Section 3.1",
        statement="With σ the identity (a linear network) the scores do not become one-hot",
        tolerance=f"1e-6: what decays is e^(−2√bΓ) < 1e-13, on top of the solver's error; no share reaches {WHOLE:g}",
        judge=linear_network_stays_dense,
        subject=LINEAR,
        control=Family(sizes=(3,), seeds=1, strength_end=1e3),
        control_is="softmax",
    ),
)
