"""Certificates of flows: each kind with its control, and what is certified stays where it is."""

import numpy as np
import pytest

import softmaxlab as sl
from softmaxlab.specialization.flow.velocity import Velocity
from softmaxlab.specialization.landscape import curvature
from softmaxlab.specialization.sampling import images

sp = sl.specialization
FLIPPING = sp.SingleLocation(sp.FlippingSpike(nu=(2.0, 2.0)), length=4, heads=2)
FIG4 = sp.SingleLocation(sp.Gaussian(F=3, nu=(20.0, 1.0)), length=5, heads=8)
EQUAL = sp.OrderParameters(m=[[0.3, 0.0], [0.3, 0.0]], r=np.zeros((2, 2)))  # heads that are equal stay so
SURE = 4.5  # standard errors
STAYS = 0.03  # relative: the certificate's own bound on the step to other samples
FOLLOWS = 0.02  # m at rtol = 1e-3 over a time in which heads part by e^5


def certified(**fields):
    result = sl.simulate(sp.Flow(**{"model": FLIPPING, "points": 2} | fields))
    found = result.notes["certificate"]
    assert result.notes["converged"] == (found["kind"] == "minimum")
    assert found["sentence"] in result.status.sentence
    return found


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"tau_end": 20.0, "samples": 256}, "moving"),
        ({"tau_end": 2000.0}, "minimum"),
        ({"tau_end": 2000.0, "samples": 64}, "undersampled"),
        ({"tau_end": 1000.0, "samples": 2**10, "sampling": "plain"}, "undersampled"),
        ({"tau_end": 2000.0, "samples": 2**10, "start": EQUAL}, "saddle"),
        ({"tau_end": 400.0, "samples": 256, "batch_noise": 0.3}, "moving"),
        ({"tau_end": 1000.0, "samples": 2**10, "model": FIG4}, "moving"),
    ],
)
def test_kinds(fields, kind):
    assert certified(**fields)["kind"] == kind


def test_a_saddle_has_the_curvature_of_the_landscape_and_rest_leaves_it():
    found = certified(tau_end=2000.0, samples=2**10, start=EQUAL)
    ended = sl.simulate(sp.Flow(FLIPPING, tau_end=2000.0, samples=2**10, start=EQUAL, points=2))
    apart = np.array([[0.0, 1.0], [0.0, -1.0]]) / np.sqrt(2)  # the heads split in the second feature
    expected, error = curvature(FLIPPING, sp.OrderParameters.at(ended), apart)
    assert abs(found["eigenvalue"] - expected) < SURE * np.hypot(found["eigenvalue_error"], error)
    assert found["escape_time"] == pytest.approx(-1 / found["eigenvalue"])
    assert certified(tau_end=200.0, samples=2**10, start=EQUAL, until="rest")["kind"] == "minimum"


def test_a_loss_that_hardly_falls_is_no_rest():
    """The loss is what `converged` looked at before; that of this flow falls by less than 1e-3 since half its time."""
    result = sl.simulate(sp.Flow(FIG4, tau_end=3000.0, samples=2**12, points=3))
    assert abs(result["loss"][1] - result["loss"][2]) < 1e-3
    assert result.notes["certificate"]["kind"] == "moving"


def test_rotations_of_r_are_no_saddles():
    order = sp.OrderParameters(m=np.eye(2), r=[[1.0, 0.3], [-0.2, 0.8]])
    velocity = Velocity(sp.Flow(FLIPPING, start=order, samples=2**14))
    y, kept = velocity.start, velocity.directions(velocity.start)
    assert kept.shape == (8, 7)
    (turn,) = np.linalg.svd(kept.T)[2][7:]
    turned = turn[4:].reshape(2, 2)
    np.testing.assert_allclose(order.r @ turned.T + turned @ order.r.T, 0, atol=1e-12)  # q⊥ stays
    slope = velocity.over(velocity.samples, y)
    assert abs(turn @ slope) < 0.01 * np.linalg.norm(slope)  # 0 but for the samples
    assert velocity.narrowed(y, 1, 64).directions(np.zeros(6)).shape == (6, 6)


def test_a_flat_direction_is_no_saddle():
    """Bayes-softmax is the same when all biases grow alike."""
    found = certified(model=FLIPPING.replace(map="bayes_softmax"), tau_end=200.0, samples=2**10, until="rest")
    assert found["kind"] == "minimum"
    assert abs(found["eigenvalue"]) < 1e-12


def test_a_flow_that_fails_has_a_certificate_too():
    spec = sp.Flow(FLIPPING.replace(map="softmax1"), tau_end=4000.0, solver="Euler", step=20.0, samples=64)
    assert sl.simulate(spec).notes["certificate"]["kind"] == "moving"


def test_the_way_to_rest_is_that_of_the_flow():
    spec = sp.Flow(FLIPPING, tau_end=200.0, record=(20.0, 50.0, 100.0), samples=2**12, until="rest")
    ours = sl.simulate(spec)
    tight = spec.replace(until="tau_end", solver="DOP853", rtol=1e-9, atol=1e-11)
    exact = sl.simulate(tight)
    np.testing.assert_allclose(ours["m"][: len(exact["tau"])], exact["m"], rtol=0, atol=FOLLOWS)
    later = sl.simulate(tight.replace(tau_end=1000.0, record=None, points=2))
    np.testing.assert_allclose(ours["m"][-1], later["m"][-1], rtol=0, atol=STAYS * np.linalg.norm(later["m"][-1]))


def test_rest_needs_a_flow_that_can_be_continued():
    with pytest.raises(sl.SpecError, match="until='rest' needs symmetric samples"):
        sp.Flow(FLIPPING, until="rest", sampling="plain")


SKEWED = sp.Discrete([[2.0, 1.0], [1.0, -1.0], [-2.0, 0.5]], [0.5, 0.3, 0.2])
TERNARY = sp.Discrete([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
FLOWS = [
    (sp.FlippingSpike(nu=(3.0, 1.0)), 2, "softmax", 0),
    (sp.OneHotSpikes(F=3, nu=6.0), 3, "softmax1", 1),
    (SKEWED, 3, "bayes_softmax", 2),
    (TERNARY, 2, "softmax1", 3),
    (sp.Gaussian(F=2, nu=(6.0, 2.0)), 2, "softmax", 4),
]


@pytest.mark.parametrize(
    ("prior", "heads", "map", "seed"), [FLOWS[0], *(pytest.param(*flow, marks=pytest.mark.slow) for flow in FLOWS[1:])]
)
def test_what_is_certified_does_not_move_in_ten_times_the_time_with_four_times_the_samples(prior, heads, map, seed):
    model = sp.SingleLocation(prior, length=4, heads=heads, map=map)
    spec = sp.Flow(model, tau_end=300.0, seed=seed, samples=2**10, points=2, until="rest")
    result = sl.simulate(spec)
    found = result.notes["certificate"]
    assert found["kind"] == "minimum"
    points = max(4 * spec.samples, result.notes["samples"] // images(prior))
    longer = sp.Flow(
        model, tau_end=9 * found["tau"], seed=seed + 100, samples=points, start=sp.OrderParameters.at(result), points=2
    )
    moved = sl.simulate(longer)
    size = np.sqrt(sum(np.square(moved[name][0]).sum() for name in ("m", "r", "b", "v")))
    for name in ("m", "b", "v"):
        assert np.linalg.norm(moved[name][-1] - moved[name][0]) < STAYS * size
    assert np.linalg.norm(moved["q"][-1] - moved["q"][0]) < 2 * STAYS * size**2
