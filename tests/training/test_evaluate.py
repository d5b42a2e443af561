"""What heads are measured to do, against the paper's pseudocode written as loops."""

import numpy as np
import pytest
import torch

import softmaxlab as sl
from softmaxlab.training import Classification, Induction, Run, evaluate
from softmaxlab.training.model import Trace
from softmaxlab.training.run import build, train
from softmaxlab.training.tasks import Data
from tests.training import plain

ROUNDING = 1e-12  # float64, sums of a few hundred terms in another order
CANCELLED = 100 * ROUNDING  # signed weights: some rows sum to a hundredth of their terms
APART = 1e-3  # of values that must differ: far above any rounding, below what untrained heads differ by
SEED = 0

INDUCTION = Run(
    task=Induction(vocab=8, tokens=4, shifted=False, train=512, evaluate=32),
    width=16, heads=4, batch=64, epochs=2, lr=1e-2,
)  # fmt: skip
CLASSES = Run(
    task=Classification(vocab=25, tokens=5, train=256, evaluate=64),
    width=16, heads=2, layers=1, batch=64, epochs=8, lr=1e-2,
)  # fmt: skip
SPECS = {"induction": INDUCTION, "classification": CLASSES}
COUNTED = {"induction": [1, 2, 3], "classification": [5]}  # of 6 queries: 1 : −2, and CLS


def weights_of(model, tokens) -> np.ndarray:
    """[layer, head, query, key] of one sequence."""
    trace = Trace()
    model(tokens[None], trace=trace)
    return torch.cat(trace.weights).detach().numpy()


def untrained(spec: Run):
    """A model in double precision, its evaluation sequences, and its weights [layer, head, sample, query, key]."""
    model, data = build(spec).double(), spec.task.data(SEED, "evaluate")
    return model, data, np.stack([weights_of(model, tokens) for tokens in data.tokens], axis=2)


def mean_over_rows(A, queries, value) -> np.ndarray:
    """Mean over samples and queries of value(row, query), for each layer and head."""
    found = np.zeros(A.shape[:2])
    for layer, head in np.ndindex(found.shape):
        rows = [(A[layer, head, sample, query], query) for sample in range(A.shape[2]) for query in queries]
        found[layer, head] = sum(value(row, query) for row, query in rows) / len(rows)
    return found


def pooled_shares(A) -> np.ndarray:
    """Σ_queries weight on BOS / Σ_queries all weight, mean over samples, not clipped."""
    found = np.zeros(A.shape[:2])
    for layer, head in np.ndindex(found.shape):
        counted = [pattern[COUNTED["induction"]] for pattern in A[layer, head]]
        found[layer, head] = sum(rows[:, 0].sum() / rows.sum() for rows in counted) / len(counted)
    return found


@pytest.mark.parametrize("map", ["softmax", "sigmoid", "linear"])
def test_sink_scores_are_the_papers_pseudocode(map):
    spec = INDUCTION.replace(map=map)
    model, data, A = untrained(spec)
    found = evaluate.head_measures(spec.task, model, data, SEED)
    each = mean_over_rows(A, COUNTED["induction"], lambda row, _: row[0] / row.sum())
    pooled = pooled_shares(A)
    np.testing.assert_allclose(found["sink_score"], each.clip(0, 1), rtol=CANCELLED)
    np.testing.assert_allclose(found["sink_score_pooled"], pooled.clip(0, 1), rtol=CANCELLED)
    every_query = mean_over_rows(A, range(6), lambda row, _: row[0] / row.sum())
    assert np.abs(each.clip(0, 1) - every_query.clip(0, 1)).max() > APART, "which queries count makes no difference"
    assert (np.abs(each - pooled).max() > APART) == (map != "softmax")
    outside = (each < 0) | (each > 1)
    assert outside.any() == (map == "linear"), "signed weights are what is clipped"
    assert not outside.all()


@pytest.mark.parametrize("map", ["softmax", "sigmoid", "linear"])
@pytest.mark.parametrize("task", SPECS)
def test_measures_of_rows_are_their_formulas(task, map):
    spec = SPECS[task].replace(map=map)
    model, data, A = untrained(spec)
    found = evaluate.head_measures(spec.task, model, data, SEED)

    def entropy(row, _):
        p = np.abs(row[row != 0]) / np.abs(row).sum()
        return -sum(p * np.log(p))

    formulas = {
        "sparsity": lambda row, _: max(row) / sum(row),
        "entropy": entropy,
        "total": lambda row, _: sum(row),
    }
    for name, value in formulas.items():
        np.testing.assert_allclose(found[name], mean_over_rows(A, COUNTED[task], value), rtol=CANCELLED, err_msg=name)
    if task == "induction":
        before = mean_over_rows(A, range(1, 6), lambda row, query: row[query - 1] / sum(row))
        np.testing.assert_allclose(found["previous_token"], before, rtol=CANCELLED)


def test_shares_of_the_previous_token_of_known_patterns():
    keys = torch.arange(4)
    shifted = (keys == (keys - 1).clamp(min=0)[:, None]).double()  # the first query has none before it
    known = torch.stack([shifted, torch.eye(4).double(), torch.ones(4, 4).double().tril()])
    on_previous = evaluate._on_previous(known[None, :, None].expand(2, -1, 5, -1, -1))
    expected = [1.0, 0.0, (1 / 2 + 1 / 3 + 1 / 4) / 3]
    np.testing.assert_allclose(on_previous, [expected] * 2, rtol=ROUNDING)


def test_similarity_is_one_for_heads_with_the_same_queries_and_keys():
    model, data, A = untrained(INDUCTION)
    before = evaluate.head_measures(INDUCTION.task, model, data, SEED)["similarity"]
    a, b = (A[1, head].mean(axis=0).ravel() for head in (0, 2))
    assert before[1, 0, 2].item() == pytest.approx(a @ b / np.sqrt(a @ a * (b @ b)), rel=ROUNDING)
    others = before[:, ~torch.eye(4, dtype=torch.bool)]
    assert others.max() < 1 - APART
    with torch.no_grad():
        for linear in (model.blocks[1].attention.q, model.blocks[1].attention.k):
            for parameter in (linear.weight, linear.bias):
                parameter[8:12] = parameter[:4]  # head 2 as head 0
    after = evaluate.head_measures(INDUCTION.task, model, data, SEED)["similarity"]
    assert after[1, 0, 2].item() == pytest.approx(1, rel=ROUNDING)
    assert after[1, 1, 2] < 1 - APART
    np.testing.assert_allclose(after[0], before[0], rtol=ROUNDING)


@pytest.mark.parametrize("task", SPECS)
def test_accuracy_is_a_count(task):
    spec = SPECS[task].replace(epochs=2 if task == "induction" else 1, lr=1e-2 if task == "induction" else 1e-3)
    model, data = train(spec)[0].double(), spec.task.data(SEED, "evaluate")
    right = []
    for tokens, target in zip(data.tokens, data.targets.view(len(data.tokens), -1)):
        guesses = plain.logits(model, tokens[None])[0].argmax(dim=-1)
        right.append([guesses[-1 - i] == target[-1 - i] for i in range(len(target))])  # the last one first
    found = evaluate.accuracy(model, data)
    expected = {"accuracy": np.mean(right)}
    if task == "induction":
        expected["induction_accuracy"] = np.mean([first for first, *_ in right])
        assert abs(expected["accuracy"] - expected["induction_accuracy"]) > APART
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert 0 < value < 1, "nothing would be told apart"
        assert found[name].item() == pytest.approx(value, rel=ROUNDING)


@pytest.mark.parametrize("task", SPECS)
def test_evaluation_in_chunks_is_evaluation_at_once(task, monkeypatch):
    spec = SPECS[task]
    model, data = build(spec).double(), spec.task.data(SEED, "evaluate")
    calls = []
    model.register_forward_hook(lambda _, given, __: calls.append(len(given[0])))

    def measured():
        calls.clear()
        found = evaluate.accuracy(model, data) | evaluate.head_measures(spec.task, model, data, SEED)
        return found, len(calls)

    whole, forwards = measured()
    monkeypatch.setattr(evaluate, "CHUNK", 7)  # divides neither 32, 64 nor 500
    parts, more_forwards = measured()
    assert more_forwards > 4 * forwards
    assert max(calls) == 7
    assert parts.keys() == whole.keys()
    for name in whole:
        np.testing.assert_allclose(parts[name], whole[name], rtol=ROUNDING, err_msg=name)


def flips(model, data, rank: int) -> np.ndarray:
    """E.3 of the paper, a pair at a time; rank 0 swaps the tokens with the most weight, −1 those with the least."""
    A = [weights_of(model, tokens) for tokens in data.tokens]
    rates = np.zeros(A[0].shape[:2])

    def ranking(sample, layer, head):
        order = A[sample][layer, head, -1, :-1].argsort()[::-1]
        return [data.tokens[sample, place].item() for place in order]

    def predicted(mine, theirs):
        mine[rank] = theirs
        return plain.logits(model, torch.tensor([[*mine, 0]]))[0, -1].argmax()  # 0 is CLS

    pairs = list(zip(*evaluate._pairs(data, SEED)))
    for one, two in pairs:
        for layer, head in np.ndindex(rates.shape):
            ranking_1, ranking_2 = (ranking(sample, layer, head) for sample in (one, two))
            top_1, top_2 = ranking_1[rank], ranking_2[rank]
            flipped_1 = predicted(ranking_1, top_2) == data.targets[two]
            flipped_2 = predicted(ranking_2, top_1) == data.targets[one]
            rates[layer, head] += (float(flipped_1) + float(flipped_2)) / 2
    return rates / len(pairs)


def flip_rates_of(spec: Run):
    model, data = train(spec)[0].double(), spec.task.data(SEED, "evaluate")
    return model, data, evaluate.head_measures(spec.task, model, data, SEED)["flip_rate"].numpy()


@pytest.mark.parametrize(("epochs", "lr", "cls_wins"), [(8, 1e-2, False), (1, 1e-3, True)])
def test_flip_rates_are_the_papers_pseudocode(epochs, lr, cls_wins, monkeypatch):
    monkeypatch.setattr(evaluate, "PAIRS", 40)
    model, data, found = flip_rates_of(CLASSES.replace(epochs=epochs, lr=lr))
    np.testing.assert_allclose(found, flips(model, data, 0), rtol=ROUNDING)
    assert ((found > 0) & (found < 1)).all(), "one direction alone could not be told from both"
    assert found[0, 0] != found[0, 1], "heads could not be told apart"
    favourites = evaluate.patterns(model, data.tokens)[..., -1, :].argmax(dim=-1)
    assert (favourites == 5).any() == cls_wins, "CLS, the last key, is never swapped even where it has the most weight"


def test_the_least_attended_token_flips_less(monkeypatch):
    monkeypatch.setattr(evaluate, "PAIRS", 40)
    model, data, found = flip_rates_of(CLASSES.replace(heads=1))
    assert flips(model, data, -1) < found / 2


def test_pairs_differ_in_label_and_follow_the_seed():
    data = CLASSES.task.data(SEED, "evaluate")
    one, two = evaluate._pairs(data, SEED)
    assert len(one) == len(two) == evaluate.PAIRS
    assert (data.targets[one] != data.targets[two]).all()
    assert min(len(set(one)), len(set(two))) > 60, "of 64 samples 500 draws miss 0.02 on average"
    np.testing.assert_array_equal(evaluate._pairs(data, SEED)[0], one)
    assert (evaluate._pairs(data, SEED + 1)[0] != one).any()


@pytest.fixture
def _few_draws(monkeypatch):
    """Looking for pairs fails after a while instead of going on for ever."""

    class FewDraws:
        def __init__(self, *name):
            self.left = 100

        def integers(self, high, size):
            self.left -= 1
            assert self.left, "still looking for a pair of samples with different labels"
            return np.random.default_rng(self.left).integers(high, size=size)

    monkeypatch.setattr(evaluate, "generator", FewDraws)


@pytest.mark.usefixtures("_few_draws")
def test_one_label_alone_has_no_flip_rate():
    model, data = build(CLASSES), CLASSES.task.data(SEED, "evaluate")
    same = data.targets == data.targets[0]
    found = evaluate.head_measures(CLASSES.task, model, Data(data.tokens[same], data.targets[same]), SEED)
    assert found["flip_rate"].shape == (1, 2)
    assert found["flip_rate"].isnan().all()
    assert found["sparsity"].isfinite().all()
    two = same.nonzero()[:1].flatten().tolist() + (~same).nonzero()[:1].flatten().tolist()
    found = evaluate.head_measures(CLASSES.task, model, Data(data.tokens[two], data.targets[two]), SEED)
    assert found["flip_rate"].isfinite().all()


@pytest.mark.usefixtures("_few_draws")
def test_a_run_evaluated_on_one_sample_ends():
    result = sl.simulate(CLASSES.replace(task=CLASSES.task.replace(evaluate=1), epochs=1))
    assert result.status.ok
    assert np.isnan(result["flip_rate"]).all()
