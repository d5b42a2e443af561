"""Compiled, PEFT-wrapped, offloaded and checkpointed models: a swap works there, and is felt to be gone afterwards."""

import accelerate
import peft
import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing.swap.saving import save_swapped
from softmaxlab.probing.swap.swapped import swapped
from tests.probing.families import batch, build

SAME = 1e-5  # relative to the largest logit: the same operations in another order
SWAPS = [
    ("softmax1", 0.0),
    ("softmax1", 2.0),
    ("sigmoid", "-log n"),
    ("relu", None),
]
GRAPHS = 3  # that torch may keep of one function; beyond that it runs it as it is


def one_layer():
    """Half the work for the compiler."""
    model = build("llama")
    model.model.layers, model.config.num_hidden_layers = model.model.layers[:1], 1
    return model


def logits(model):
    with torch.no_grad():
        return model(**batch("llama", "left")).logits[batch("llama", "left")["attention_mask"].bool()]


def equal(a, b):
    return bool((a - b).abs().max() < SAME * b.abs().max())


@pytest.mark.slow
def test_a_compiled_model_computes_with_the_map_of_the_moment():
    """More swaps than torch keeps graphs, each followed by the model's own attention: none may serve for another."""
    model = one_layer()
    own, maps = logits(model), []
    for map, bias in SWAPS:
        with swapped(model, map, bias=bias):
            maps.append(logits(model))
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    with torch._dynamo.config.patch(recompile_limit=GRAPHS):
        assert equal(logits(compiled), own)
        for (map, bias), expected in zip(SWAPS, maps):
            with swapped(compiled, map, bias=bias):
                found = logits(compiled)
            assert equal(found, expected)
            assert not equal(found, own)
            assert equal(logits(compiled), own)
        with swapped(compiled, *SWAPS[0]):
            with swapped(model, *SWAPS[1]):
                assert equal(logits(compiled), maps[1])
            assert equal(logits(compiled), maps[0])
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch's own, which it means to hide
def test_a_compiled_model_learns_its_biases():
    def train(model, forward):
        swap = swapped(model, "softmax1", bias=0.0, learn=True)
        optimizer = torch.optim.SGD(swap.parameters(), lr=1.0)
        for _ in range(2):
            with swap:
                loss = forward(**batch("llama"), labels=batch("llama")["input_ids"]).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return torch.stack(swap.parameters())

    model = one_layer()
    expected = train(model, model)
    torch._dynamo.reset()
    found = train(model, torch.compile(model, backend="aot_eager"))
    torch._dynamo.reset()
    assert equal(found, expected)
    assert expected.abs().min() > 0


def test_a_compiled_model_can_be_calibrated():
    model, runs = build("llama"), [batch("llama", "left")]
    expected = swapped(model, "sigmoid", bias="calibrated", calibration=runs).bias
    found = swapped(torch.compile(model, backend="eager"), "sigmoid", bias="calibrated", calibration=runs).bias
    assert all(torch.equal(found[name], b) for name, b in expected.items())


def test_a_peft_model_swaps_and_trains_its_adapters_but_is_not_saved(tmp_path):
    model = build("llama")
    with swapped(model, "softmax1", bias=0.5):
        expected = logits(model)
    own = logits(model)
    wrapped = peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=2))
    with swapped(wrapped, "softmax1", bias=0.5):
        assert equal(logits(wrapped), expected)  # a new adapter adds nothing
        wrapped(**batch("llama"), labels=batch("llama")["input_ids"]).loss.backward()
    gradients = [p.grad for name, p in wrapped.named_parameters() if "lora_B" in name]
    assert len(gradients) == 4
    assert all(gradient.abs().max() > 0 for gradient in gradients)
    assert equal(logits(wrapped), own)
    with pytest.raises(SpecError, match="merge it first"):
        save_swapped(wrapped, tmp_path, "softmax1", 0.5)


@pytest.mark.parametrize("name", ["llama", "gpt_oss"])
def test_an_offloaded_model_swaps_and_is_calibrated(name):
    runs = [batch(name, "left")]
    model = build(name)
    with swapped(model, "softmax1", bias="calibrated", calibration=runs) as swap, torch.no_grad():
        expected = model(**runs[0]).logits
    own = logits(model)
    offloaded = accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    assert next(offloaded.parameters()).device.type == "meta"
    with swapped(offloaded, "softmax1", bias="calibrated", calibration=runs) as again, torch.no_grad():
        assert equal(offloaded(**runs[0]).logits, expected)
    assert all(torch.equal(b, again.bias[site]) for site, b in swap.bias.items())
    assert equal(logits(offloaded), own)


def test_gradient_checkpointing_inside_the_block_changes_no_gradient():
    model = build("llama").train()

    def gradients():
        model.zero_grad()
        with swapped(model, "sigmoid", bias=-2.0):
            model(**batch("llama"), labels=batch("llama")["input_ids"]).loss.backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    expected = gradients()
    model.gradient_checkpointing_enable()
    assert equal(gradients(), expected)
    with swapped(model, "sigmoid", bias=-2.0):
        loss = model(**batch("llama"), labels=batch("llama")["input_ids"]).loss
    with pytest.raises(torch.utils.checkpoint.CheckpointError):
        loss.backward()
