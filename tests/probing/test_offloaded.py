"""Models whose weights live elsewhere (accelerate's offloading) are changed and measured as if they did not."""

import accelerate
import numpy as np
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing.head_similarity import redundancy
from softmaxlab.probing.interventions.fold_sink import fold_sink
from softmaxlab.probing.interventions.prune import prune
from softmaxlab.probing.next_token_loss import loss
from tests.probing.families import batch, build

SAME = 1e-6  # the same float32 sums, perhaps in another order


@pytest.fixture
def offloaded():
    model = accelerate.cpu_offload(build("llama"), execution_device=torch.device("cpu"))
    assert next(model.parameters()).device.type == "meta"
    return model


def test_the_loss(offloaded):
    inputs = [batch("llama", "left")]
    assert loss(offloaded, inputs).mean == pytest.approx(loss(build("llama"), inputs).mean, rel=SAME)


def test_greedy_pruning(offloaded):
    inputs = [batch("llama"), batch("llama", "right")]
    one, other = (prune(model, inputs, heads=2) for model in (offloaded, build("llama")))
    assert one[["layer", "head"]].equals(other[["layer", "head"]])
    np.testing.assert_allclose(one["loss"], other["loss"], rtol=SAME)


def test_redundancy(offloaded):
    inputs = [batch("llama", "right")]
    np.testing.assert_allclose(redundancy(offloaded, inputs), redundancy(build("llama"), inputs), atol=SAME)


def test_weights_that_are_not_in_memory_cannot_be_rounded(offloaded):
    with pytest.raises(SpecError, match=r"cannot be quantised: .* not in memory"):
        fold_sink(offloaded, "prefix", calibration=[batch("llama")])
