import numpy as np
import pytest

from softmaxlab import measure
from softmaxlab.errors import SpecError
from tests.measure.test_weights import pattern

SIGNED = "linear"


def paper_pseudocode(A):
    """E.1 of the polarization paper, on [sample, head, query, key]: one score per head."""
    bos = A[:, :, 1:-2, 0]
    total = A[:, :, 1:-2, :].sum(axis=-1)
    return (bos / total).mean(axis=(0, 2)).clip(0, 1)


@pytest.mark.parametrize("map", ["softmax", "sigmoid", SIGNED])
def test_per_position_is_the_papers_pseudocode(map):
    w = pattern(map).numpy()
    np.testing.assert_allclose(measure.sink_score(w, samples=0), paper_pseudocode(w), rtol=1e-12)


def test_the_mean_over_samples_comes_before_the_clip():
    w = np.zeros((2, 1, 4, 2))
    w[0, ..., :] = [3.0, -2.0]  # share 3
    w[1, ..., :] = [-2.0, 3.0]  # share −2
    assert measure.sink_score(w, samples=0) == pytest.approx([0.5])
    assert measure.sink_score(w).ravel().tolist() == [1.0, 0.0]
    assert measure.sink_score(w, samples=-4) == pytest.approx([0.5])


def test_pooled_is_the_ratio_of_sums():
    w = pattern("sigmoid").numpy()
    expected = w[:, :, 1:-2, 0].sum(-1) / w[:, :, 1:-2].sum((-1, -2))
    np.testing.assert_allclose(measure.sink_score(w, "pooled"), expected, rtol=1e-12)
    assert np.abs(measure.sink_score(w, "pooled") - measure.sink_score(w)).max() > 1e-3


def test_both_definitions_agree_for_row_stochastic_maps():
    w = pattern("softmax").numpy()
    np.testing.assert_allclose(measure.sink_score(w, "pooled"), measure.sink_score(w), rtol=1e-12)


def test_queries_and_key_can_be_chosen():
    w = pattern().numpy()
    np.testing.assert_allclose(measure.sink_score(w, queries=slice(None), key=2), w[..., 2].mean(-1), rtol=1e-12)


def test_sink_share():
    assert measure.sink_share(np.array([[0.95, 0.2, 0.9, 0.91]])).tolist() == [0.5]
    assert measure.sink_share(np.array([0.4, 0.2]), threshold=0.3) == 0.5


def test_without_all_scores_there_is_no_share():
    share = measure.sink_share(np.array([[0.95, np.nan], [0.95, 0.2]]))
    np.testing.assert_array_equal(share, [np.nan, 0.5])


def test_a_row_without_weight_has_no_score():
    w = pattern().numpy()
    w[:, :, 2] = 0
    assert np.isnan(measure.sink_score(w)).all()


def test_pooled_needs_weight_of_some_query_only():
    w = np.zeros((2, 6, 6))
    w[0, 2, :2] = [3.0, 1.0]  # the other queries attend nowhere, and neither does the second head
    pooled = measure.sink_score(w, "pooled")
    assert pooled[0] == 0.75
    assert np.isnan(pooled[1])


def test_pooled_weights_that_cancel_have_no_score():
    w = np.zeros((1, 6, 6))
    w[0, 1, 0], w[0, 2, 1] = 1.0, -1.0
    assert np.isnan(measure.sink_score(w, "pooled")).all()


@pytest.mark.parametrize("axis", [-1, -2, -3, 1, 4, -5])
def test_samples_cannot_be_head_query_or_key(axis):
    with pytest.raises(SpecError, match="samples must name axes before"):
        measure.sink_score(pattern(), samples=axis)


def test_no_queries_left():
    with pytest.raises(SpecError, match="leave none of 3"):
        measure.sink_score(pattern(shape=(2, 3, 5)))


def test_an_unknown_definition_is_refused():
    with pytest.raises(SpecError, match="did you mean 'pooled'"):
        measure.sink_score(pattern(), "poled")


def test_head_similarity_is_the_cosine_of_patterns():
    w = pattern().numpy()
    a, b = w[0, 0].ravel(), w[0, 2].ravel()
    got = measure.head_similarity(w)
    assert got.shape == (2, 3, 3)
    assert got[0, 0, 2] == pytest.approx(a @ b / np.sqrt(a @ a * (b @ b)))
    np.testing.assert_allclose(np.diagonal(got, axis1=-2, axis2=-1), 1.0, rtol=1e-12)


def test_total_variation():
    one, other = np.eye(3)[None, :2], np.eye(3)[None, 1:]
    assert measure.total_variation(one, other).tolist() == [1.0]
    assert measure.total_variation(one, one).tolist() == [0.0]
    assert measure.total_variation(one, np.full((1, 2, 3), 1 / 3)) == pytest.approx([2 / 3])
    with pytest.raises(SpecError, match="same shape"):
        measure.total_variation(one, np.eye(3)[None])


def test_flip_rate_averages_both_directions():
    label_1, label_2 = np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3])
    flipped_all = measure.flip_rate(label_2, label_1, label_1, label_2)
    never = measure.flip_rate(label_1, label_2, label_1, label_2)
    one_way = measure.flip_rate(label_2, label_2, label_1, label_2)
    assert (flipped_all, never, one_way) == (1.0, 0.0, 0.5)
    per_head = measure.flip_rate(np.stack([label_2, label_1]), np.stack([label_1, label_2]), label_1, label_2)
    assert per_head.tolist() == [1.0, 0.0]
