"""The flow: solvers against each other and against hand-made steps, free r, general spikes, starts, accidents."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.core.spec import from_json
from softmaxlab.specialization.flow.velocity import Velocity
from softmaxlab.specialization.population import slope_over
from softmaxlab.specialization.sampling import symmetric

sp = sl.specialization
ROUNDING = 1e-12
SURE = 4.5  # standard errors
FLIPPING = sp.SingleLocation(sp.FlippingSpike(nu=(2.0, 2.0)), length=4, heads=2)
UNEVEN = sp.Discrete([[2.0, 1.0], [1.0, -1.0], [0.0, 0.5]], [0.6, 0.3, 0.1])
P = np.array([[1.3, 0.4], [0.4, 0.8]])
STRICT = {"rtol": 1e-9, "atol": 1e-11}
AGREE = 1e-6  # of solvers at local error 1e-9, over hundreds of steps
# where free and symmetric r part most, of sixty random starts
APART = sp.OrderParameters(m=[[1.4, 0.55], [0.9, -0.25]], r=[[3.3, 0.0], [2.1, 0.1]])

NEAR = sp.OrderParameters(m=[[0.3, 0.1], [0.0, -0.2]], r=[[1.5, 0.0], [-1.2, 0.6]])


def q_perp(result):
    return result["r"][-1] @ result["r"][-1].T


@pytest.mark.parametrize("map", ["softmax", "softmax1", "bayes_softmax", "sigmoid"])
def test_solvers_agree(map):
    spec = sp.Flow(FLIPPING.replace(map=map), tau_end=8.0, samples=64, points=5, **STRICT)
    results = [sl.simulate(spec.replace(solver=solver)) for solver in ("RK45", "DOP853", "LSODA")]
    for other in results[1:]:
        for name in ("m", "q", "b", "v", "loss"):
            np.testing.assert_allclose(other[name], results[0][name], rtol=0, atol=AGREE, err_msg=name)


def test_the_default_tolerance_is_finer_than_the_samples():
    spec = sp.Flow(FLIPPING, tau_end=50.0, points=5)
    coarse, fine = sl.simulate(spec), sl.simulate(spec.replace(**STRICT))
    other = sl.simulate(spec.replace(start=spec.order(), seed=1, **STRICT))
    by_steps, by_samples = (np.abs(x["m"] - fine["m"]).max() for x in (coarse, other))
    assert by_steps < by_samples  # measured: 0.8; .15 before half of the points were reflected, by_samples was .005


def test_euler_is_of_first_order():
    spec = sp.Flow(FLIPPING, tau_end=2.0, samples=32, points=2)
    exact = sl.simulate(spec.replace(solver="DOP853", **STRICT))["m"][-1]
    steps = np.array([0.1, 0.05, 0.025])
    errors = [np.abs(sl.simulate(spec.replace(solver="Euler", step=h))["m"][-1] - exact).max() for h in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 0.9 < slope < 1.1


@pytest.mark.parametrize("map", ["softmax", "softmax1", "bayes_softmax"])
def test_two_steps_of_euler_by_hand(map):
    model = FLIPPING.replace(map=map)
    spec = sp.Flow(model, tau_end=0.3, solver="Euler", step=0.2, samples=32, record=(0.1, 0.2), seed=4)
    result = sl.simulate(spec)
    np.testing.assert_array_equal(result["tau"], [0.0, 0.1, 0.2, 0.3])
    order, drawn = spec.order(), symmetric(model, 32, seed=4, paired=True)
    K, b, v = order.K, order.b, order.v
    for step, at in ((0.2, 2), (0.1, 3)):  # the last step is cut at tau_end
        slope = slope_over(map, K, b, v, drawn)
        K = K - step * slope.K
        b = b - step * slope.b * (map != "softmax")
        v = v - step * slope.v * (map == "softmax1")
        expected = {"m": K[:, :2], "r": K[:, 2:], "q": K @ K.T, "b": b, "v": v}
        for name, value in expected.items():
            np.testing.assert_allclose(result[name][at], value, rtol=0, atol=ROUNDING, err_msg=name)
    np.testing.assert_allclose(result["m"][1], (result["m"][0] + result["m"][2]) / 2, rtol=0, atol=ROUNDING)


def test_a_step_with_the_noise_of_batches_by_hand():
    spec = sp.Flow(FLIPPING, tau_end=0.1, solver="Euler", step=0.1, samples=32, start=NEAR, points=2, batch_noise=0.7)
    q = NEAR.r @ NEAR.r.T
    values, vectors = np.linalg.eigh(q)
    r = vectors * np.sqrt(values) @ vectors.T
    slope = slope_over(
        "softmax", np.hstack([NEAR.m, r]), NEAR.b, 1.0, symmetric(FLIPPING, 32, seed=0, paired=True), noise=True
    )
    grad = slope.K[:, 2:]
    expected = q - 0.1 * (grad @ r.T + r @ grad.T) + 0.1 * 0.7 * slope.noise
    np.testing.assert_allclose(q_perp(sl.simulate(spec)), expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("batch_noise", [0.0, 0.3])
def test_the_jacobian_is_the_derivative_of_the_velocity(batch_noise):
    """Over few samples, all of which it takes; over more it is that of another sampled loss."""
    spec = sp.Flow(FLIPPING.replace(map="softmax1"), start=NEAR, tau_end=30.0, samples=64, batch_noise=batch_noise)
    velocity = Velocity(spec)
    direction = np.random.default_rng(0).standard_normal(velocity.start.size)
    if batch_noise:  # q⊥ is symmetric
        direction[4:8] = (direction[4:8] + direction[[4, 6, 5, 7]]) / 2
    ahead, behind = (velocity(0.0, velocity.start + h * direction) for h in (1e-5, -1e-5))
    found = velocity.jacobian(0.0, velocity.start) @ direction
    np.testing.assert_allclose(found, (ahead - behind) / 2e-5, rtol=0, atol=1e-4)  # one-sided differences of 1e-6


def test_free_r_is_the_flow_of_its_square_and_symmetric_r_is_not():
    """dq⊥/dτ = −(∇_r rᵀ + r ∇_rᵀ) integrated in q⊥ (here with no noise to speak of), and in free r."""
    spec = sp.Flow(FLIPPING, tau_end=10.0, start=APART, points=2, samples=2**14)
    free, squared = q_perp(sl.simulate(spec)), q_perp(sl.simulate(spec.replace(batch_noise=1e-12)))
    np.testing.assert_allclose(free, squared, rtol=0, atol=0.06)  # two samplings; measured 0.02
    drawn, K = symmetric(FLIPPING, 2**11, seed=0), APART.K
    values, vectors = np.linalg.eigh(APART.r @ APART.r.T)
    K[:, 2:] = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    for _ in range(200):
        K -= 0.05 * (slope := slope_over("softmax", K, APART.b, 1.0, drawn).K)
        K[:, 2:] += 0.05 * (slope[:, 2:] - slope[:, 2:].T) / 2
    assert np.abs(K[:, 2:] @ K[:, 2:].T - free).max() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("start", "batch_noise", "seeds"), [(APART, 0.005, 4), (NEAR, 1.0, 24)])
def test_the_flow_is_the_limit_of_sgd(start, batch_noise, seeds):
    """q⊥ at τ = 10 in dimension 400: SGD against the flow with its batches' noise, and without, where that is large."""
    lr, dim = 0.05, 400
    sgd = sp.SGD(FLIPPING, dim=dim, batch=round(lr * dim / batch_noise), lr=lr, tau_end=10.0, start=start, points=2)
    found = [q_perp(sl.simulate(sgd.replace(seed=seed))) for seed in range(seeds)]
    spec = sp.Flow(FLIPPING, tau_end=10.0, start=start, points=2, samples=2**14)
    with_noise, without = (q_perp(sl.simulate(spec.replace(batch_noise=noise))) for noise in (batch_noise, 0.0))
    error = np.std(found, axis=0).max() / np.sqrt(seeds)
    tolerance = SURE * error + 0.02 * np.abs(without).max()  # 1/D and lr each make an error of a percent
    assert np.abs(np.mean(found, axis=0) - with_noise).max() < tolerance
    if batch_noise > 0.1:
        assert np.abs(np.mean(found, axis=0) - without).max() > 2 * tolerance


def test_general_spikes_are_a_change_of_variables():
    """The flow with p is the flow with p = I of the prior of θ̂ = L_pᵀ θ, and another one than with p left out."""
    model = sp.SingleLocation(UNEVEN, length=4, heads=2)
    start = sp.OrderParameters(m=[[0.3, 0.1], [-0.2, 0.2]], r=np.eye(2), p=P)
    L_p = np.linalg.cholesky(P)
    hatted = model.replace(prior=sp.Discrete(UNEVEN.points @ L_p, UNEVEN.probabilities))
    spec = sp.Flow(model, tau_end=5.0, start=start, samples=64, points=4, **STRICT)
    result = sl.simulate(spec)
    moved = sl.simulate(spec.replace(model=hatted, start=start.replace(m=start.m_hat, p=np.eye(2))))
    for name, expected in {"m": moved["m"] @ L_p.T, "q": moved["q"], "loss": moved["loss"]}.items():
        np.testing.assert_allclose(result[name], expected, rtol=0, atol=AGREE, err_msg=name)
    np.testing.assert_allclose(
        result["q"],
        result["m"] @ np.linalg.solve(P, result["m"].swapaxes(1, 2)) + result["r"] @ result["r"].swapaxes(1, 2),
    )
    orthogonal = sl.simulate(spec.replace(spikes="orthogonal"))
    np.testing.assert_array_equal(orthogonal["p"], np.eye(2))
    np.testing.assert_array_equal(orthogonal["r"][0], start.r)
    assert np.abs(orthogonal["m"][-1] - result["m"][-1]).max() > 0.05


def test_heads_that_trade_places_have_flows_that_do():
    model = sp.SingleLocation(UNEVEN, length=3, heads=3, map="softmax1")
    spec = sp.Flow(model, tau_end=3.0, samples=32, points=3, solver="RK45", **STRICT)
    order, turn = spec.order(), [2, 0, 1]
    other = spec.replace(start=order.replace(m=order.m[turn], r=order.r[turn], b=order.b[turn]))
    one, two = sl.simulate(spec), sl.simulate(other)
    for name in ("m", "r", "b"):
        np.testing.assert_allclose(two[name], one[name][:, turn], rtol=0, atol=AGREE)


@pytest.mark.parametrize("solver", ["RK45", "LSODA"])
def test_the_sampled_loss_never_rises(solver):
    spec = sp.Flow(FLIPPING, tau_end=60.0, samples=256, points=30, solver=solver)
    result = sl.simulate(spec)
    drawn = symmetric(FLIPPING, 256, seed=0, paired=True)
    K = np.concatenate([result["m"], result["r"]], axis=2)
    losses = [slope_over("softmax", k, b, 1.0, drawn).loss for k, b in zip(K, result["b"])]
    assert (np.diff(losses) < 0).all()


def test_the_loss_is_out_of_sample_with_its_error():
    few = sl.simulate(sp.Flow(FLIPPING, tau_end=200.0, samples=8, points=4))
    value, error = FLIPPING.loss(few["m"][-1], few["r"][-1])
    assert abs(few["loss"][-1] - value) < SURE * np.hypot(few["loss_error"][-1], error)
    assert few.notes["train_loss"] < value - 0.03  # 16 samples, half of them reflected, are learnt by heart
    many = sl.simulate(sp.Flow(FLIPPING, tau_end=200.0, points=4))
    assert abs(many.notes["train_loss"] - many["loss"][-1]) < 0.01
    assert many["loss"][-1] < value - 0.01


def test_a_result_starts_another_flow_at_its_first_time():
    sgd = sl.simulate(sp.SGD(FLIPPING, dim=50, batch=20, lr=0.02, tau_end=0.2, seed=3))
    flow = sp.Flow(FLIPPING, tau_end=1.0, start=sgd, samples=64)
    assert from_json(flow.json_text()) == flow
    result = sl.simulate(flow)
    for name in ("m", "q", "b", "v"):
        np.testing.assert_allclose(result[name][0], sgd[name][0], rtol=0, atol=ROUNDING, err_msg=name)
    np.testing.assert_array_equal(result["p"], sgd["p"])
    assert sp.Flow(FLIPPING, tau_end=1.0, start=result, samples=64) == flow
    overlaps = {"m": sgd["m"][0], "q": sgd["q"][0], "p": sgd["p"]}
    np.testing.assert_allclose(sp.Flow(FLIPPING, start=overlaps).order().q, sgd["q"][0], rtol=0, atol=ROUNDING)


def test_fresh_samples_change_at_every_step():
    spec = sp.Flow(FLIPPING, tau_end=0.4, solver="Euler", step=0.1, samples=200, points=5)
    fixed, fresh, again = (
        sl.simulate(spec.replace(sampling=sampling))["m"] for sampling in ("plain", "fresh", "fresh")
    )
    np.testing.assert_array_equal(fresh, again)
    assert np.abs(fresh - fixed).max() > 1e-3
    velocities = np.diff(fresh, axis=0)
    assert np.abs(np.diff(velocities, axis=0)).max() > 5 * np.abs(np.diff(fixed, n=2, axis=0)).max()


def test_recorded_times_and_shapes():
    result = sl.simulate(sp.Flow(FLIPPING, tau_end=0.7, points=4, samples=16))
    assert result["tau"].tolist()[:: len(result["tau"]) - 1] == [0.0, 0.7]
    assert {result[name].shape for name in ("m", "r", "q")} == {(4, 2, 2)}
    assert {result[name].shape for name in ("tau", "v", "loss", "loss_error")} == {(4,)}
    assert result.axes["m"] == ("tau", "head", "feature")


def test_the_solver_follows_the_time_and_the_map():
    assert sp.Flow(FLIPPING, tau_end=500.0).chosen_solver() == "RK45"
    assert sp.Flow(FLIPPING, tau_end=501.0).chosen_solver() == "LSODA"
    assert sp.Flow(FLIPPING.replace(map="softmax1"), tau_end=30.0).chosen_solver() == "LSODA"


def test_many_flows_are_each_as_alone():
    specs = [sp.Flow(FLIPPING, tau_end=2.0, samples=64, points=3, seed=seed) for seed in range(3)]
    for spec, result in zip(specs, sp.flow_many(specs, jobs=2), strict=True):
        np.testing.assert_array_equal(result["m"], sl.simulate(spec)["m"])
