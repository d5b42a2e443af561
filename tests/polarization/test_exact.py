"""Closed forms, rates and limits of exact.py against the flow. Derivations: docs/theory/polarization.md."""

import numpy as np
import pytest

from softmaxlab import simulate
from softmaxlab.polarization import Flow, StrengthFlow, exact
from tests.polarization.flow_cases import BUILT_IN, figure_two, flow, problem

CLOSED = 1e-9  # a closed form against a flow at rtol 1e-12
SAME_ORBIT = 1e-9


def test_one_token_and_equal_tokens_have_a_closed_form():
    t_end = 1e80
    one = simulate(Flow("logistic", beta=[1.0, 2.0], V=[[0.3], [-0.4]], a=[0.7], t_end=t_end, rtol=1e-12))
    margin = exact.margin_at_fixed_weights(one["t"], -0.5, 5.0)
    np.testing.assert_allclose(one["u"][:, 0], margin, rtol=CLOSED, atol=CLOSED)
    equal = simulate(Flow("logistic", beta=[1.0], V=[[0.3] * 4], a=np.zeros(4), t_end=t_end, rtol=1e-12))
    np.testing.assert_allclose(equal["u"][:, 0], exact.margin_at_fixed_weights(equal["t"], 0.3, 0.25), rtol=CLOSED)


def test_frozen_scores_have_closed_forms():
    spec = flow("logistic", "softmax", "value", 1, t_end=1e10, freeze="a", rtol=1e-12)
    result = simulate(spec)
    s = result["weights"][0]
    margin = exact.margin_at_fixed_weights(result["t"], spec.beta @ spec.V @ s, spec.beta @ spec.beta * (s @ s))
    np.testing.assert_allclose((result["u"] * s).sum(1), margin, rtol=CLOSED, atol=CLOSED)
    square = simulate(spec.replace(loss="square", t_end=30.0))
    residual = exact.residual_at_fixed_weights(square["t"], spec.beta - spec.V @ s, s)
    np.testing.assert_allclose(spec.beta - square["V"] @ s, residual, rtol=0, atol=CLOSED)


def test_logistic_and_square_run_on_one_orbit():
    beta = np.array([1.0, 2.0, -1.0])
    fields = {"beta": beta, "V": np.outer(beta, [0.2, 0.1, 0.0, -0.1]) / 6, "a": [0.1, 0.0, 0.2, -0.1]}
    square = simulate(Flow("square", **fields, t_end=500.0, rtol=1e-12, points=40))
    for k in (5, 20, 30, 39):
        orbit = simulate(StrengthFlow("logistic", **fields, strength_end=square["strength"][k], points=3, rtol=1e-12))
        for name in ("a", "u", "V"):
            assert np.abs(orbit[name][-1] - square[name][k]).max() < SAME_ORBIT
    other = simulate(StrengthFlow("logistic", **fields, strength_end=1.01 * square["strength"][39], points=3))
    assert np.abs(other["u"][-1] - square["u"][39]).max() > 1e-3


def test_two_tokens_by_quadrature():
    a, u, beta = np.array([0.5, 0.1]), np.array([0.4, 0.1]), np.array([1.0, 1.0])
    result = simulate(Flow("logistic", beta=beta, V=np.outer(beta, u) / 2, a=a, t_end=1e30, rtol=1e-12, points=12))
    for k in (2, 6, 11):
        x = result["a"][k, 0] - result["a"][k, 1]
        assert exact.two_token_strength(x, a, u, 2.0) == pytest.approx(result["strength"][k], rel=CLOSED)


def test_the_sum_map_solves_a_linear_equation():
    a, u, b = np.array([1.0, 1.3, 0.6, 0.9]), np.array([0.2, -0.1, 0.3, 0.1]), 3.0
    beta = np.sqrt([1.0, 2.0])
    fields = {"beta": beta, "V": np.outer(beta, u) / b, "a": a}
    result = simulate(Flow("logistic", "sum", **fields, t_end=1e6, rtol=1e-12, points=30))
    # θ from one coordinate of a; everything else must follow
    part = result["a"][:, 0] - result["a"].mean(1)
    thetas = np.linspace(0, 3, 300_001)
    theta = np.interp(part, *_increasing(exact.sum_map_orbit(thetas, a, u, b)[0][:, 0], thetas))
    a_orbit, u_orbit = exact.sum_map_orbit(theta, a, u, b)
    np.testing.assert_allclose(result["a"] - result["a"].mean(1, keepdims=True), a_orbit, atol=1e-8)  # of interp
    np.testing.assert_allclose(result["u"] - result["u"].mean(1, keepdims=True), u_orbit, atol=1e-8)


def _increasing(x, y):
    """The stretch from the start on which x is monotonic, sorted for np.interp."""
    turn = np.flatnonzero(np.diff(np.sign(np.diff(x))))
    end = turn[0] + 1 if len(turn) else len(x)
    order = np.argsort(x[:end])
    return x[:end][order], y[:end][order]


@pytest.mark.parametrize("map", BUILT_IN)
def test_loss_rate_is_the_velocitys_square(map):
    for loss in ("logistic", "regression", "cross_entropy"):
        p = problem(loss, map, "value", 2)
        output = p.model_of().forward(p.map_of(), p.start())[1]
        velocity = p.model_of().velocity(p.loss_of(), p.map_of(), p.start())
        rate = exact.loss_rate(map, p.V, p.a, -p.loss_of().gradient(output))
        assert rate == pytest.approx(-sum(np.square(v).sum() for v in velocity.values()), rel=1e-13)


def test_square_rate_is_the_decay_of_gamma():
    beta = np.array([2.0, 1.0])
    spec = Flow("square", beta=beta, V=np.zeros((2, 3)), a=[0.3, 0.1, 0.0], t_end=20.0, rtol=1e-12, points=4000)
    result = simulate(spec)
    gamma = 1 - (result["u"] * result["weights"]).sum(1) / 5.0
    rate = exact.square_rate(result["weights"], result["u"], 5.0)
    assert (rate >= 1 / 3).all()
    measured = -np.gradient(np.log(gamma), result["t"], edge_order=2)
    late = (result["t"] > 0.1) & (gamma > 1e-7)
    np.testing.assert_allclose(measured[late], rate[late], rtol=1e-3)  # of the finite difference
    assert (gamma <= np.exp(-result["t"] / 3) + 1e-12).all()


def test_ratio_bound_holds_and_a_smaller_one_does_not():
    result = simulate(Flow(**figure_two(), t_end=1e12))
    u = result["u"]
    winner = int(u[0].argmax())
    ratios = np.delete(result["weights"], winner, axis=1).max(axis=1) / result["weights"][:, winner]
    bound = exact.ratio_bound(result["strength"], u[0])
    assert (ratios <= bound + 1e-12).all()
    assert (ratios[1:] > exact.ratio_bound(1e9 * result["strength"][1:], u[0])).any()


@pytest.mark.parametrize(("p", "b"), [(2, 1.0), (3, 0.5), (5, 1.0), (8, 2.0)])
def test_losers_weights_reach_their_constant(p, b):
    result = simulate(StrengthFlow(**figure_two(p=p, b=b, scale=0.5), strength_end=1e12, rtol=1e-12))
    winner = int(result["u"][-1].argmax())
    losers = np.delete(result["weights"], winner, axis=1)
    scaled = losers[1:] * result["log_t"][1:, None] ** 2
    limit = exact.loser_constant(b, p)
    spread = np.ptp(scaled, axis=1) / limit
    # equal in the mean to the first order, apart like Γ^(−2/p)
    assert np.abs(scaled[-1].mean() / limit - 1) < 1e-3
    assert np.abs(scaled[-1] / limit - 1).max() < max(1e-8, 20 * 1e12 ** -exact.approach_exponent(p))
    if p > 2:
        late = result["strength"][1:] > 1e6
        slope = np.polyfit(np.log(result["strength"][1:][late]), np.log(spread[late]), 1)[0]
        assert slope == pytest.approx(-exact.approach_exponent(p), rel=0.05)


def test_limits_of_time_strength_and_loss():
    b = 2.0
    result = simulate(Flow(**figure_two(b=b), t_end=1e300))
    log_t = np.log(result["t"][-1])
    assert result["t"][-1] * result["loss"][-1] == pytest.approx(exact.loss_limit(b), rel=1e-4)
    assert result["u"][-1].max() == pytest.approx(exact.winner_limit(log_t, b), abs=0.05)
    assert result["strength"][-1] == pytest.approx(exact.strength_limit(log_t, b), rel=0.05)


def test_a_square_map_is_one_hot_faster():
    fields = figure_two(p=4, scale=0.5) | {"a": np.ones(4)}
    result = simulate(Flow(**fields, map="square_norm", t_end=1e300))
    winner = int(result["u"][-1].argmax())
    visible = (np.abs(result["a"]) > 0).all(axis=1) & (result["t"] > 1e10)  # not yet below the least float
    a, t = np.abs(result["a"][visible]), result["t"][visible]
    ratio = 2 * np.log(a[:, [winner]] / np.delete(a, winner, axis=1))
    predicted = exact.square_map_log_ratio(np.log(t), 1.0, 4.0)
    assert predicted[-1] > 1000
    gap = np.abs(ratio.max(axis=1) / predicted - 1)
    assert gap[-1] < 0.1  # corrections fade like 1/log t
    assert gap[-1] < gap[0]


def test_matrix_rows_from_zero_stay_equal_and_polarize_slower():
    rng = np.random.default_rng(0)
    T, beta = 4, np.array([1.0, 0.0])
    V = 0.5 * rng.standard_normal((T, 2))
    result = simulate(Flow("logistic", model="matrix", beta=beta, A=np.zeros((T, T)), V=V, t_end=1e300))
    assert np.abs(result["A"] - result["A"][:, :1]).max() < 1e-12
    losers = np.sort(result["weights"][-1, 0])[:-1]
    limit = exact.loser_constant(1.0, T, slowdown=T)
    assert losers.mean() * np.log(1e300) ** 2 == pytest.approx(limit, rel=0.15)


def test_a_tied_column_grows_like_log_t():
    D = 4
    rng = np.random.default_rng(42)
    beta = rng.standard_normal(D)
    spec = Flow("logistic", model="tied", beta=beta, U=np.eye(D), a=1 + 0.1 * rng.standard_normal(D), t_end=1e200)
    result = simulate(spec)
    column = np.linalg.norm(result["U"][-1], axis=0).max()
    assert column == pytest.approx(exact.tied_column_limit(np.log(1e200), beta), rel=0.05)
