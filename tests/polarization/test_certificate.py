"""The certificates of flows and descents: numerics, movement, curvature, each with a case in which it must object."""

import numpy as np
import pytest
import torch

from softmaxlab import simulate
from softmaxlab.polarization import Descent, Flow, StrengthFlow, exact, gradient_flow
from softmaxlab.polarization.certificate import BALANCE, DENSE, TRUSTED, balance_drift
from softmaxlab.polarization.flow.field import Field
from tests.polarization.flow_cases import LOSSES, MODELS, figure_two, flow, problem

LOGISTIC = figure_two()
SQUARE = LOGISTIC | {"loss": "square"}
TO_BALANCE = 1e-6  # how well the recorded times of a default flow balance, a tenth of what is tolerated
NEAR = 1e-6  # a closed form against central differences
CONSERVED = 1e-10  # each step conserves Σa up to round-off, whatever its error; processors differ by a few 1e-12


def certified(result) -> dict:
    found = result.notes["certificate"]
    assert result.notes["converged"] == (found["kind"] == "minimum")
    return found


@pytest.mark.parametrize("t_end", [10.0, 1e12, 1e100, 1e300])
def test_a_logistic_flow_is_moving_at_any_time(t_end):
    found = certified(simulate(Flow(**LOGISTIC, t_end=t_end)))
    assert found["kind"] == "moving"
    assert found["since"] == pytest.approx(t_end / 10)
    assert max(found["invariants"].values()) < TO_BALANCE


def test_the_distance_from_the_limit_of_a_logistic_flow():
    result = simulate(Flow(**LOGISTIC, t_end=1e100))
    found = certified(result)
    s = result["weights"][-1]
    assert found["one_hot"] == pytest.approx(1 - s.max(), rel=1e-9)
    assert found["s_log2_t_limit"] == pytest.approx(2 / 8)
    assert abs(found["s_log2_t"] / found["s_log2_t_limit"] - 1) < 0.05
    early = certified(simulate(Flow(**LOGISTIC, t_end=100.0)))
    assert early["s_log2_t"] > 5 * early["s_log2_t_limit"]
    orbit = certified(simulate(StrengthFlow(**LOGISTIC, strength_end=1e4)))
    assert orbit["kind"] == "moving"
    assert orbit["log_t"] > 9e3
    assert abs(orbit["s_log2_t"] / orbit["s_log2_t_limit"] - 1) < 1e-2


def test_a_square_flow_rests_unless_stopped_early():
    early, late, latest = (certified(simulate(Flow(**SQUARE, t_end=t))) for t in (3.0, 1e3, 1e100))
    assert early["kind"] == "moving"
    assert late["kind"] == latest["kind"] == "minimum"
    assert late["gradient"] < 1e-9 < early["gradient"]
    assert max(late["moved"].values()) < 1e-6 < max(early["moved"].values())


@pytest.mark.parametrize("points", [2, 20, 400])
def test_the_kind_does_not_depend_on_how_many_times_are_recorded(points):
    assert certified(simulate(Flow(**SQUARE, t_end=1e3, points=points)))["kind"] == "minimum"
    assert certified(simulate(Flow(**SQUARE, t_end=3.0, points=points)))["kind"] == "moving"


@pytest.mark.parametrize(
    ("loss", "map"), [("square", "softmax"), ("logistic", "sigmoid"), ("cross_entropy", "softmax")]
)
def test_a_wrong_tolerance_breaks_what_is_conserved(loss, map):
    kinds = []
    for rtol in (1e-9, 1e-2):
        found = certified(simulate(flow(loss, map, "value", 1, t_end=1e3, rtol=rtol)))
        assert (max(found["invariants"].values()) > TRUSTED) == (found["kind"] == "undersampled")
        kinds.append(found["kind"])
    assert kinds[0] != "undersampled"
    assert kinds[1] == "undersampled"


def test_the_sum_of_scores_alone_would_notice_nothing():
    found = certified(simulate(flow("square", "softmax", "value", 1, t_end=1e3, rtol=1e-2)))
    assert found["invariants"]["Σa"] < CONSERVED
    assert found["invariants"][BALANCE] > TRUSTED


def test_a_path_of_another_problem_does_not_balance():
    spec = Flow(**SQUARE, t_end=100.0)
    result = simulate(spec)
    speed = result["t"] * exact.squared_gradient(spec, result.arrays)
    assert balance_drift(result["t"], result["loss"], speed) < TO_BALANCE
    assert balance_drift(result["t"], result["loss"], 1.01 * speed) > 1e-3
    assert balance_drift(result["t"][::40], result["loss"][::40], speed[::40]) is None


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_squared_gradient_is_that_of_the_field(loss, model):
    for freeze in (None, "a", "V") if model != "tied" else (None, "a"):
        spec = problem(loss, "softmax1", model, 3).replace(freeze=freeze)
        field = Field(spec, spec.loss_of(), with_strength=False)
        velocity = field(0.0, field.start)
        at = {name: x[None] for name, x in spec.start().items()}
        assert exact.squared_gradient(spec, at)[0] == pytest.approx(velocity @ velocity, rel=1e-12)


def test_a_flow_at_a_saddle_says_when_it_would_leave():
    beta = np.array([2.0, 0.0])
    still = {"beta": beta, "V": np.zeros((2, 2)), "a": np.zeros(2), "map": "linear"}
    found = certified(simulate(Flow("square", **still, t_end=100.0)))
    assert found["kind"] == "saddle"  # L = ½‖β* − V a‖²: the Hessian at 0 has eigenvalues ±‖β*‖
    assert found["eigenvalue"] == pytest.approx(-2.0, rel=NEAR)
    assert found["escape_time"] == pytest.approx(0.5, rel=NEAR)
    pushed = still | {"a": np.array([0.1, 0.0])}
    assert certified(simulate(Flow("square", **pushed, t_end=1e3)))["kind"] == "minimum"
    assert certified(simulate(Flow("square", **still, t_end=0.1)))["kind"] == "minimum"  # too short to escape


def test_many_parameters_are_judged_by_the_smallest_eigenvalue_alone():
    d, p = 40, 10
    assert d * p > DENSE
    still = {"beta": np.eye(d)[0], "V": np.zeros((d, p)), "a": np.zeros(p), "map": "linear"}
    found = certified(simulate(Flow("regression", X=np.eye(d), **still, t_end=100.0, points=20)))
    assert found["kind"] == "saddle"
    assert found["eigenvalue"] == pytest.approx(-2.0, rel=1e-3)


def test_descent():
    base = {"lr": 0.1, "steps": 20_000}
    logistic, square, short = (
        certified(simulate(Descent(**fields)))
        for fields in (LOGISTIC | base, SQUARE | base, SQUARE | base | {"steps": 20})
    )
    assert (logistic["kind"], square["kind"], short["kind"]) == ("moving", "minimum", "moving")
    assert "s_log2_t" in logistic
    decayed = certified(simulate(Descent(**LOGISTIC, **base, weight_decay=0.05)))
    assert decayed["kind"] == "minimum"  # weight decay gives the logistic loss a minimum
    assert decayed["eigenvalue"] > 0
    assert "s_log2_t" not in decayed
    adam = certified(simulate(Descent(**SQUARE, lr=1e-3, steps=20_000, optimizer="adam")))
    assert adam["drift"] is None
    assert adam["invariants"] == {}


def test_what_the_flow_conserves_tells_descent_from_flow_but_is_no_fault():
    spec = flow("square", "square_norm", "value", 0, t_end=1.0)
    fields = {name: getattr(spec, name) for name in ("loss", "map", "beta", "V", "a")}
    coarse, fine = (
        certified(simulate(Descent(**fields, lr=lr, steps=round(200 / lr))))["invariants"]["‖a‖²"] for lr in (0.2, 0.02)
    )
    assert coarse > TRUSTED
    assert fine < coarse / 5
    assert certified(simulate(Descent(**fields, lr=0.2, steps=1000)))["kind"] != "undersampled"


def test_the_flow_of_any_loss():
    def well(x, y):
        return (x**2 - 1) ** 2 / 4 + y**2

    assert certified(gradient_flow(well, {"x": 0.3, "y": 1.0}, t_end=100))["kind"] == "minimum"
    assert certified(gradient_flow(well, {"x": 0.3, "y": 1.0}, t_end=1))["kind"] == "moving"
    saddle = certified(gradient_flow(well, {"x": 0.0, "y": 1.0}, t_end=100))
    assert saddle["kind"] == "saddle"
    assert saddle["escape_time"] == pytest.approx(1.0, rel=NEAR)
    assert certified(gradient_flow(well, {"x": 0.3, "y": 1.0}, t_end=100, rtol=1e-2))["kind"] == "undersampled"


@pytest.mark.parametrize("t_end", [1e3, 1e200])
def test_growth_like_a_power_of_log_t_is_not_rest(t_end):
    def deep(V, W, a):
        return torch.nn.functional.softplus(-(W @ V @ torch.softmax(a, 0)).sum())

    start = {"V": 0.3 * np.eye(3), "W": 0.3 * np.eye(3), "a": np.array([0.2, 0.1, 0.0])}
    assert certified(gradient_flow(deep, start, t_end=t_end))["kind"] == "moving"


def test_a_flow_that_fails_is_not_certified():
    result = simulate(flow("kl", "sum", "value", 1, t_end=1e4))
    assert not result.status.ok
    assert certified(result) == {"kind": "moving", "sentence": result.status.sentence}
