"""What a flow returns: shapes, ends, notes, statuses; long horizons; one token and two thousand."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import softmaxlab as sl
from softmaxlab import SpecError, Status, simulate
from softmaxlab.core.ode import Limits
from softmaxlab.core.result import Outcome
from softmaxlab.polarization import Flow, StrengthFlow, register
from softmaxlab.polarization.flow import flow as flow_module
from softmaxlab.polarization.flow.flow import times
from tests.polarization import autograd
from tests.polarization.flow_cases import LOSSES, MODELS, figure_two, flow

TWO_SOLVERS = 1e-8  # relative: both at rtol 1e-10 or better, thousands of steps
ON_A_LINE = 1e-11  # of times at the solver's rtol of 1e-12
DEFAULT_ERROR = 1e-8  # of a flow at the default rtol 1e-9, between its steps too


def largest_difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


def test_first_entry_zero_last_entry_exact():
    for end in (1e-3, 1.0, 7.0, 1e5, 1.7e308):
        for points in (2, 3, 400):
            t = times(end, points)
            assert len(t) == points
            assert t[0] == 0.0
            assert t[-1] == end
            assert (np.diff(t) > 0).all()
    spec = Flow(**figure_two(), t_end=12345.678)
    result = simulate(spec)
    assert (result["t"][0], result["t"][-1], len(result["t"])) == (0.0, 12345.678, 400)
    np.testing.assert_allclose(result["V"][0], spec.V, atol=1e-16)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loss", LOSSES)
def test_arrays_and_their_axes(loss, model):
    spec = flow(loss, "softmax", model, 0, t_end=3.0, p=4, d=3, points=6)
    result = simulate(spec)
    shapes = {name: result[name].shape for name in result}
    tokens = {"value": (4,), "tied": (4,), "matrix": (4, 4)}[model]
    assert shapes["t"] == shapes["loss"] == (6,)
    assert shapes["weights"] == (6, *tokens)
    for name, value in spec.start().items():
        assert shapes[name] == (6, *value.shape)
        np.testing.assert_allclose(result[name][0], value, atol=1e-15)
    assert ("u" in result) == (loss in ("logistic", "square", "regression"))
    assert ("strength" in result) == (loss == "logistic" and model == "value")
    assert result.notes["evaluations"] > 0
    assert result.axes["weights"] == (("t", "query", "token") if model == "matrix" else ("t", "token"))


def test_u_is_the_projection_and_strength_its_clock():
    result = simulate(spec := Flow(**figure_two(p=5, b=3.0), t_end=1e6, rtol=1e-11))
    np.testing.assert_allclose(result["u"], result["V"].transpose(0, 2, 1) @ spec.beta, atol=1e-12)
    # Σs = 1, so Σu grows by bΓ
    grown = result["u"].sum(1) - result["u"][0].sum()
    np.testing.assert_allclose(grown, 3.0 * result["strength"], rtol=1e-9, atol=1e-12)
    margin = (result["u"] * result["weights"]).sum(1)
    np.testing.assert_allclose(result["loss"], np.logaddexp(0, -margin), rtol=1e-12)
    regression = simulate(spec := flow("regression", "softmax", "value", 0, t_end=1.0, points=3))
    np.testing.assert_allclose(regression["u"], regression["V"].transpose(0, 2, 1) @ spec.X.T @ spec.beta, atol=1e-13)


def test_square_has_a_strength_when_values_start_along_beta():
    base = figure_two(p=4) | {"loss": "square", "a": np.array([0.3, 0.2, 0.1, 0.0])}
    assert "strength" not in simulate(Flow(**base, t_end=1.0, points=3))
    for V in (np.zeros((4, 4)), np.outer(base["beta"], [0.1, 0.2, 0.0, -0.1])):
        result = simulate(Flow(**base | {"V": V}, t_end=50.0, rtol=1e-12))
        speed = np.gradient(result["strength"], result["t"])[5:-1]
        gamma = 1 - (result["u"] * result["weights"]).sum(1)[5:-1]
        np.testing.assert_allclose(speed, gamma, atol=0.01)  # a finite difference on a coarse grid
        np.testing.assert_allclose(result["u"].sum(1) - result["u"][0].sum(), result["strength"], atol=1e-11)


def test_reduced_and_full_values_give_the_same_flow():
    # a square loss whose V(0) is 1e-9 off the line of β* is integrated in full, the one on it in (a, u)
    base = figure_two(p=4) | {"loss": "square", "a": np.array([0.3, 0.2, 0.1, 0.0])}
    V = np.outer(base["beta"], [0.1, 0.2, 0.0, -0.1])
    on, off = (Flow(**base | {"V": V + shift}, t_end=100.0, rtol=1e-12) for shift in (0.0, 1e-9 * np.eye(4)))
    assert largest_difference(simulate(on)["V"], simulate(off)["V"]) < 1e-7
    assert "strength" in simulate(on)
    assert "strength" not in simulate(off)


@pytest.mark.parametrize("t_end", [1e12, 1e100])
def test_long_logistic_flow_against_implicit_autograd(t_end):
    spec = Flow(**figure_two(p=2, scale=1.0), t_end=t_end, rtol=1e-11, points=9)
    flat = autograd.Flat(spec)
    grid = np.log1p(times(t_end, 9))
    slope = lambda tau, y: np.exp(tau) * flat.velocity(y)  # noqa: E731
    run = solve_ivp(slope, (0, grid[-1]), flat.pack(flat.start), "Radau", grid, rtol=1e-10, atol=1e-12)
    reference = [flat.unpack(y) for y in run.y.T]
    result = simulate(spec)
    for name in ("a", "V"):
        assert largest_difference(result[name], np.array([at[name] for at in reference])) < TWO_SOLVERS


@pytest.mark.parametrize("t_end", [1e5, 1e12, 1e100, 1e300])
def test_default_accuracy_at_every_recorded_time(t_end):
    spec = Flow(**figure_two(), t_end=t_end)
    result, tight = simulate(spec), simulate(spec.replace(rtol=1e-13, solver="LSODA"))
    for name in ("a", "u"):
        error = np.abs(result[name] - tight[name]).max(axis=1) / np.maximum(np.abs(tight[name]).max(axis=1), 1e-3)
        assert error.max() < DEFAULT_ERROR
    assert result.notes["evaluations"] < 8000


def test_stiff_cross_entropy_against_radau():
    spec = flow("cross_entropy", "softmax", "value", 0, t_end=1e6, p=4, d=4, rtol=1e-10, points=20)
    result, other = simulate(spec), simulate(spec.replace(solver="Radau"))
    assert (result.notes["solver"], other.notes["solver"]) == ("LSODA", "Radau")
    assert result.notes["evaluations"] < 20_000
    for name in ("a", "V", "loss"):
        assert largest_difference(result[name], other[name]) < TWO_SOLVERS


def test_a_flow_at_rest_is_not_followed_to_its_end():
    for loss in ("square", "regression", "cross_entropy"):
        spec = flow(loss, "softmax", "value", 0, t_end=1e100, rtol=1e-11, points=200)
        result, short = simulate(spec), simulate(spec.replace(t_end=1e3))
        assert result.status.ok
        assert 1e3 < result.notes["at_rest_from"] < 1e9
        assert "at_rest_from" not in short.notes
        for name in ("a", "V"):
            assert largest_difference(result[name][-1], short[name][-1]) < TWO_SOLVERS
            np.testing.assert_array_equal(result[name][-1], result[name][-2])


def test_what_still_moves_is_not_at_rest():
    separable = simulate(flow("dataset", "softmax", "value", 0, t_end=1e100).replace(X=np.ones((5, 3)), target=None))
    assert "at_rest_from" not in separable.notes
    assert np.abs(separable["V"][-1] - separable["V"][-40]).max() > 1.0
    # a gradient that was small from the start, and a saddle that takes its time
    register(lambda output: 1e-12 * (output @ output), name="faint")
    faint = {"loss": "faint", "V": np.ones((2, 2)), "a": np.zeros(2)}
    assert np.abs(simulate(Flow(**faint, t_end=1e14))["V"][-1]).max() < 1e-3
    saddle = flow("square", "linear", "value", 0, t_end=1e6)
    saddle = saddle.replace(V=1e-12 * saddle.V, a=1e-12 * saddle.a)
    assert simulate(saddle)["loss"][-1] < 1e-12


@pytest.mark.parametrize(("map", "a", "rtol"), [("square_norm", (1, 0.8, 0), 1e-9), ("softmax", (0.1, 0, 0), 1e-4)])
def test_a_slow_direction_is_followed_long_after_the_fast_one_has_settled(map, a, rtol):
    X = np.diag([1.0, 1e-4])
    spec = Flow("regression", map=map, beta=X @ [1, 1], X=X, V=np.zeros((2, 3)), a=a, t_end=1e10, rtol=rtol)
    result = simulate(spec)
    np.testing.assert_allclose(result["V"][-1] @ result["weights"][-1], [1, 1], atol=10 * rtol)


def test_one_token_has_weight_one():
    for loss in LOSSES:
        for model in MODELS:
            result = simulate(flow(loss, "softmax", model, 0, t_end=100.0, p=1, d=2, points=5))
            assert result.status.ok
            assert (result["weights"] == 1).all()


def test_two_thousand_tokens():
    rng = np.random.default_rng(0)
    fields = figure_two(p=4) | {"V": 0.1 * rng.standard_normal((4, 2000)), "a": np.zeros(2000)}
    result = simulate(Flow(**fields, t_end=1e6, points=10))
    assert result.status.ok
    np.testing.assert_allclose(result["weights"].sum(1), 1.0, rtol=1e-12)
    assert result["V"].shape == (10, 4, 2000)


def test_values_too_large_to_keep_are_kept_at_both_ends(monkeypatch):
    monkeypatch.setattr("softmaxlab.polarization.problem.BYTES", 1000)
    for loss in ("logistic", "square"):
        spec = Flow(**figure_two(p=4) | {"loss": loss}, t_end=10.0)
        result = simulate(spec)
        assert result["V"].shape == (2, 4, 4)
        assert result.axes["V"] == ("end", "feature", "token")
        assert "memory" in result.notes["V"]
        np.testing.assert_allclose(result["V"][0], spec.V, atol=1e-15)
        np.testing.assert_allclose(result["V"][-1].T @ spec.beta, result["u"][-1], atol=1e-12)


def test_solver_can_be_chosen():
    spec = Flow(**figure_two(p=3), t_end=100.0, points=4)
    results = {name: simulate(spec.replace(solver=name)) for name in ("DOP853", "LSODA", "BDF", "Radau")}
    for name, result in results.items():
        assert result.notes["solver"] == name
        assert largest_difference(result["u"], results["DOP853"]["u"]) < 1e-6
    with pytest.raises(SpecError, match="solver"):
        spec.replace(solver="Euler")


def test_literal_kl_with_the_sum_map_meets_a_singularity():
    result = simulate(flow("kl", "sum", "value", 1, t_end=1e4))
    assert result.status.outcome is Outcome.SINGULAR
    assert "Σf(a) reaches 0" in result.status.sentence
    assert 1 < len(result["t"]) < 400
    assert all(np.isfinite(result[name]).all() for name in result)


ENDLESS = [(2, "LSODA", "grow beyond"), (3, "DOP853", "run to infinity")]


@pytest.mark.parametrize(("power", "solver", "sentence"), ENDLESS)
def test_a_loss_without_a_floor_diverges_with_a_status(power, solver, sentence):
    @register(name=f"downhill_{power}")
    def downhill(output, beta):
        return -((output @ beta) ** power)

    fields = figure_two(p=2) | {"loss": f"downhill_{power}", "V": np.ones((2, 2)), "beta": np.ones(2)}
    result = simulate(Flow(**fields, t_end=1e9, solver=solver))
    assert result.status.outcome is Outcome.DIVERGED
    assert sentence in result.status.sentence
    assert all(np.isfinite(result[name]).all() for name in result)


def test_a_run_that_gets_nowhere_stops(monkeypatch):
    monkeypatch.setattr(flow_module, "LIMITS", Limits(evaluations=500, size=1e100))
    result = simulate(flow("cross_entropy", "softmax", "value", 0, t_end=1e6, solver="DOP853"))
    assert result.status.outcome is Outcome.LIMIT
    assert "choose another solver" in result.status.sentence


def test_result_survives_the_store(tmp_path):
    spec = Flow(**figure_two(p=3), t_end=10.0, points=5)
    store = sl.Store(tmp_path)
    first, second = simulate(spec, store), simulate(spec, store)
    assert first.status == second.status == Status()
    np.testing.assert_array_equal(first["V"], second["V"])
    assert sl.from_json(spec.json_text()) == spec
    longer = spec.replace(t_end=1e100)
    assert longer.key != spec.key
    assert simulate(longer)["t"][-1] == 1e100


def test_torch_arrays_are_welcome():
    given = {name: torch.tensor(x) if isinstance(x, np.ndarray) else x for name, x in figure_two(p=3).items()}
    assert Flow(**given, t_end=1.0) == Flow(**figure_two(p=3), t_end=1.0)


def test_the_same_spec_gives_the_same_bits():
    spec = flow("square", "sigmoid", "matrix", 0, t_end=30.0)
    np.testing.assert_array_equal(simulate(spec)["A"], simulate(spec)["A"])


def test_strength_flow_is_the_flow_on_another_clock():
    fields = figure_two(p=4, b=2.0, scale=0.5)
    slow = simulate(Flow(**fields, t_end=1e250, rtol=1e-12, points=8))
    for k in (1, 3, 7):
        orbit = simulate(StrengthFlow(**fields, strength_end=slow["strength"][k], points=30, rtol=1e-12))
        assert orbit["log_t"][0] == -np.inf
        assert (np.diff(orbit["log_t"][1:]) > 0).all()
        assert orbit["log_t"][-1] == pytest.approx(np.log(slow["t"][k]), abs=1e-8)
        np.testing.assert_allclose(orbit["u"][-1], slow["u"][k], rtol=1e-9)
        np.testing.assert_allclose(orbit["V"][-1], slow["V"][k], rtol=0, atol=1e-8)


@pytest.mark.parametrize("map", ["sparsemax", "relu_norm", "linear_norm", "square_norm", "sigmoid"])
def test_strength_flow_of_other_maps(map):
    fields = figure_two(p=4, b=2.0, scale=0.5) | {"map": map, "a": np.array([0.3, 0.1, 0.2, 0.25])}
    slow = simulate(Flow(**fields, t_end=1e20, rtol=1e-12, points=3))
    orbit = simulate(StrengthFlow(**fields, strength_end=slow["strength"][-1], points=9, rtol=1e-12))
    assert orbit.notes["events"] == slow.notes["events"]
    assert orbit["log_t"][-1] == pytest.approx(np.log(1e20), abs=1e-8)
    np.testing.assert_allclose(orbit["u"][-1], slow["u"][-1], rtol=1e-8)


@pytest.mark.parametrize("end", [1e-3, 1.0, 1e3, 1e12])
@pytest.mark.parametrize("size", [0.5, 300.0, -3000.0])
def test_time_is_exact_where_the_margin_is_a_line(end, size):
    """With fixed scores m = m₀ + cΓ, so t = Γ + e^{m₀}(e^{cΓ} − 1)/c, for m₀ of 0.3, 189 and −1885."""
    fields = figure_two(p=5, b=2.0, scale=size)
    s = np.full(5, 0.2)
    m0, c = float(fields["beta"] @ fields["V"] @ s), 2.0 * 0.2
    result = simulate(StrengthFlow(**fields, freeze="a", strength_end=end, points=40, rtol=1e-12))
    strength = result["strength"][1:]
    exact = np.logaddexp(np.log(strength), m0 + c * strength + np.log(-np.expm1(-c * strength) / c))
    np.testing.assert_allclose(result["log_t"][1:], exact, rtol=ON_A_LINE)


@pytest.mark.parametrize("p", [2, 3, 5, 8, 50])
def test_time_on_long_orbits_does_not_depend_on_where_it_is_asked(p):
    """Each point asked for has patches of its own."""
    fields = figure_two(p)
    few, many = (simulate(StrengthFlow(**fields, strength_end=1e12, points=n, rtol=1e-12)) for n in (32, 302))
    np.testing.assert_allclose(many["strength"][1::10], few["strength"][1:], rtol=1e-14)
    np.testing.assert_allclose(many["log_t"][1::10], few["log_t"][1:], rtol=1e-11, atol=1e-11)


def test_strength_flow_ends_where_the_orbit_does():
    result = simulate(StrengthFlow(**figure_two(p=3) | {"map": "sum", "a": np.ones(3)}, strength_end=1e6))
    assert result.status.outcome is Outcome.SINGULAR
    assert "strength ≈" in result.status.sentence


def test_strength_flow_is_for_the_logistic_value_model():
    with pytest.raises(SpecError, match=r"needs model='value' and a loss of the margin .* got 'square'"):
        StrengthFlow(**figure_two() | {"loss": "square"}, strength_end=1.0)
    with pytest.raises(SpecError, match="strength_end"):
        StrengthFlow(**figure_two(), strength_end=0.0)
