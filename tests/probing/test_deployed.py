"""Folded sinks on a machine without softmaxlab: written here, used in a new process by transformers alone."""

import json
import subprocess
import sys

import pytest
import torch

from softmaxlab.errors import SpecError
from softmaxlab.probing import fold_sink
from softmaxlab.probing.interventions import learned_sinks
from softmaxlab.probing.interventions.sink_prefix import Prefix
from tests.probing.families import VOCAB, build

AGREES = 1e-5  # float32: the same sums in two processes
ELSEWHERE = """
import sys
sys.modules["softmaxlab"] = None  # an import of it fails
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

folder, kind, ids = sys.argv[1], sys.argv[2], load_file("ids.safetensors")["ids"]
sys.path.insert(0, folder)
model = AutoModelForCausalLM.from_pretrained("model-" + kind).eval()
with torch.no_grad():
    if kind == "llama":
        from load_prefix import load_prefix
        cache = load_prefix(folder + "/prefix.safetensors", batch=len(ids))
        logits = model(ids, past_key_values=cache).logits
    else:
        from load_sinks import load_sinks
        logits = load_sinks(model, folder + "/sinks.safetensors")(ids).logits
save_file({"logits": logits}, "logits.safetensors")
"""


@pytest.mark.parametrize("kind", ["llama", "gpt_oss"])
def test_logits_are_those_of_the_folded_model_without_softmaxlab(tmp_path, kind):
    from safetensors.torch import load_file, save_file

    model = build(kind)
    ids = torch.randint(3, VOCAB, (2, 9), generator=torch.Generator().manual_seed(0))
    if kind == "llama":
        folded = Prefix(model, (5, 7))
    else:
        folded = learned_sinks.LearnedSinks(model, [{"input_ids": ids}], eps=0.05)
    with torch.no_grad():
        plain = model(ids).logits
        with folded:
            expected = model(ids).logits
        assert torch.equal(model(ids).logits, plain)
    assert (plain - expected).abs().max() > 1e3 * AGREES  # there is something to lose
    folded.save(tmp_path / "folded")
    model.save_pretrained(tmp_path / f"model-{kind}")
    save_file({"ids": ids}, tmp_path / "ids.safetensors")
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, "folded", kind], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(load_file("logits.safetensors")["logits"], expected, atol=AGREES, rtol=AGREES)


def test_a_prefix_says_what_it_is(tmp_path):
    from safetensors import safe_open

    files = Prefix(build("llama"), (5, 7)).save(tmp_path / "folded")
    assert sorted(file.name for file in files) == ["README.md", "load_prefix.py", "prefix.safetensors"]
    with safe_open(tmp_path / "folded" / "prefix.safetensors", "pt") as opened:
        assert json.loads(opened.metadata()["tokens"]) == opened.get_tensor("tokens").tolist() == [5, 7]
        assert opened.metadata()["model"] == "LlamaForCausalLM"
    loader = (tmp_path / "folded" / "load_prefix.py").read_text()
    code = [line for line in loader.splitlines() if line and not line.startswith('"""')]
    assert len(code) <= 10
    compile(loader, "load_prefix.py", "exec")


def test_learned_sinks_are_folded_in_sink_heads_alone():
    model = build("gpt_oss")
    ids = torch.randint(3, VOCAB, (4, 9), generator=torch.Generator().manual_seed(1))
    before = {name: value.clone() for name, value in model.state_dict().items() if name.endswith("sinks")}
    none, all_heads = (learned_sinks.LearnedSinks(model, [{"input_ids": ids}], eps=eps) for eps in (0.999, 1e-9))
    for name, value in before.items():
        assert torch.equal(none.sinks[name], value)
        assert (all_heads.sinks[name] > value).all()  # log(e^s + e^b) > s


def test_a_bias_is_refused_where_nothing_can_hold_it():
    folded = fold_sink(build("llama"), "bias", calibration=[torch.arange(3, 12)])
    with pytest.raises(SpecError, match="no learned sinks to hold a bias per head: use method='prefix'"):
        folded.save("folded")
