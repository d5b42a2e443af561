"""Errata in the paper's equations: the printed and the right form, against autograd or a run (docs/errata.md)."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from softmaxlab.core.random import generator
from softmaxlab.core.simulate import simulate
from softmaxlab.polarization import Flow

D, P = 3, 5
# autograd and the closed formulas differ by rounding of a few dozen terms of order 1
ROUNDING = 1e-13
# what is printed must be wrong by much more than anything numerical
CLEARLY = 1e-2


class Point:
    """A random V, a, β* with b = 4, as torch tensors, and everything the paper's formulas are made of."""

    def __init__(self, seed: int, loss: str = "logistic", aligned: bool = False):
        draw = generator(seed, "errata/point")
        beta = draw.standard_normal(D)
        beta *= 2 / np.linalg.norm(beta)
        u = draw.standard_normal(P)
        V = np.outer(beta, u) / 4 if aligned else draw.standard_normal((D, P))
        self.beta = torch.tensor(beta)
        self.V = torch.tensor(V, requires_grad=True)
        self.a = torch.tensor(draw.standard_normal(P), requires_grad=True)
        self.b = 4.0
        self.s = torch.softmax(self.a, 0)
        self.J = torch.diag(self.s) - torch.outer(self.s, self.s)
        self.output = self.V @ self.s
        self.u = self.beta @ self.V
        m = self.beta @ self.output
        self.loss = torch.log1p(torch.exp(-m)) if loss == "logistic" else 0.5 * (self.beta - self.output).square().sum()
        self.gamma = 1 / (1 + torch.exp(m)) if loss == "logistic" else 1 - m / self.b

    def velocity(self) -> tuple[torch.Tensor, torch.Tensor]:
        """V′ = −∇_V L and a′ = −∇_a L, by autograd."""
        by_V, by_a = torch.autograd.grad(self.loss, (self.V, self.a), retain_graph=True)
        return -by_V, -by_a


def assert_right_and_printed_wrong(true, right, printed):
    true, right, printed = (torch.as_tensor(x, dtype=torch.float64).detach().numpy() for x in (true, right, printed))
    assert_allclose(right, true, rtol=ROUNDING, atol=ROUNDING)
    assert np.abs(printed - true).max() > CLEARLY * np.abs(true).max()


@pytest.mark.parametrize("loss", ["logistic", "square"])
@pytest.mark.parametrize("seed", range(5))
def test_01_signs(loss, seed):
    """(6), (7), (9), (10), (15), (16) and the display before (6) print −γ where the flow has +γ."""
    at = Point(seed, loss, aligned=loss == "square")  # (9), (10) are for V = β*uᵀ/b
    V_dot, a_dot = at.velocity()
    outer = torch.outer(at.beta, at.s)
    assert_right_and_printed_wrong(V_dot, at.gamma * outer, -at.gamma * outer)
    assert_right_and_printed_wrong(a_dot, at.gamma * at.J @ at.u, -at.gamma * at.J @ at.u)
    assert_right_and_printed_wrong(at.beta @ V_dot, at.gamma * at.b * at.s, -at.gamma * at.b * at.s)


@pytest.mark.parametrize("h", [1e-5, 1e-3])
def test_02_equation_4_lacks_dt(h):
    """A change of a over a time h is h times the right side of (4), whatever h; the right side alone knows no h."""
    at = Point(0)
    arrays = {"beta": at.beta.numpy(), "V": at.V.detach().numpy(), "a": at.a.detach().numpy()}
    run = simulate(Flow(loss="logistic", **arrays, t_end=h, points=2, rtol=1e-12))
    right_side = at.velocity()[1].numpy()
    change = run["a"][-1] - run["a"][0]
    assert_allclose(change, h * right_side, rtol=10 * h)  # the next term is of relative order h


@pytest.mark.parametrize("seed", range(5))
def test_03_centring_has_no_gamma(seed):
    """Proof of 3.2: a_i′ = γ s_i [u_i − ⟨s,u⟩]; printed is [u_i − γ⟨s,u⟩]."""
    at = Point(seed)
    m = at.s @ at.u
    right, printed = (at.gamma * at.s * (at.u - mean) for mean in (m, at.gamma * m))
    assert_right_and_printed_wrong(at.velocity()[1], right, printed)


@pytest.mark.parametrize("seed", range(5))
def test_06_proof_of_3_3_needs_b_and_p(seed):
    """(u_i − u_j)′ = γ b (s_i − s_j), printed without b; and Q = 1 + Σq_j runs over the p tokens, not d."""
    at = Point(seed)
    u_dot = at.beta @ at.velocity()[0]
    right = at.gamma * at.b * (at.s[0] - at.s[1])
    assert_right_and_printed_wrong(u_dot[0] - u_dot[1], right, right / at.b)
    q = at.s / at.s[0]
    assert_right_and_printed_wrong(at.s, q / q.sum(), q / (1 + q[1:D].sum()))


def test_11_equation_20_lacks_a_half():
    """The flow (21) is that of ½‖β − β*‖², as (8) says; (20), without ½, runs twice as fast, as their code does."""
    at = Point(0, "square")
    doubled, _ = torch.autograd.grad((at.output - at.beta).square().sum(), (at.V, at.a), retain_graph=True)
    right_side_21 = torch.outer(at.beta - at.output, at.s)
    assert_right_and_printed_wrong(right_side_21, at.velocity()[0], -doubled)
    arrays = {"beta": at.beta.numpy(), "V": at.V.detach().numpy(), "a": at.a.detach().numpy(), "rtol": 1e-12}
    half = simulate(Flow(loss="square", **arrays, t_end=2.0, points=2))
    code = simulate(Flow(loss="regression", X=np.eye(D), **arrays, t_end=1.0, points=2))
    assert_allclose(half["a"][-1], code["a"][-1], rtol=1e-9)  # two runs at rtol 1e-12


def test_12_rate_of_C1_is_2_over_p():
    """Lemma D.2 with ℓ = ½‖β − β*‖² gives (‖β − β*‖²)′ ≤ −(2/p)‖β − β*‖²; it is met at uniform s and V = 0."""
    V, a = (torch.zeros(*shape, dtype=torch.float64, requires_grad=True) for shape in ((D, P), (P,)))
    beta = Point(0).beta
    r = beta - V @ torch.softmax(a, 0)
    by_V, by_a = torch.autograd.grad(0.5 * r @ r, (V, a))
    decay = -2 * (by_V.square().sum() + by_a.square().sum()) / (beta @ beta)  # of log ‖β − β*‖²
    assert_right_and_printed_wrong(decay, -2 / P, -1 / P)


@pytest.mark.parametrize("seed", range(5))
def test_14_convergence_matrix_has_J_squared(seed):
    """β′ = M r with M = ‖s‖²I + VJ²Vᵀ; printed, from one line to the next, with J."""
    at = Point(seed)
    V_dot, a_dot = at.velocity()
    output_dot = V_dot @ at.s + at.V @ at.J @ a_dot
    r = at.gamma * at.beta
    first = at.s @ at.s * r
    assert_right_and_printed_wrong(
        output_dot, first + at.V @ at.J @ at.J @ at.V.T @ r, first + at.V @ at.J @ at.V.T @ r
    )


def test_17_sink_is_decided_by_V_beta():
    """4.1: with V [T, d], u = Vβ* (printed Vᵀβ*), and the loss is a mean over the rows t (printed over i, of β[t])."""
    T = 6
    draw = generator(3, "errata/sink")
    V, beta = 0.3 * draw.standard_normal((T, T)), draw.standard_normal(T)
    assert (V @ beta).argmax() != (V.T @ beta).argmax()
    run = simulate(Flow(loss="logistic", model="matrix", beta=beta, V=V, A=np.zeros((T, T)), t_end=1e30, points=2))
    assert (run["weights"][-1].argmax(axis=1) == (V @ beta).argmax()).all()
    assert_allclose(run["u"][0], V @ beta, rtol=ROUNDING)
    with pytest.raises(ValueError, match="mismatch"):
        _ = V[:, : T - 1].T @ beta[: T - 1]  # with d ≠ T the printed product does not exist

    A = draw.standard_normal((T, T))
    start = simulate(Flow(loss="logistic", model="matrix", beta=beta, V=V, A=A, t_end=1.0, points=2))
    rows = np.logaddexp(0, -start["weights"][0] @ V @ beta)
    assert_allclose(start["loss"][0], rows.mean(), rtol=ROUNDING)
    assert np.ptp(rows) > CLEARLY  # T equal terms of one row t, as printed, are another loss for each t
