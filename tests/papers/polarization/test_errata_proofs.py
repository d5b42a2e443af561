"""Errata in the paper's proofs: each gap with a counterexample, and its fix on the same runs (docs/errata.md)."""

import numpy as np
import pytest

from softmaxlab.core.simulate import simulate
from softmaxlab.polarization import Flow, StrengthFlow

# an inequality that is met with equality somewhere may be missed by the solver's error at rtol 1e-11
SOLVER = 1e-8
RTOL = 1e-11


def start(u, b: float = 1.0) -> dict:
    """A logistic problem with given u(0), a(0) = 0."""
    u = np.asarray(u, dtype=float)
    beta = np.zeros(len(u))
    beta[0] = np.sqrt(b)
    return {"loss": "logistic", "beta": beta, "V": np.outer(beta, u) / b, "a": np.zeros(len(u))}


def flow(u, b: float = 1.0, t_end: float = 1e12):
    return simulate(Flow(**start(u, b), t_end=t_end, points=120, rtol=RTOL))


def margin(run) -> np.ndarray:
    return (run["u"] * run["weights"]).sum(axis=1)


STARTS = {
    "positive": [1.5, 1.0, 0.6, 0.1],
    "mixed": [0.8, 0.1, -0.5, -2.0],
    "negative": [-0.5, -1.0, -1.2, -3.0],
}
every_start = pytest.mark.parametrize("u", STARTS.values(), ids=STARTS)


@every_start
def test_04_repulsion_is_for_i_less_than_j(u):
    """Printed for i ≠ j: but u_j − u_i shrinks whenever u_i − u_j grows."""
    run = flow(u)
    for i in range(len(u)):
        for j in range(len(u)):
            steps = np.diff(run["u"][:, i] - run["u"][:, j])
            assert (steps > 0).all() == (i < j)


def test_05_scores_of_non_winners_attract():
    """“A similar argument holds for a_i and s_i”: the gap of a_1 and a_2 shrinks after a while; those to a_0 grow."""
    run = flow(STARTS["positive"])
    for name in ("a", "weights"):
        x = run[name]
        others = x[:, 1] - x[:, 2]
        assert others[-1] < 0.5 * others.max()
        assert (np.diff(x[:, :1] - x[:, 1:], axis=0)[:-1] > -SOLVER).all()
    assert (np.diff(run["u"][:, 1] - run["u"][:, 2]) > 0).all()


@pytest.mark.parametrize("b", [0.25, 1.0, 9.0])
@every_start
def test_07_margin_bound_needs_the_least_u(u, b):
    """m ≥ u_0/p fails if some u_i(0) < 0; m ≥ u_0/p − max(0, −u_{p−1}(0)) holds for every b."""
    run = flow(u, b)
    p, m, u_0 = len(u), margin(run), run["u"][:, 0]
    assert (m >= u_0 / p - max(0.0, -u[-1]) - SOLVER).all()
    assert (m >= u_0 / p - SOLVER).all() == (min(u) >= 0)


def test_08_a_lower_bound_on_strength_gives_no_upper_bound_on_gamma():
    """(18) says Γ ≥ log(t/2p − c_0) − u_0(0). γ = ½ for ever satisfies it, and is not O(1/t)."""
    t = np.geomspace(1e3, 1e12, 50)
    p, u_0 = 4, 1.5
    c_0 = -u_0 - np.exp(u_0)
    assert (t / 2 >= np.log(t / (2 * p) - c_0) - u_0).all()
    assert (t * 0.5)[-1] > 1e6 * (t * 0.5)[0]


@pytest.mark.parametrize("b", [0.25, 1.0, 9.0])
@every_start
def test_08_gamma_is_bounded_through_the_margin(u, b):
    """The fix: dm/dΓ = b‖s‖² + ‖Ju‖² ≥ b/p, so m + e^m ≥ m(0) + e^m(0) + bt/p, and γ ≤ 2p/(bt) once t is large."""
    run = flow(u, b)
    p, m, t = len(u), margin(run), run["t"]
    s = run["weights"]
    growth = b * np.square(s).sum(axis=1) + np.square(s * (run["u"] - m[:, None])).sum(axis=1)
    assert (growth >= b / p * (1 - SOLVER)).all()
    grown = m + np.exp(m) - m[0] - np.exp(m[0])
    assert (grown >= b * t / p * (1 - SOLVER) - SOLVER).all()
    late = t > 1e3 * p / b
    assert (t * 1 / (1 + np.exp(m)))[late].max() <= 2 * p / b


def ratio_and_its_speed(u, b: float = 1.0):
    """q_i and dq_i/dΓ along an orbit, i ≠ 0, with log t and the gap u_0 − u_i."""
    run = simulate(StrengthFlow(**start(u, b), strength_end=1e4, points=200, rtol=RTOL))
    s, values, m = run["weights"], run["u"], margin(run)
    q = s[:, 1:] / s[:, :1]
    speed = s[:, 1:] * (q * (values[:, 1:] - m[:, None]) - (values[:, :1] - m[:, None]))
    return run, q, speed, values[:, :1] - values[:, 1:]


@every_start
def test_09_inequalities_of_B1_are_reversed(u):
    """Printed dq ≥ −c q² log t dΓ bounds q from below; the bound on q from above needs ≤, and has it.

    c is the one that makes the lemma's conclusion q ≤ 1/(1 + c log²t/2) true: with it the printed line is false.
    """
    run, q, speed, _ = ratio_and_its_speed(u)
    late = run["log_t"] > 10
    pace = (-speed / (q**2 * run["log_t"][:, None]))[late]
    conclusion = (2 * (1 / q - 1) / run["log_t"][:, None] ** 2)[late]
    c = min(pace.min(), conclusion.min())
    assert c > 0
    assert (-pace <= -c).all()
    assert not (-pace >= -c * (1 + SOLVER)).all()


@pytest.mark.parametrize("b", [0.25, 9.0])
@every_start
def test_09_B1_in_strength(u, b):
    """The cleaner way: dq_i/dΓ ≤ −q_i²(u_0 − u_i)/p, so q_i ≤ 1/(1 + ∫(u_0 − u_i)dΓ/p)."""
    run, q, speed, gap = ratio_and_its_speed(u, b)
    p, strength = len(u), run["strength"]
    assert (speed <= -(q**2) * gap / p * (1 - SOLVER)).all()
    # the gap grows, so a sum of left values is below the integral, and its bound above the integral's
    integral = np.cumsum(gap[:-1] * np.diff(strength)[:, None], axis=0)
    assert (q[1:] <= 1 / (1 + integral / p) * (1 + SOLVER)).all()


def test_10_the_constant_of_17_and_18_changes():
    """With the proof's one c_0 = −u_0(0) − e^{u_0(0)}, (17) and the bound after (19) are false; c_0/2 mends (17)."""
    u = STARTS["positive"]
    run = flow(u)
    p, t, u_0 = len(u), run["t"], run["u"][:, 0]
    c_0 = -u[0] - np.exp(u[0])
    derived = p * (2 * np.exp(u_0) + c_0)
    assert (t <= derived * (1 + SOLVER)).all()  # the line before, true
    assert not (np.exp(u_0) >= t / (2 * p) - c_0).all()  # (17)
    assert (np.exp(u_0) * (1 + SOLVER) >= t / (2 * p) - c_0 / 2).all()
    assert not (run["strength"][1:] >= np.log(t[1:]) - c_0).all()  # used for q ≤ p/(p + δ(log t − c_0))
    assert (run["strength"] >= np.log(t / (2 * p) - c_0 / 2) - u[0] - SOLVER).all()  # (18) with its own constants


def test_the_starts_are_ordered_as_assumption_3_1_has_it():
    for u in STARTS.values():
        assert (np.diff(u) < 0).all()
