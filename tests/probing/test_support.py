"""Trials of tiny architectures: a sample of the table in docs/architectures.md."""

import pytest
import torch

from softmaxlab.probing.streaming import sums
from softmaxlab.probing.support.page import page
from softmaxlab.probing.support.tiny import KINDS, model_types
from softmaxlab.probing.support.trial import (
    EAGER,
    REFUSED,
    TOLERANCE,
    WORKS,
    WRONG,
    Trial,
    _statistics,
    try_architecture,
)

SAMPLE = [
    ("causal", "llama", WORKS),
    ("causal", "zamba", WORKS),
    ("causal", "xlnet", EAGER),
    ("causal", "mamba", REFUSED),
    ("image and text", "paligemma", WORKS),  # its eager attention differs from its own default without a mask
    ("masked", "layoutlm", WORKS),
    ("masked", "longformer", REFUSED),
    ("encoder–decoder", "bart", WORKS),
    ("encoder–decoder", "t5gemma2", REFUSED),  # its decoder reads the encoder in the same softmax
]


@pytest.mark.parametrize(("kind", "model_type", "verdict"), SAMPLE)
def test_a_sample_of_architectures(kind, model_type, verdict):
    trial = try_architecture(kind, model_type, model_types(kind)[model_type])
    assert trial.verdict == verdict, trial.reason
    assert bool(trial.reason) == (verdict != WORKS)
    if verdict != REFUSED:
        assert max(trial.statistics, trial.logits) <= TOLERANCE


def test_statistics_that_are_not_those_of_the_eager_weights_are_seen(monkeypatch):
    plain = sums._row_sums

    def wrong(per_query, *others):
        return plain(per_query | {"peak": per_query["peak"] * 1.001}, *others)

    monkeypatch.setattr(sums, "_row_sums", wrong)
    trial = try_architecture("causal", "llama", model_types("causal")["llama"])
    assert trial.verdict == WRONG
    assert not trial.is_honest


def test_an_eager_reference_that_is_not_a_number_is_no_agreement():
    w = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1, 1)
    w[0] = torch.nan
    assert _statistics(w, torch.ones(2, 3, dtype=torch.bool)).isnan().all()


def test_the_page_counts_what_was_tried_and_names_what_was_not():
    trials = [Trial("causal", "a", "A", WORKS, "", 1e-7, 0.0), Trial("masked", "b", "B", WRONG, "differs", 1.0, 0.0)]
    text = page(trials, [("masked", "c")])
    assert "2 architectures" in text
    assert "1 gave other numbers without saying so" in text
    assert "- masked: c" in text
    assert "| a | works | 1e-07 | 0 |  |" in text


def test_every_kind_has_types():
    assert all(len(model_types(kind)) > 30 for kind in KINDS)


def test_a_learned_sink_that_eager_weights_lack_is_said():
    name = model_types("causal")["granite_swa"]
    trial = try_architecture("causal", "granite_swa", name)
    assert (trial.verdict, trial.statistics <= TOLERANCE) == (WORKS, True)
    assert "learned sink" in trial.reason
    assert not try_architecture("causal", "mimo_v2_flash", model_types("causal")["mimo_v2_flash"]).reason


@pytest.mark.parametrize("model_type", ["bamba", "lfm2_moe", "falcon_h1", "recurrent_gemma"])
def test_hybrids_are_built_with_a_layer_that_attends(model_type):
    trial = try_architecture("causal", model_type, model_types("causal")[model_type])
    assert trial.verdict == WORKS, trial.reason
