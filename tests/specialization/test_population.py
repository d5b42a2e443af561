"""The population loss: autograd on the same samples, sequences of actual vectors, invariances, honest errors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import softmaxlab as sl
from softmaxlab.attention import weights
from softmaxlab.errors import SpecError
from softmaxlab.specialization.heads import forward, learns_bias, learns_gain
from softmaxlab.specialization.population import gradient, loss, loss_over, slope_over
from softmaxlab.specialization.sampling import symmetric

sp = sl.specialization
ROUNDING = 1e-12
SURE = 4.5  # standard errors, over 8 sets (a t distribution) and some dozens of comparisons
P = np.array([[1.3, 0.4], [0.4, 0.8]])
FLIPPING = sp.FlippingSpike(nu=(2.0, 3.0))
UNEVEN = sp.Discrete([[2.0, 1.0], [1.0, -1.0], [0.0, 0.5]], [0.6, 0.3, 0.1])
MAPS = ("softmax", "softmax1", "bayes_softmax", "sigmoid")


def random_order(model, seed, p=None):
    rng = np.random.default_rng(seed)
    H, F = model.heads, model.features
    m, r, b = (rng.standard_normal(shape) for shape in ((H, F), (H, H), H))
    return sp.OrderParameters(m=m, r=r, b=b, v=1.3, p=p)


def torch_loss(model, m, r, b, v, p, drawn):
    """Ẽ of eqs. (10), (11) over given samples, by the maps of softmaxlab.attention."""
    m_hat = m @ torch.linalg.inv(torch.linalg.cholesky(torch.tensor(p))).T
    chi = torch.tensordot(torch.cat([m_hat, r], dim=1), torch.tensor(drawn.X), dims=1)
    total = torch.zeros(())
    given = {"bias": b} if learns_bias(model.map) else {}
    for s, weight in enumerate(drawn.weight):
        sigma = weights(model.map, chi[:, None, :, s], **given)[:, 0]
        w = (v if learns_gain(model.map) else 1.0) * sigma.mean(dim=0)
        total = total + weight * ((w - torch.eye(len(w), dtype=w.dtype)[0]) ** 2).sum()
    return total


@pytest.mark.parametrize("map", MAPS)
def test_loss_and_gradient_are_those_of_autograd(map):
    model = sp.SingleLocation(UNEVEN, length=4, heads=3, map=map)
    order = random_order(model, 0, P)
    sets = [symmetric(model, 4, (7, "loss", k), order.p) for k in range(8)]
    values = (order.m, order.r, order.b, order.v)
    tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in values]
    expected = sum(torch_loss(model, *tensors, P, drawn) for drawn in sets) / len(sets)
    gradients = torch.autograd.grad(expected, tensors, allow_unused=True, materialize_grads=True)
    assert loss(model, order, 4, seed=7)[0] == pytest.approx(expected.item(), rel=0, abs=ROUNDING)
    ours = gradient(model, order, 4, seed=7)
    for name, autograd in zip(("m", "r", "b", "v"), gradients):
        np.testing.assert_allclose(getattr(ours, name), autograd.numpy(), rtol=0, atol=ROUNDING, err_msg=name)


def test_the_noise_of_a_batch_is_the_mean_of_c_c():
    model = sp.SingleLocation(UNEVEN, length=4, heads=3)
    order = random_order(model, 1)
    drawn = symmetric(model, 256, seed=0)
    heads = forward("softmax", np.tensordot(order.K, drawn.X, axes=1), order.b, order.v)
    c = heads.pullback(heads.w - np.eye(4)[0][:, None])[0]
    expected = np.einsum("hln,gln,n->hg", c, c, drawn.weight)
    slope = slope_over("softmax", order.K, order.b, order.v, drawn, noise=True)
    np.testing.assert_allclose(slope.noise, expected, rtol=0, atol=ROUNDING)


def losses_of_sequences(model, heads, spikes, b, v, draws, rng):
    """Σ(w − e)² and |X_ε − ŷ|²/D of sequences drawn by eq. (2), ε included, seen through eq. (3)."""
    L, D = model.length, heads.shape[1]
    X = rng.standard_normal((draws, L, D))
    epsilon = rng.integers(L, size=draws)
    rows = np.arange(draws)
    X[rows, epsilon] += model.prior.theta(rng.random((draws, model.features))) @ spikes
    w = forward(model.map, np.einsum("hd,nld->hln", heads, X), b, v).w.T
    answer = np.einsum("nl,nld->nd", w, X)
    error = ((X[rows, epsilon] - answer) ** 2).sum(axis=1) / D
    w[rows, epsilon] -= 1
    return (w**2).sum(axis=1), error


@pytest.mark.parametrize("map", MAPS)
def test_the_loss_is_that_of_sequences_of_vectors(map):
    """Σ(w − e)² has the same mean at any D, with spikes of any overlaps; the error of eq. (5) tends to it with D."""
    model = sp.SingleLocation(FLIPPING, length=3, heads=2, map=map)
    rng = np.random.default_rng(2)
    gap = {}
    for D, draws in ((12, 100_000), (400, 10_000)):
        heads, spikes = rng.standard_normal((2, 2, D)) / np.sqrt(D)
        heads += [[1.0, 0.5], [1.0, -0.5]] @ spikes
        b, v = np.array([0.3, -0.2]), 1.2
        m, q, p = heads @ spikes.T, heads @ heads.T, spikes @ spikes.T
        order = sp.OrderParameters.from_q(m, q, b, v, p)
        ours, error = loss(model, order, 2**12, seed=0)
        squares, errors = losses_of_sequences(model, heads, spikes, b, v, draws, rng)
        assert abs(squares.mean() - ours) < SURE * np.hypot(error, squares.std() / np.sqrt(draws))
        without = loss(model, order.replace(p=np.eye(2)), 2**12, seed=0)[0]
        gap[D] = abs(errors.mean() - ours), abs(without - ours)
    assert gap[400][0] < 0.02  # measured below 0.01
    assert gap[12][1] > 0.01  # the control: the same m and r mean another loss with p = I


@pytest.mark.parametrize("prior", [UNEVEN, sp.Gaussian(covariance=[[2.0, 1.0], [1.0, 2.0]])])
def test_general_spikes_are_a_change_of_variables(prior):
    """Order parameters (m, p) of a prior of θ are (m̂, I) of the prior of θ̂ = L_pᵀ θ, on the same samples."""
    model = sp.SingleLocation(prior, length=4, heads=3)
    order = random_order(model, 3, P)
    L_p = np.linalg.cholesky(P)
    moved = (
        sp.Discrete(prior.points @ L_p, prior.probabilities)
        if isinstance(prior, sp.Discrete)
        else sp.Gaussian(covariance=L_p.T @ prior.matrix() @ L_p)
    )
    hatted = order.replace(m=order.m_hat, p=np.eye(2))
    ours, theirs = loss(model, order, 64, seed=1), loss(model.replace(prior=moved), hatted, 64, seed=1)
    assert ours[0] == pytest.approx(theirs[0], rel=0, abs=ROUNDING)


@given(seed=st.integers(0, 10**6), map=st.sampled_from(MAPS[:3]))
@settings(max_examples=30)
def test_the_order_of_heads_does_not_matter(seed, map):
    model = sp.SingleLocation(UNEVEN, length=3, heads=3, map=map)
    order = random_order(model, seed)
    turn = np.random.default_rng(seed).permutation(3)
    drawn = symmetric(model, 16, seed=0)
    one, other = (slope_over(map, order.K[i], order.b[i], order.v, drawn) for i in (np.arange(3), turn))
    assert one.loss == pytest.approx(other.loss, rel=0, abs=ROUNDING)
    np.testing.assert_allclose(one.K[turn], other.K, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(one.b[turn], other.b, rtol=0, atol=ROUNDING)


@given(seed=st.integers(0, 10**6), map=st.sampled_from(MAPS[:3]))
@settings(max_examples=8)
def test_only_r_r_transposed_matters(seed, map):
    model = sp.SingleLocation(FLIPPING, length=3, heads=2, map=map)
    order = random_order(model, seed)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((2, 2)))[0]
    one, other = loss(model, order, 2**10, seed=0), loss(model, order.replace(r=order.r @ turn), 2**10, seed=1)
    assert abs(one[0] - other[0]) < SURE * np.hypot(one[1], other[1])


def test_r_itself_matters():
    """The control of the test above: another r rᵀ is another loss."""
    model = sp.SingleLocation(FLIPPING, length=3, heads=2)
    order = random_order(model, 0)
    one, other = (
        loss(model, order, 2**10, seed=0),
        loss(model, order.replace(r=order.r @ np.diag([1, 2])), 2**10, seed=1),
    )
    assert abs(one[0] - other[0]) > 3 * SURE * np.hypot(one[1], other[1])


@given(seed=st.integers(0, 10**6), map=st.sampled_from(MAPS))
@settings(max_examples=12)
def test_no_loss_is_below_the_bayes_risk(seed, map):
    model = sp.SingleLocation(UNEVEN, length=3, heads=2, map=map)
    (value, error), (risk, risk_error) = loss(model, random_order(model, seed), 2**9, seed=0), model.bayes_risk(2**11)
    assert value > risk - SURE * np.hypot(error, risk_error)


def test_the_standard_error_is_honest():
    """Deviations from a far better value in standard errors, over 40 seeds: t with 7 degrees, root mean square 1.18."""
    model = sp.SingleLocation(sp.Gaussian(F=2, nu=(5.0, 1.0)), length=4, heads=2)
    order = random_order(model, 4)
    best = loss(model, order, 2**15, seed=0)[0]
    z = np.array([(value - best) / error for value, error in (loss(model, order, 64, seed=s) for s in range(1, 41))])
    assert 0.8 < np.sqrt((z**2).mean()) < 1.7


def test_the_model_gives_loss_and_gradient():
    model = sp.SingleLocation(FLIPPING, length=3, heads=2, map="softmax1")
    order = random_order(model, 5)
    arguments = (order.m, order.r, order.b, order.v)
    assert model.loss(*arguments, samples=64, seed=3) == loss(model, order, 64, seed=3)
    np.testing.assert_array_equal(model.gradient(*arguments, samples=64).r, gradient(model, order, 64, seed=0).r)
    uniform = model.replace(map="softmax").loss(np.zeros((2, 2)), np.zeros((2, 2)))
    assert uniform == pytest.approx((1 - 1 / 3, 0.0), rel=0, abs=ROUNDING)  # all tokens alike: Σ(1/L − e)² = 1 − 1/L


def test_chunks_add_up(monkeypatch):
    from softmaxlab.specialization import sampling

    model = sp.SingleLocation(UNEVEN, length=4, heads=3, map="softmax1")
    order = random_order(model, 6)
    whole = slope_over(model.map, order.K, order.b, order.v, symmetric(model, 64, seed=0), noise=True)
    monkeypatch.setattr(sampling, "CHUNK", 700)
    drawn = symmetric(model, 64, seed=0)
    parts = slope_over(model.map, order.K, order.b, order.v, drawn, noise=True)
    for name in ("loss", "K", "b", "v", "noise"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=0, atol=ROUNDING, err_msg=name)
    assert loss_over(model.map, order.K, order.b, order.v, drawn) == pytest.approx(whole.loss, rel=0, abs=ROUNDING)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"samples": "3"}, "samples must be a whole number from 1 up to 16777216, got '3'"),
        ({"samples": 100.5}, "samples must be a whole number"),
        ({"samples": 0}, "samples must be a whole number"),
        ({"samples": True}, "samples must be a whole number"),
        ({"samples": 2**30}, "samples must be a whole number"),
        ({"seed": -1}, "seed must be a whole number from 0, got -1"),
        ({"seed": None}, "seed must be a whole number"),
    ],
)
def test_bad_samples_and_seeds_are_named(arguments, message):
    model = sp.SingleLocation(FLIPPING, length=3, heads=2)
    for ask in (
        lambda: model.loss(np.eye(2), np.eye(2), **arguments),
        lambda: model.gradient(np.eye(2), np.eye(2), **arguments),
        lambda: model.bayes_risk(**arguments),
    ):
        with pytest.raises(SpecError, match=message):
            ask()
    assert model.bayes_risk(np.int64(64)) == model.bayes_risk(64)


@pytest.mark.parametrize("ask", ["loss", "gradient"])
@pytest.mark.parametrize(("m", "v", "message"), [(1e308, 1.0, r"m 1e\+308, r 1, b 0, v 1"), (1.0, 1e200, r"v 1e\+200")])
def test_a_loss_that_is_not_finite_is_refused_with_its_order_parameters(ask, m, v, message):
    model = sp.SingleLocation(FLIPPING, length=3, heads=2, map="softmax1")
    if ask == "gradient" and v > 1:
        v = 1e308  # the gradient in b is of the size of v²
    with pytest.raises(SpecError, match=f"the {ask} is not finite at order parameters as large as"):
        getattr(model, ask)(m * np.eye(2), np.eye(2), v=v, samples=64)
    with pytest.raises(SpecError, match=message):
        model.loss(m * np.eye(2), np.eye(2), v=min(v, 1e200), samples=64)


def test_a_map_without_a_loss_is_refused():
    """x/Σx has infinite second moments: the sampled loss never settles, and its flow does not end."""
    with pytest.raises(SpecError, match="'sum' divides by a sum that is 0"):
        sp.SingleLocation(FLIPPING, length=3, heads=2, map="sum")
    assert sp.SingleLocation(FLIPPING, length=3, heads=2, map="abs_norm")
