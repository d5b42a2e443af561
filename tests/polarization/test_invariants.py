"""What the flow conserves, and laws that every run obeys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softmaxlab import simulate
from softmaxlab.polarization import Flow, exact
from tests.polarization.flow_cases import FLOWING, LOSSES, MODELS, SMOOTH, fields, flow

DRIFT = 1e-9  # at rtol 1e-12, relative to the terms that the invariant subtracts
GROWTH = 1e-9  # by which rounding and rtol 1e-9 may raise a loss
PERMUTED = 1e-7  # two runs at rtol 1e-9 whose steps may differ


def drift(spec: Flow) -> dict[str, float]:
    result = simulate(spec)
    size = max(1.0, *(np.square(result[name]).max() for name in spec.start()))
    found = exact.invariants(spec, result.arrays)
    return {n: float(np.abs(value - value[0]).max() / max(size, np.abs(value[0]).max())) for n, value in found.items()}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("map", FLOWING)
def test_invariants_hold(map, model):
    for loss, p in (("logistic", 2), ("cross_entropy", 4)):
        for name, value in drift(flow(loss, map, model, p, t_end=100.0, p=p, points=30, rtol=1e-12)).items():
            assert value < DRIFT, (name, loss, p)


def test_which_invariants_there_are():
    def found(loss, map, model, **more):
        spec = flow(loss, map, model, 0, t_end=1.0, points=3, **more)
        return set(exact.invariants(spec, simulate(spec).arrays))

    assert found("logistic", "softmax", "value") == {"Σa", "V − β*uᵀ/b"}
    assert found("regression", "softmax", "value", p=2) == {"Σa", "‖V_0 − V_1‖² − 4 sinh²(½(a_0 − a_1))"}
    assert found("cross_entropy", "sigmoid", "value") == {"½‖V_i‖² − ΣF(a_i)"}
    assert found("cross_entropy", "linear", "matrix") == {"½‖V_i‖² − ΣF(a_i)", "VᵀV − aaᵀ"}
    assert found("kl", "square_norm", "tied") == {"‖a‖²"}
    assert found("square", "sigmoid", "value", freeze="a") == set()


def test_an_invariant_of_another_map_is_not_conserved():
    result = simulate(spec := flow("logistic", "sigmoid", "value", 0, t_end=100.0, points=30))
    for other in ("softmax", "square_norm", "relu"):
        for name, value in exact.invariants(spec.replace(map=other), result.arrays).items():
            if name != "V − β*uᵀ/b":  # which no map can break
                assert np.abs(value - value[0]).max() > 1e-3


@pytest.mark.parametrize("loss", ["logistic", "square"])
def test_invariants_in_u_as_the_paper_has_them(loss):
    rng = np.random.default_rng(5)
    beta = rng.standard_normal(3)
    b, u = beta @ beta, rng.standard_normal(2)
    base = {"loss": loss, "beta": beta, "V": np.outer(beta, u) / b, "t_end": 1e4, "rtol": 1e-12, "points": 50}
    two = simulate(Flow(**base, a=np.array([0.4, -0.3])))
    value = (two["u"][:, 0] - two["u"][:, 1]) ** 2 - 4 * b * np.sinh((two["a"][:, 0] - two["a"][:, 1]) / 2) ** 2
    np.testing.assert_allclose(value, value[0], rtol=DRIFT, atol=DRIFT * np.square(two["u"]).max())
    for map, primitive in exact.PRIMITIVES.items():
        run = simulate(Flow(**base, map=map, a=np.array([0.4, 0.8])))
        value = run["u"] ** 2 / (2 * b) - primitive(run["a"])
        assert np.abs(value - value[0]).max() < DRIFT * np.square(run["u"]).max()


problems = st.tuples(
    st.sampled_from(LOSSES), st.sampled_from(FLOWING), st.sampled_from(MODELS), st.integers(0, 999), st.integers(1, 5)
)


@settings(max_examples=40)
@given(problems)
def test_the_loss_never_grows_and_nothing_is_nan(case):
    loss, map, model, seed, p = case
    result = simulate(flow(loss, map, model, seed, t_end=50.0, p=p, points=40))
    assert all(np.isfinite(result[name]).all() for name in result)
    assert np.diff(result["loss"]).max(initial=0.0) < GROWTH * max(1.0, abs(result["loss"][0]))


@settings(max_examples=25)
@given(st.sampled_from(LOSSES), st.sampled_from(SMOOTH), st.sampled_from(["value", "matrix"]), st.integers(0, 999))
def test_tokens_may_be_renamed(loss, map, model, seed):
    given_fields = fields(loss, map, model, seed, p=4)
    order = np.random.default_rng(seed).permutation(4)
    renamed = dict(given_fields)
    if model == "value":
        renamed |= {"V": given_fields["V"][:, order], "a": given_fields["a"][order]}
    else:
        renamed |= {"V": given_fields["V"][order], "A": given_fields["A"][:, order]}
    first, second = (simulate(Flow(**x, t_end=10.0, points=5)) for x in (given_fields, renamed))
    assert first.status == second.status
    largest = np.abs(first["weights"]).max()
    np.testing.assert_allclose(first["weights"][..., order], second["weights"], rtol=0, atol=PERMUTED * largest)
    largest = max(1.0, np.abs(first["loss"]).max())
    np.testing.assert_allclose(first["loss"], second["loss"], rtol=0, atol=PERMUTED * largest)


@settings(max_examples=25)
@given(st.sampled_from(["softmax", "sparsemax", "entmax15"]), st.sampled_from(LOSSES), st.integers(0, 999))
def test_scores_keep_their_sum(map, loss, seed):
    result = simulate(flow(loss, map, "value", seed, t_end=1e3, points=10))
    np.testing.assert_allclose(result["a"].sum(1), result["a"][0].sum(), rtol=1e-12)


@settings(max_examples=15)
@given(st.sampled_from(LOSSES), st.sampled_from(["value", "matrix"]), st.sampled_from(["V", "a"]), st.integers(0, 999))
def test_what_is_frozen_stays(loss, model, freeze, seed):
    spec = flow(loss, "softmax", model, seed, t_end=20.0, points=4, freeze=freeze)
    result = simulate(spec)
    still = spec.frozen()
    for name, value in spec.start().items():
        moved = np.abs(result[name] - value).max()
        assert (moved < 1e-15) if name == still else (moved > 1e-9)
