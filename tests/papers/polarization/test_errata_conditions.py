"""Errata in what the paper's statements and figures need to be true (docs/errata.md)."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from softmaxlab.core.random import generator
from softmaxlab.core.simulate import simulate
from softmaxlab.errors import SpecError
from softmaxlab.measure.sinks import SINK, sink_score
from softmaxlab.papers.polarization import problems
from softmaxlab.papers.polarization.figures.fig01 import Fig01
from softmaxlab.papers.polarization.figures.fig05 import memorised
from softmaxlab.polarization import Flow
from softmaxlab.training import Classification
from softmaxlab.training.evaluate import PAIRS, _pairs

TESTS = Path(__file__).parents[2]
P = 6
# weights that are one-hot, and weights that are not, with room on both sides of anything in between
ONE_HOT, DENSE = 0.95, 0.5
ROUNDING = 1e-12


def ordered(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """β* and falling u."""
    draw = generator(seed, "errata/ordered")
    return draw.standard_normal(P), -np.sort(-draw.standard_normal(P))


def run(loss: str, u, a, map: str = "softmax", t_end: float = 1e4, **more):
    beta, _ = ordered()
    V = np.outer(beta, u) / (beta @ beta)
    return simulate(Flow(loss=loss, map=map, beta=beta, V=V, a=a, t_end=t_end, points=30, **more))


def test_13_square_needs_a_margin_below_b():
    """From m(0) > b the strength runs backwards (γ < 0): the order of s is reversed and the smallest u wins."""
    beta, u = ordered()
    below, above = (run("square", u + lift * (beta @ beta), np.zeros(P)) for lift in (0.0, 3.0))
    assert below["strength"][-1] > 0 > above["strength"][-1]
    assert (np.diff(below["weights"][-1]) < 0).all()
    assert (np.diff(above["weights"][-1]) > 0).all()


@pytest.mark.parametrize("map", ["sum", "square_norm", "abs_norm", "relu_norm"])
def test_15_D4_is_undefined_at_zero_when_f_vanishes_there(map):
    """Assumption 3.1's a(0) = 0 is 0/0; from equal a(0) > 0 the order holds; from opposed a(0) it does not."""
    _, u = ordered()
    with pytest.raises(SpecError, match="divides by zero"):
        run("logistic", u, np.zeros(P), map)
    equal = run("logistic", u, np.ones(P), map)
    assert (np.diff(equal["u"]) < 0).all()
    assert (np.diff(equal["a"]) < 1e-9).all()  # ties at 0 are allowed
    opposed = run("logistic", 0.01 * u, 1 + 0.5 * np.arange(P), map)
    assert not (np.diff(opposed["u"]) < 0).all()


def test_15_D4_needs_a_positive_sum():
    """With f = x and a(0) = −1 the weights are uniform as well, but F = Σa < 0 and the order of a is reversed."""
    _, u = ordered()
    negative = run("logistic", u, -np.ones(P), "sum")
    assert (np.diff(negative["u"]) < 0).all()
    assert (np.diff(negative["a"][1:]) > 0).all()


def test_16_literal_kl_is_unbounded_and_undefined():
    """−⟨p*, log Vs⟩ falls for ever where V is free, below any divergence, and does not exist for a negative output."""
    fields = problems.prediction(P, 0, 3.0)
    target, a = fields["target"], fields["a"]
    literal, code = (
        simulate(Flow(loss=loss, target=target, V=np.full((P, P), 0.5), a=a, t_end=1e9, points=40))
        for loss in ("kl", "cross_entropy")
    )
    entropy = -(target * np.log(target)).sum()
    assert literal["loss"][-1] < -5 < 0 < entropy
    assert_allclose(code["loss"][-1], entropy, rtol=1e-6)
    # β grows like √t, so that each decade takes ½ log 10 off the loss
    fall = np.diff(literal["loss"][-5:]) / np.diff(np.log(literal["t"][-5:]))
    assert_allclose(fall, -0.5, atol=1e-3)
    with pytest.raises(SpecError):
        Flow(loss="kl", target=target, V=-np.ones((P, P)), a=a, t_end=1.0)


def test_18_column_of_figure_11_is_that_of_the_largest_weight():
    """U^(m) “of the largest element of a”: true of a at the end, and of the largest weight; false of a(0)."""
    at_start, at_end = 0, 0
    for seed in range(12):
        result = simulate(Flow(**problems.tied(6, seed), t_end=500.0, points=2))
        winner = result["weights"][-1].argmax()
        assert np.linalg.norm(result["U"][-1], axis=0).argmax() == winner
        assert result["weights"][-1, winner] > ONE_HOT
        at_start += int(result["a"][0].argmax() == winner)
        at_end += int(result["a"][-1].argmax() == winner)
    assert at_start < 8
    assert at_end == 12


def test_19_reused_seed_makes_a_row_of_V_parallel_to_beta():
    """In the authors' runs for Figure 13, V(0)[0, :] is β* times a number; in draws that are apart it is not."""
    runs = json.loads((TESTS / "reference" / "polarization_descent.json").read_text())["runs"]
    figure_13 = [x for name, x in runs.items() if name.startswith("norm_")]
    assert len(figure_13) == 12
    for authors in figure_13:
        assert_allclose(_cosine(authors["V0"][0], authors["beta"]), 1.0, rtol=ROUNDING)
        assert max(abs(_cosine(row, authors["beta"])) for row in authors["V0"][1:]) < 0.9
    ours = problems.normalisation(10, 42)
    assert max(abs(_cosine(row, ours["beta"])) for row in ours["V"]) < 0.9


def _cosine(x, y) -> float:
    return float(np.dot(x, y) / np.linalg.norm(x) / np.linalg.norm(y))


def test_20_relu_of_figure_13_is_one_hot_and_the_elementwise_one_dense():
    fields = problems.normalisation(10, 0)
    share = {}
    for map in ("relu_norm", "relu"):
        weights = simulate(Flow(loss="logistic", map=map, **fields, t_end=5e4, points=2))["weights"][-1]
        share[map] = weights.max() / weights.sum()
    assert share["relu_norm"] == 1.0
    assert share["relu"] < DENSE


def test_21_softmax_polarizes_with_the_values_frozen():
    """Section 3.1 calls joint training the cause: with V frozen s_0 → 1 all the same, and like 1/t, not 1/log²t."""
    fields = problems.classification(8, 0)
    joint, alone = (simulate(Flow(**fields, freeze=freeze, t_end=1e8, points=60)) for freeze in (None, "V"))
    assert alone["weights"][-1, 0] > joint["weights"][-1, 0] > ONE_HOT
    left = 1 - alone["weights"][:, 0]
    slope = np.diff(np.log(left[-4:])) / np.diff(np.log(alone["t"][-4:]))
    assert_allclose(slope, -1.0, atol=1e-2)
    still = simulate(Flow(**fields, freeze="a", t_end=1e8, points=2))
    assert_allclose(still["weights"], 1 / 8, rtol=ROUNDING)


def test_22_scores_of_signed_weights_are_no_shares():
    """400 heads that prefer no token, 100 samples of 20 tokens."""
    w = np.tril(generator(0, "errata/signed").standard_normal((100, 400, 20, 20)))
    signed, positive = (sink_score(weights, samples=0) for weights in (w, np.abs(w)))
    assert (signed > SINK).mean() > 0.05
    assert (signed == 0).mean() > 0.2
    assert positive.max() < 0.2


def test_23_vocabulary_41_has_four_inputs():
    """As sets, which is all that a model without positions sees; 81 tokens have as many sets as samples."""
    for vocab, few in ((41, True), (81, False)):
        task = Classification(vocab=vocab)
        train, evaluate = (task.data(0, split) for split in ("train", "evaluate"))
        seen, new = ({tuple(sorted(row)) for row in data.tokens.tolist()} for data in (train, evaluate))
        one, two = _pairs(evaluate, 0)
        sets = [tuple(sorted(row)) for row in evaluate.tokens.tolist()]
        pairs = {(sets[i], sets[j]) for i, j in zip(one, two)}
        assert (len(seen) == 4, new <= seen, len(pairs) == 12) == (few, few, few)
        assert len(one) == PAIRS == 500
        assert bool(memorised(task)) == few
    assert "4 inputs in all" in memorised(Classification(vocab=41))
    assert len(seen) > 9_500


def test_24_figure_1_compares_maps_with_equal_positions():
    """Our three runs differ in the map alone; additive and concatenated positions are two models."""
    from softmaxlab.training import Induction, Run

    runs = [Run(task=Induction(), **Fig01()._fields(map)) for map in Fig01().maps]
    assert len({run.key for run in runs}) == 3
    assert len({run.replace(map="softmax").key for run in runs}) == 1
    assert runs[0].replace(positions="concat").key != runs[0].replace(positions="additive").key


def test_25_a_larger_score_wins_against_a_larger_u():
    """Two tokens, u_0 > u_1: the sign of a conserved quantity tells which of them wins."""
    beta, V = np.array([1.0, 0.0]), np.array([[0.4, 0.2], [0.1, -0.1]])
    for ahead, wins in ((0.0, 0), (0.1, 0), (0.5, 1)):
        flow = simulate(Flow("logistic", beta=beta, V=V, a=[0.0, ahead], t_end=1e8, points=2, rtol=1e-9))
        u, a = flow["u"], flow["a"]
        conserved = (u[:, 0] - u[:, 1]) ** 2 - 4 * np.sinh((a[:, 0] - a[:, 1]) / 2) ** 2  # b = 1
        assert (conserved[0] < 0) == (wins == 1)
        assert_allclose(conserved[-1], conserved[0], rtol=1e-5)  # the solver's error over the whole flow
        assert flow["weights"][-1, wins] > 0.9
