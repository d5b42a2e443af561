"""A model saved with its map comes back with it, and never as a softmax model by accident."""

import copy
import json

import pytest
import torch
import transformers

from softmaxlab.errors import SpecError
from softmaxlab.probing.load import load
from softmaxlab.probing.swap.map_file import BIAS, MAP
from softmaxlab.probing.swap.saving import detach, load_swapped, save_swapped, saved_map, swap_of
from softmaxlab.probing.swap.swapped import swapped
from tests.probing.checkpoints import llama, tokenizer
from tests.probing.families import batch, build

B = torch.tensor([[-1.0, 0.0, 1.0, 2.0], [0.5, -0.5, 1.5, -1.5]])


@pytest.fixture(scope="module")
def model():
    return build("llama")


def logits(model):
    with torch.no_grad():
        return model(**batch("llama", "left")).logits


@pytest.mark.parametrize(("map", "bias"), [("softmax1", B), ("sigmoid", "-log n"), ("relu", None)])
def test_a_saved_model_comes_back_with_its_map(model, tmp_path, map, bias):
    own, config = logits(model), model.config.to_dict()
    with swapped(model, map, bias=bias) as swap:
        ours = logits(model)
    save_swapped(model, tmp_path, map, swap.bias)
    assert torch.equal(logits(model), own)
    assert "attn_implementation" not in model.config.to_dict()
    loaded = load_swapped(tmp_path)
    assert torch.equal(logits(loaded), ours)
    assert swap_of(loaded).map == map == saved_map(tmp_path).map
    assert not torch.equal(ours, own)
    detach(loaded)
    assert torch.equal(logits(loaded), own)
    assert loaded.config._attn_implementation == "sdpa"
    assert "attn_implementation" not in loaded.config.to_dict()
    assert config["num_attention_heads"] == loaded.config.num_attention_heads
    with pytest.raises(SpecError, match="no map that stays"):
        detach(loaded)


@pytest.mark.parametrize("auto", ["AutoModelForCausalLM", "AutoModel", "LlamaForCausalLM"])
def test_a_plain_reload_stops_and_says_what_to_use(model, tmp_path, auto):
    save_swapped(model, tmp_path / "saved", "softmax1", 0.0)
    with swapped(model, "softmax1", bias=0.0):
        model.save_pretrained(tmp_path / "in the block")
        logits(model)
    for folder in ("saved", "in the block"):
        with pytest.raises(ValueError, match=r"softmax1 \(open with softmaxlab.probing.load_swapped\)"):
            getattr(transformers, auto).from_pretrained(tmp_path / folder)
    assert saved_map(tmp_path / "in the block").map == "softmax1"
    for implementation in ("eager", "sdpa"):
        with pytest.raises(ValueError, match=r"softmax1 \(open with softmaxlab.probing.load_swapped\)"):
            getattr(transformers, auto).from_pretrained(tmp_path / "saved", attn_implementation=implementation)
    (tmp_path / "in the block" / MAP).unlink()
    with pytest.raises(SpecError, match="without it: use save_swapped"):
        saved_map(tmp_path / "in the block")


def test_a_loaded_model_can_be_trained_swapped_and_saved_again(model, tmp_path):
    save_swapped(model, tmp_path / "a", "softmax1", B)
    loaded = load_swapped(tmp_path / "a", learn=True)
    swap = swap_of(loaded)
    before = logits(loaded)
    loss = loaded(**batch("llama"), labels=batch("llama")["input_ids"]).loss
    loss.backward()
    with torch.no_grad():
        for b in swap.parameters():
            b -= 10 * b.grad
    after = logits(loaded)
    assert not torch.equal(after, before)
    with swapped(loaded, "relu"):
        with pytest.raises(SpecError, match="leave that one first"):
            detach(loaded)
        assert not torch.equal(logits(loaded), after)
    assert torch.equal(logits(loaded), after)
    save_swapped(loaded, tmp_path / "b", swap.map, swap.bias)
    assert torch.equal(logits(load_swapped(tmp_path / "b")), after)
    with pytest.raises(SpecError, match="cannot be copied"):
        copy.deepcopy(loaded)


def test_folders_that_do_not_fit_are_refused(model, tmp_path):
    model.save_pretrained(tmp_path / "plain")
    assert saved_map(tmp_path / "plain") is None
    with pytest.raises(SpecError, match=f"no {MAP}"):
        load_swapped(tmp_path / "plain")
    folder = tmp_path / "saved"
    save_swapped(model, folder, "softmax1", B)
    told = json.loads((folder / MAP).read_text())
    (folder / MAP).write_text(json.dumps(told | {"map": "softmx1"}))
    with pytest.raises(SpecError, match="did you mean 'softmax1'"):
        load_swapped(folder)
    (folder / MAP).write_text(json.dumps(told | {"schema": 2}))
    with pytest.raises(SpecError, match="schema 2"):
        load_swapped(folder)
    (folder / MAP).write_text("{")
    with pytest.raises(SpecError, match="cannot be read"):
        load_swapped(folder)
    (folder / MAP).write_text(json.dumps(told))
    (folder / BIAS).write_bytes(b"")
    with pytest.raises(SpecError, match="cannot be read"):
        load_swapped(folder)
    save_swapped(model, folder, "relu")
    assert not (folder / BIAS).exists()


def test_bad_input_writes_nothing(model, tmp_path):
    with pytest.raises(SpecError, match="needs bias"):
        save_swapped(model, tmp_path / "new", "softmax1")
    assert not (tmp_path / "new").exists()


def test_the_loader_brings_the_map_back(tmp_path):
    """`load` of a saved folder computes with the map, as `load_swapped` does."""
    plain = llama()
    save_swapped(plain, tmp_path, "softmax1", B)
    tokenizer().save_pretrained(tmp_path)
    ids = torch.arange(4, 24)[None]
    loaded = load(tmp_path).model
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, load_swapped(tmp_path)(ids).logits)
        assert not torch.equal(loaded(ids).logits, plain(ids).logits)
