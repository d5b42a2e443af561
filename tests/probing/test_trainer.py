"""A swapped map that a `Trainer` trains, saves and opens again; what cannot be saved."""

import json
import subprocess
import sys

import pytest
import torch
import transformers as tf

import softmaxlab as sl
from softmaxlab.errors import SpecError
from tests.probing.families import VOCAB, build

READ = """
import json, sys, torch
import softmaxlab as sl
folder = sys.argv[1]
model = sl.probing.load_swapped(folder).eval()
with torch.no_grad():
    logits = model(torch.tensor([json.loads(sys.argv[2])])).logits
bias = {name: b.tolist() for name, b in sl.probing.swap_of(model).bias.items()}
print(json.dumps({"bias": bias, "logits": logits.double().tolist()}))
"""


def test_a_trained_softmax1_opens_in_a_new_process_with_the_bias_that_moved(tmp_path):
    pytest.importorskip("accelerate")
    model = build("llama")
    ids = torch.randint(3, VOCAB, (16, 10), generator=torch.Generator().manual_seed(0))
    options = {"max_steps": 4, "per_device_train_batch_size": 4, "learning_rate": 1e-2, "report_to": []}
    arguments = tf.TrainingArguments(
        str(tmp_path / "run"), use_cpu=True, disable_tqdm=True, save_strategy="no", **options
    )
    with sl.probing.swapped(model, "softmax1", bias=0.5, learn=True) as swap:
        assert sum(name.endswith("softmaxlab_bias") for name, _ in model.named_parameters()) == 2
        trainer = tf.Trainer(model=model, args=arguments, train_dataset=[{"input_ids": x, "labels": x} for x in ids])
        trainer.train()
        trainer.save_model(str(tmp_path / "saved"))
        bias = {name: b.detach().clone() for name, b in swap.bias.items()}
        with torch.no_grad():
            logits = model.eval()(ids[:1]).logits
    assert all((b - 0.5).abs().min() > 1e-4 for b in bias.values()), "every head's bias moved"
    assert not any("softmaxlab_bias" in name for name, _ in model.named_parameters())
    command = [sys.executable, "-c", READ, str(tmp_path / "saved"), json.dumps(ids[0].tolist())]
    opened = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert torch.equal(torch.tensor(opened["logits"]), logits.double())
    for name, b in bias.items():
        assert opened["bias"][name] == pytest.approx(b.tolist())


@pytest.mark.parametrize("around", ["prefix", "bias", "pruned"])
def test_a_folded_or_pruned_model_is_not_saved_without_its_change(tmp_path, around):
    model, ids = build("llama"), torch.randint(3, VOCAB, (2, 12))
    change = sl.probing.pruned(model, [(0, 1)]) if around == "pruned" else sl.probing.fold_sink(model, around, [ids])
    with change, pytest.raises(SpecError, match="save_pretrained would write this model without"):
        model.save_pretrained(tmp_path / "folder")
    model.save_pretrained(tmp_path / "folder")
    assert (tmp_path / "folder" / "model.safetensors").is_file()
