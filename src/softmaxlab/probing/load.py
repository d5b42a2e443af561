"""A pretrained model by name: a folder, a `.gguf` file, a Hub id, or the demo model `smollm2`.

    loaded = load("smollm2")
    loaded.model(loaded.tokenizer("Hello", return_tensors="pt").input_ids)

Weights are read from safetensors only and nothing from a checkpoint is run; see checkpoint.py. A folder that
`save_swapped` wrote comes back with its map.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from softmaxlab.core.documents import user_folder
from softmaxlab.errors import SpecError, unknown
from softmaxlab.probing import gguf, hub
from softmaxlab.probing.checkpoint import CONFIG, check_config, fingerprint, first_line, weight_files
from softmaxlab.probing.extra import transformers
from softmaxlab.probing.swap.saving import keep, saved_map
from softmaxlab.probing.text import Special, special_tokens

DTYPES = {name: getattr(torch, name) for name in ("float64", "float32", "bfloat16", "float16")}
TOKENIZERS = ("tokenizer*.json", "vocab.*", "*.model", "tekken.json")
PROCESSORS = ("processor_config.json", "preprocessor_config.json")
# kind → (auto class, the table in transformers of the classes it serves)
KINDS = {
    "causal": ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    "seq2seq": ("AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
    "masked": ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    "multimodal": ("AutoModelForImageTextToText", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"),  # read as text alone
    "base": ("AutoModel", "MODEL_MAPPING_NAMES"),
}
# With no class in the config: encoders also appear in the causal table, so that one is asked last.
BY_TYPE = ("seq2seq", "masked", "causal", "multimodal")


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode and what is known of it before it runs."""

    model: Any
    tokenizer: Any  # a tokenizer; a processor for models of images or sound; None if those have none
    name: str
    kind: str  # "causal", "seq2seq", "masked", "multimodal" or "base" (no loss)
    folder: Path
    sha256: str
    hashed: str  # which files and bytes went into sha256
    special: Special  # what the tokenizer puts first, and whether it has a BOS at all

    @property
    def adds_bos(self) -> bool:
        return bool(self.special.before)

    @property
    def bos_token(self) -> str | None:
        """The token put first; if none is, the one that could be."""
        return self.special.first or self.special.bos


def load(
    name: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    device_map: str | Mapping[str, Any] | None = None,
    revision: str | None = None,
    kind: str = "auto",
) -> Loaded:
    """The model called `name`. dtype None: the checkpoint's own (float32 for GGUF); device None: the CPU."""
    if not isinstance(name, str | Path) or not str(name):
        got = repr(name) if isinstance(name, str) else type(name).__name__
        raise SpecError(f"name must be a folder, a .gguf file, a Hub id or {gguf.DEMO!r}, got {got}")
    if kind not in ("auto", *KINDS):
        raise unknown("kind", kind, ("auto", *KINDS))
    if device is not None and device_map is not None:
        raise SpecError(f"device={device!r} and device_map={device_map!r} exclude each other, expected one of them")
    target, number = _device(device), _dtype(dtype)
    transformers()
    folder, source = _find(str(name), revision)
    config = check_config(folder)
    files = [folder / CONFIG, *weight_files(folder)]
    kind = _kind(config) if kind == "auto" else kind
    tokenizer = _tokenizer(folder, kind)
    saved = saved_map(folder)
    model = _model(folder, kind, number, device_map, own_attention=saved is None)
    if saved is not None:
        keep(model, saved)
    if target is not None:
        model.to(target)
    sha256, how = fingerprint([source] if source else files)
    hashed = f"{source.name if source else 'config and weights'}, {how}"
    return Loaded(model.eval(), tokenizer, str(name), kind, folder, sha256, hashed, special_tokens(tokenizer))


def _device(device: str | torch.device | None) -> torch.device | None:
    if device is None:
        return None
    try:
        target = torch.device(device)
        torch.empty(0, device=target)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise SpecError(f"device {device!r} cannot be used: {first_line(error)}") from None
    return target


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | str:
    if dtype is None:
        return "auto"
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise unknown("dtype", name, DTYPES)
    return DTYPES[name]


def _find(name: str, revision: str | None) -> tuple[Path, Path | None]:
    """The checkpoint's folder, and the GGUF file it was made from, if it was."""
    path = user_folder("model", name)
    is_gguf = path.suffix == ".gguf"
    if (name == gguf.DEMO or is_gguf or path.exists()) and revision is not None:
        raise SpecError(
            f"revision {revision!r} belongs to a Hub id, but {name!r} is a local path, which has no revisions"
        )
    if name == gguf.DEMO or is_gguf:
        file = path if is_gguf else gguf.demo_file()
        return gguf.converted(file, path.stem), file
    if path.is_dir():
        return path, None
    if path.exists():
        raise SpecError(f"{name!r} is a file, expected a folder, a .gguf file, a Hub id or {gguf.DEMO!r}")
    if not hub.ID.fullmatch(name):
        raise SpecError(f"no folder {name!r}, and it is not of the form of a Hub id (owner/name)")
    if (folder := hub.cached(name, revision)) is not None:
        return folder, None
    if get_close_matches(name, [gguf.DEMO]):
        raise unknown("model", name, [gguf.DEMO])
    return hub.fetched(name, revision), None


def _kind(config: dict[str, Any]) -> str:
    """Return the kind of a model, by the class that saved the checkpoint or else by the model's type."""
    tables = {kind: getattr(transformers().models.auto.modeling_auto, table) for kind, (_, table) in KINDS.items()}
    model_type, classes = config["model_type"], config.get("architectures") or []
    if classes:
        return next((kind for kind in KINDS if tables[kind].get(model_type) in classes), "base")
    return next((kind for kind in BY_TYPE if model_type in tables[kind]), "base")


def _tokenizer(folder: Path, kind: str):
    """Read the tokenizer, before the weights, so that a folder without one is refused at once."""
    library = transformers()
    if _model_class(folder, kind).main_input_name == "input_ids":
        if not any(path for pattern in TOKENIZERS for path in folder.glob(pattern)):
            raise SpecError(f"{folder} has no tokenizer: tokenizer.save_pretrained(FOLDER) writes the files")
        tokenizer = _pretrained(library.AutoTokenizer, folder)
        if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # what some classes make of missing files
            raise SpecError(f"the tokenizer in {folder} has special tokens only: its vocabulary is missing")
        try:
            special_tokens(tokenizer)
        except Exception as error:  # its config may hold anything, and its own code fails in as many ways
            raise SpecError(f"the tokenizer in {folder} cannot be used: {first_line(error)}") from None
        return tokenizer
    if any((folder / name).is_file() for name in PROCESSORS):
        return _pretrained(library.AutoProcessor, folder)
    return None


def _model_class(folder: Path, kind: str):
    library = transformers()
    config = _pretrained(library.AutoConfig, folder)
    classes = getattr(library, KINDS[kind][0])._model_mapping
    if type(config) not in classes:
        raise SpecError(f"{folder} holds a {config.model_type} model, which has no kind {kind!r}")
    model_class = classes[type(config)]
    return model_class[0] if isinstance(model_class, tuple) else model_class


def _pretrained(auto, folder: Path, **options):
    """from_pretrained, without code from the checkpoint, its errors in one line."""
    try:
        with gguf.quiet():
            return auto.from_pretrained(folder, trust_remote_code=False, local_files_only=True, **options)
    except Exception as error:  # transformers and what it calls raise nearly every kind
        raise SpecError(f"{auto.__name__} of transformers cannot load {folder}: {first_line(error)}") from None


def _model(
    folder: Path, kind: str, dtype: torch.dtype | str, device_map: str | Mapping[str, Any] | None, own_attention: bool
):
    auto = getattr(transformers(), KINDS[kind][0])
    places = dict(device_map) if isinstance(device_map, Mapping) else device_map
    options = {"use_safetensors": True, "dtype": dtype, "device_map": places, "output_loading_info": True}
    if not own_attention:
        # in place of the sentences that stop a plain from_pretrained
        options |= {"attn_implementation": None, "experts_implementation": None}
    elif not _model_class(folder, kind)._can_set_attn_implementation():
        options["attn_implementation"] = "eager"  # the only attention of such a model that can be measured
    model, loading = _pretrained(auto, folder, **options)
    # A pooler is often not saved, and comes after the last head.
    if missing := sorted(key for key in loading["missing_keys"] if "pooler" not in key):
        raise SpecError(f"the weights in {folder} lack {len(missing)} tensors of the model, the first is {missing[0]}")
    return model
