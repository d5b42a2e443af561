"""Maps that may give a query no weight at all: what is averaged over the other rows, what is counted, what is NaN."""

import numpy as np
import pytest
import torch

import softmaxlab as sl
from softmaxlab import measure
from softmaxlab.training import Classification, Induction, Run, evaluate
from softmaxlab.training.run import build
from softmaxlab.training.tracking import drives

ROUNDING = 1e-12  # float64, means of a few hundred numbers in another order
SINGLE = 1e-5  # relative: float32 gradients, summed in another order
SEED = 0
INDUCTION = Run(
    task=Induction(vocab=8, tokens=4, shifted=False, train=512, evaluate=32), width=16, heads=4, batch=64, epochs=2,
)  # fmt: skip
CLASSES = Run(task=Classification(vocab=25, tokens=5, train=256, evaluate=64), width=16, heads=2, layers=1, epochs=1)
MAY_BE_EMPTY = ("relu", "relu_norm", "softpick", "clipped_softmax")


def entropy(row):
    p = row[row > 0] / row.sum()
    return -(p * np.log(p)).sum()


FORMULAS = {
    "sink_score": lambda row: row[0] / row.sum(),
    "sparsity": lambda row: row.max() / row.sum(),
    "entropy": entropy,
}


@pytest.fixture
def patchy() -> torch.Tensor:
    """Causal weights [layer, head, sample, query, key]: of three heads some rows are empty or none, of the last all."""
    draw = np.random.default_rng(1)
    weights = np.tril(draw.uniform(0.1, 1.0, size=(2, 2, 5, 6, 6)))
    weights[draw.random(weights.shape[:-1]) < 0.4] = 0.0
    weights[0, 0, 2] = 0.0  # a sample without any weight
    weights[0, 1] += np.tril(np.full((6, 6), 0.1))  # a head without empty rows
    weights[1, 1] = 0.0
    return torch.from_numpy(weights)


def rows_of(weights, layer, head, queries) -> list[np.ndarray]:
    return [pattern[query] for pattern in weights[layer, head].numpy() for query in queries]


def test_measures_are_means_over_the_rows_that_have_weight(patchy):
    found = evaluate.through_time(INDUCTION.task, patchy)
    for layer, head in [(0, 0), (0, 1), (1, 0)]:
        rows = rows_of(patchy, layer, head, (1, 2, 3))
        full = [row for row in rows if row.any()]
        assert found["empty"][layer, head] == pytest.approx(1 - len(full) / len(rows), abs=ROUNDING)
        for name, value in FORMULAS.items():
            expected = np.mean([value(row) for row in full])
            assert found[name][layer, head].item() == pytest.approx(expected, rel=ROUNDING), name
    assert found["empty"][0, 0] > 0 == found["empty"][0, 1]
    assert found["empty"][1, 1] == 1
    assert all(found[name][1, 1].isnan() for name in FORMULAS), "a head without weight has no shares"


def test_pooled_scores_leave_out_samples_without_weight(patchy):
    found = evaluate._mean_over_samples(evaluate._pooled_sink_score, patchy[..., 1:-2, :])
    for layer, head in [(0, 0), (0, 1), (1, 0)]:
        samples = [pattern[1:-2] for pattern in patchy[layer, head].numpy()]
        shares = [rows[:, 0].sum() / rows.sum() for rows in samples if rows.any()]
        assert (len(shares) < 5) == ((layer, head) == (0, 0))
        assert found[layer, head].item() == pytest.approx(np.mean(shares), rel=ROUNDING)
    assert found[1, 1].isnan()


def test_the_previous_token_has_a_share_only_where_there_is_weight(patchy):
    found = evaluate._on_previous(patchy)
    for layer, head in [(0, 0), (0, 1), (1, 0)]:
        rows = [(pattern[query], query) for pattern in patchy[layer, head].numpy() for query in range(1, 6)]
        expected = np.mean([row[query - 1] / row.sum() for row, query in rows if row.any()])
        assert found[layer, head].item() == pytest.approx(expected, rel=ROUNDING)
    assert found[1, 1].isnan()
    cancelled = torch.tensor([[1.0, 0.0], [1.0, -1.0]]).double().view(1, 1, 1, 2, 2)
    assert evaluate._on_previous(cancelled).isnan().all(), "weights that cancel are not left out, and have no share"


def test_a_row_that_is_not_a_number_is_not_left_out(patchy):
    patchy[0, 0, 0, 1, 0] = torch.nan
    found = evaluate.through_time(INDUCTION.task, patchy)
    assert all(found[name][0, 0].isnan() for name in FORMULAS)


@pytest.mark.parametrize("map", [map for map in sl.attention.MAPS if map not in MAY_BE_EMPTY])
def test_where_no_row_is_empty_nothing_changes_by_a_bit(map):
    spec = INDUCTION.replace(map=map)
    model, data = build(spec), spec.task.data(SEED, "evaluate")
    found = evaluate.head_measures(spec.task, model, data, SEED)
    weights = evaluate.patterns(model, data.tokens)
    samples, rows = weights.transpose(1, 2), weights[..., 1:-2, :].transpose(1, 2)
    share = weights.diagonal(offset=-1, dim1=-2, dim2=-1) / weights[..., 1:, :].sum(dim=-1)
    expected = {
        "sink_score": measure.sink_score(samples, "per_position", slice(1, -2), samples=1),
        "sink_score_pooled": measure.sink_score(samples, "pooled", slice(1, -2), samples=1),
        "sparsity": measure.sparsity(rows).mean(dim=1),
        "entropy": measure.entropy(rows).mean(dim=1),
        "previous_token": share.mean(dim=(-2, -1)),
        "empty": torch.zeros(2, 4),
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("map", ["relu", "softpick"])
def test_a_run_says_how_many_rows_were_empty(map):
    result = sl.simulate(INDUCTION.replace(map=map, track=("heads",)))
    assert result.axes["empty"] == ("layer", "head")
    assert ((result["empty"] > 0) & (result["empty"] < 1)).any()
    for name in ("sink_score", "sink_score_pooled", "sparsity", "entropy", "previous_token"):
        np.testing.assert_array_equal(np.isnan(result[name]), result["empty"] == 1, err_msg=name)
    np.testing.assert_array_equal(result["track_empty"][-1], result["empty"])
    np.testing.assert_array_equal(result["track_sink_score"][-1], result["sink_score"])


def flips_of(weights):
    model, data = build(CLASSES), CLASSES.task.data(SEED, "evaluate")
    return evaluate.flip_rates(model, data, weights, SEED)


def test_pairs_without_a_favourite_token_are_left_out_and_counted():
    model, data = build(CLASSES), CLASSES.task.data(SEED, "evaluate")
    weights = evaluate.patterns(model, data.tokens)
    before, all_pairs = flips_of(weights)
    assert all_pairs.tolist() == [[evaluate.PAIRS] * 2]
    weights[0, 0, :, -1, :-1] = 0.0  # all on CLS: not empty, but there is nothing to swap
    weights[0, 1, :40, -1, :-1] = 0.0
    rates, pairs = flips_of(weights)
    assert rates[0, 0].isnan()
    one, two = evaluate._pairs(data, SEED)
    both = (one >= 40) & (two >= 40)
    assert pairs.tolist() == [[0, both.sum()]]
    top = weights[0, 1, :, -1, :-1].argmax(dim=-1)
    kept = (torch.from_numpy(side[both]) for side in (one, two))
    assert rates[0, 1] == evaluate._flip_rate(model, data, *kept, top)
    assert before.isfinite().all()


def test_shares_and_rates_of_drives_are_means_over_the_rows_that_have_weight():
    spec = INDUCTION.replace(map="relu")
    model, data = build(spec), spec.task.data(SEED, "evaluate")
    found = drives(spec.task, model, data)
    weights = evaluate.patterns(model, data.tokens).numpy()
    for layer, head in np.ndindex(2, 4):
        total, count = np.zeros(6), np.zeros(6)
        for pattern in weights[layer, head]:
            for query in (1, 2, 3):
                if pattern[query].any():
                    total += pattern[query] / pattern[query].sum()
                    count[: query + 1] += 1
        share = found["share"][layer, head].numpy()
        np.testing.assert_allclose(share[:4], total[:4] / count[:4], rtol=SINGLE)
        assert (share[4:] == 0).all(), "keys that no counted query sees"
    assert (evaluate.through_time(spec.task, torch.from_numpy(weights))["empty"] > 0).any()
    assert all(values.isfinite().all() for values in found.values())


def test_a_head_without_weight_has_a_drive_but_no_share():
    spec = INDUCTION.replace(map="relu")
    model, data = build(spec), spec.task.data(SEED, "evaluate")
    attention = model.blocks[1].attention
    with torch.no_grad():  # queries of ones against keys of minus ones: all scores of head 0 are negative
        for linear, value in ((attention.q, 1.0), (attention.k, -1.0)):
            linear.weight[:4], linear.bias[:4] = 0.0, value
    found = drives(spec.task, model, data)
    assert (found["weight"][1, 0] == 0).all()
    assert found["drive"][1, 0, :4].abs().min() > 0
    assert found["share"][1, 0, :4].isnan().all()
    assert found["rate"][1, 0, :4].isnan().all()
    assert found["share"][1, 1:].isfinite().all()
