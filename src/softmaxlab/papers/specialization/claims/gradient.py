"""Lemmas A.1 to A.4: gradients of the loss before heads specialize, and what softmax-1 conserves.

By a cubature that is exact for derivatives at m = r = 0, and exactly symmetric in heads and in ξ → −ξ everywhere.
"""

import numpy as np
import torch
from scipy.integrate import solve_ivp

from softmaxlab.papers.claim import Claim, Finding, Verdict, within
from softmaxlab.papers.specialization.claim_flows import LOPSIDED, MAPS, PAPER, tensor
from softmaxlab.specialization import Discrete, FlippingSpike, Prior, SingleLocation
from softmaxlab.specialization.landscape import (
    conserved_quantity,
    cubature,
    softmax1_gradient,
    unspecialised_fixed_point,
)

EXACT = 1e-11  # rounding, in derivatives that the cubature has exactly
HEADS = 3  # of Lemma A.4's check
DRIFT = 1e-7  # of a flow at rtol 1e-9
FLIP = FlippingSpike(nu=(2.0, 3.0))
SKEWED = Discrete(points=np.array([[2.0, 1.0], [1.0, -1.0], [0.5, 0.0]]))


def manifold_is_invariant(extra: float) -> Finding:
    """Judge the gradient's distance from equal heads at m = 1 m̃ᵀ, r = r̃1 I + r̃2 11ᵀ, b = b̃ 1, m_11 + `extra`."""
    worst = 0.0
    for map in MAPS:
        model = SingleLocation(prior=Discrete(points=np.array([[1.0], [2.0]])), length=2, heads=3, map=map)
        m, r, b = tensor(np.full((3, 1), 0.7)), tensor(0.8 * np.eye(3) + 0.2), tensor(np.full(3, 0.4))
        with torch.no_grad():
            m[0, 0] += extra
        loss = cubature(model, 3, orthogonal=True).loss(m, r, b, tensor(1.3))
        dm, dr, db = torch.autograd.grad(loss, (m, r, b), allow_unused=True, materialize_grads=True)
        off = dr - torch.diag(dr.diagonal())
        spreads = [dm, dr.diagonal(), off[~torch.eye(3, dtype=torch.bool)], db]
        worst = max(worst, *(float(x.max() - x.min()) for x in spreads))
    return within(worst, EXACT, f"∇_m, ∇_r, ∇_b differ between heads by at most {worst:.0e} (three maps)")


def gradient_is_along_the_mean(prior: Prior) -> Finding:
    """∇_{m_h} at m_h = x Eθ: its parts along and across Eθ, for a prior and for a lopsided one."""
    cases = ((prior, 0.0), (prior, 0.5), (LOPSIDED, 0.5))
    (c1, _), (_, across), (_, lopsided) = (
        _mean_gradient(SingleLocation(prior=given, length=3, heads=2), x) for given, x in cases
    )
    text = f"c⁽¹⁾ = {c1:.4f} at m = 0; across Eθ at x = .5: {across:.0e}, and {lopsided:.4f} for θ ∈ {{(2,1), (1,−1)}}"
    if c1 <= 0 or across > EXACT:
        return Finding(Verdict.FAILS, text)
    return Finding(Verdict.HOLDS if lopsided <= EXACT else Verdict.CONDITION, text)


def _mean_gradient(model: SingleLocation, x: float) -> tuple[float, float]:
    mean, _ = model.prior.moments()
    m = tensor(np.tile(x * mean, (2, 1)))
    (slope,) = torch.autograd.grad(cubature(model, 5).loss(m), m)
    slope = slope.numpy()[0]
    c1 = -float(slope @ mean / (mean @ mean))
    return c1, float(np.abs(slope + c1 * mean).max())


def r_zero_is_a_fixed_point(r: float) -> Finding:
    """The largest ∂/∂r at r times a matrix of ones and random m."""
    worst = 0.0
    for map in MAPS:
        model = SingleLocation(prior=SKEWED, length=2, heads=2, map=map)
        at = tensor(np.full((2, 2), r))
        m = np.random.default_rng(0).standard_normal((2, 2))
        loss = cubature(model, 4, orthogonal=True).loss(tensor(m), at, tensor([0.3, -0.2]), 1.2)
        worst = max(worst, float(torch.autograd.grad(loss, at)[0].abs().max()))
    return within(worst, EXACT, f"|∇_r Ẽ| ≤ {worst:.0e} (three maps, random m, b ≠ 0)")


def bias_and_gain_gradients(factor: float) -> Finding:
    """`factor` times (33) and (34) at a few b̃, v against autograd, in b̃ and in one b_h; the signs (35), (36)."""
    H, L = HEADS, 4
    rule = cubature(SingleLocation(prior=FLIP, length=L, heads=H, map="softmax1"), 1)
    off_one, off_all, off_v = 0.0, 0.0, 0.0
    for at, gain in ((0.0, 1.0), (0.7, 1.4), (-1.0, 2.0)):
        b, v = tensor(np.full(H, at)), tensor(gain)
        loss = rule.loss(torch.zeros(H, 2, dtype=torch.float64), b=b, v=v)
        db, dv = (x.numpy() for x in torch.autograd.grad(loss, (b, v)))
        printed = factor * np.array(softmax1_gradient(H, L, at, gain))
        off_one = max(off_one, float(np.abs(db - printed[0]).max()))
        off_all = max(off_all, abs(float(db.sum()) - printed[0]))
        off_v = max(off_v, abs(float(dv) - printed[1]))
    signs = factor * np.array(softmax1_gradient(H, L, 0.0, 1.0))
    text = (
        f"(33) is off by {off_one:.0e} as ∂/∂b_h and by {off_all:.0e} as ∂/∂b̃, H = {H}; (34) is off by {off_v:.0e}; "
        f"at the start they are {signs[0]:+.3f} and {signs[1]:+.3f}"
    )
    if max(off_one, off_v) > EXACT or not signs[0] > 0 > signs[1]:
        return Finding(Verdict.FAILS, text)
    return Finding(Verdict.HOLDS if off_all <= EXACT else Verdict.CONDITION, text)


def softmax1_conserves(half: float) -> Finding:
    """The drift of b̃ − L e^{−b̃} + half·v²/H along the flow of b and v from 0 and 1 at m = r = 0, and where it ends."""
    H, L = 4, 5
    model = SingleLocation(prior=FLIP, length=L, heads=H, map="softmax1")
    rule, m = cubature(model, 1), tensor(np.zeros((H, 2)))

    def velocity(_, y: np.ndarray) -> np.ndarray:
        b, v = tensor(y[:H]), tensor(y[H])
        db, dv = torch.autograd.grad(rule.loss(m, b=b, v=v), (b, v))
        return -np.append(db.numpy(), dv.item())

    rows = solve_ivp(velocity, (0, 100), [*np.zeros(H), 1.0], rtol=1e-9, atol=1e-11).y.T
    values = [conserved_quantity(H, L, row[0], np.sqrt(2 * half) * row[-1]) for row in rows]
    off = float(np.abs(rows[-1, [0, -1]] - unspecialised_fixed_point(H, L)).max())
    at = f"b = {rows[-1, 0]:.6f}, v = {rows[-1, -1]:.6f}"
    text = f"drift {np.ptp(values):.0e} over τ = 100; ends at {at}, {off:.0e} from the point it selects"
    return within(max(float(np.ptp(values)), off), DRIFT, text)


CLAIMS = (
    Claim(
        id="specialization/lemA.1",
        source=PAPER,
        place="Lemma A.1",
        statement="The unspecialised manifold is invariant by the flow",
        tolerance=f"{EXACT:g}: rounding; the cubature is exactly symmetric in the heads",
        judge=manifold_is_invariant,
        subject=0.0,
        control=0.1,
        control_is="one head moved by 0.1",
    ),
    Claim(
        id="specialization/lemA.2",
        source=PAPER,
        place="Lemma A.2",
        statement="At m_h = x Eθ the gradient is −c⁽¹⁾ Eθ, with c⁽¹⁾ > 0 at the start",
        tolerance=f"{EXACT:g}: rounding; the flipping spike's symmetry is exact in the cubature",
        judge=gradient_is_along_the_mean,
        subject=FLIP,
        control=LOPSIDED,
        control_is="the lopsided prior in place of the flipping spike",
        expected=Verdict.CONDITION,
        proof="For θ ∈ {(2,1), (1,−1)} the gradient at x Eθ has a part across Eθ: a counterexample, by a "
        "cubature that is exact in its low orders and converges (erratum 5).",
        condition="E[θ | θ·Eθ] is parallel to Eθ, as for flipping and one-hot spikes and Gaussians, or x = 0",
        why="Given x the mean of θ depends on θ·Eθ; where it is not parallel to Eθ the gradient leaves that line.",
        erratum=("specialization/5",),
    ),
    Claim(
        id="specialization/lemA.3",
        source=PAPER,
        place="Lemma A.3",
        statement="∇_r Ẽ = 0 at r = 0, for all m",
        tolerance=f"{EXACT:g}: rounding",
        judge=r_zero_is_a_fixed_point,
        subject=0.0,
        control=0.1,
        control_is="r = 0.1",
    ),
    Claim(
        id="specialization/lemA.4",
        source=PAPER,
        place="Lemma A.4",
        statement="(33), (34): the gradient of softmax-1 in b̃ and v at m = r = 0, and its signs at the start",
        tolerance=f"{EXACT:g}: rounding",
        judge=bias_and_gain_gradients,
        subject=1.0,
        control=float(HEADS),
        control_is="H times (33) and (34)",
        expected=Verdict.CONDITION,
        proof="b̃ moves all H biases, so ∂/∂b̃ = Σ_h ∂/∂b_h = H times (33) (erratum 7).",
        condition="b̃ is read as the bias of one head",
        why="b̃ moves all H biases, so the derivative is H times the printed one.",
        erratum=("specialization/7",),
    ),
    Claim(
        id="specialization/conserved",
        source="softmaxlab",
        place="Beyond Lemma A.4",
        statement="At m = r = 0 softmax-1 conserves b̃ − L e^{−b̃} + v²/(2H), which selects its fixed point",
        tolerance=f"{DRIFT:g}: the solver's error at rtol 1e-9",
        judge=softmax1_conserves,
        subject=0.5,
        control=1.0,
        control_is="v²/H in place of v²/(2H)",
    ),
)
