"""A checkpoint folder, read without running anything it brings.

Wanted: config.json of a model type that transformers knows, and safetensors weights. Refused, each in one line:
pickled weights (reading a pickle can run code), a model that needs its own Python files (`trust_remote_code`), an
attention kernel to be fetched from the Hub, a PEFT adapter without its model, damaged files.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from softmaxlab.errors import SpecError
from softmaxlab.probing.extra import transformers

CONFIG, ADAPTER = "config.json", "adapter_config.json"
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
WHOLE = 10**9  # bytes; more is not read through only to be named
EDGE = 2**20  # bytes at each end of a larger file
PART = 2**22  # bytes read at once


def check_config(folder: Path) -> dict[str, Any]:
    """The plain contents of config.json, once it is clear that transformers alone can build the model."""
    path = folder / CONFIG
    if not path.is_file():
        if (folder / ADAPTER).is_file():
            raise SpecError(f"{folder} holds a PEFT adapter, not a model: merge it (merge_and_unload) and save that")
        raise SpecError(f"the folder {folder} has no {CONFIG}: it is not a checkpoint of transformers")
    config = _json(path)
    if (folder / ADAPTER).is_file():
        raise SpecError(f"{folder} holds a model and a PEFT adapter: merge them (merge_and_unload) and save that")
    _refuse_unknown_model(folder, config.get("model_type"), "auto_map" in config)
    classes = config.get("architectures") or []
    if not (isinstance(classes, list) and all(isinstance(name, str) for name in classes)):
        raise SpecError(f"{path}: architectures must be a list of names of classes, got {classes!r:.80}")
    for key, value in _entries(config):
        if key.endswith("_implementation") and "/" in str(value):
            raise SpecError(
                f"{path} asks for code from the Hub ({key}: {value!r}), which is never run: remove the entry"
            )
    return config


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of the checkpoint, all there and with readable headers."""
    if (folder / INDEX).is_file():
        shards = _json(folder / INDEX).get("weight_map")
        names = sorted(set(shards.values())) if isinstance(shards, dict) else []
        if not names or any(not isinstance(name, str) or Path(name).name != name for name in names):
            raise SpecError(f"{folder / INDEX} is damaged: its weight_map does not name files of the folder")
    elif (folder / SINGLE).is_file():
        names = [SINGLE]
    else:
        raise _no_weights(folder)
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise SpecError(f"{folder} lacks {len(missing)} of {len(names)} weight files, the first is {missing[0]}")
    for name in names:
        _check_header(folder / name)
    return [folder / name for name in names]


def fingerprint(files: list[Path]) -> tuple[str, str]:
    """A sha256 over names and contents, and which bytes went in: all, or only both ends of files over 1 GB in total.

    Of one file it is the file's own sha256 (as `sha256sum` prints it), of several the sha256 of the lines
    "sha256  name" in the given order; the size goes in when only the ends are read.
    """
    whole = sum(path.stat().st_size for path in files) <= WHOLE
    digests = [_digest(path, whole) for path in files]
    how = "all bytes" if whole else f"size, first and last {EDGE} bytes of each file"
    if len(files) == 1:
        return digests[0], how
    lines = "".join(f"{digest}  {path.name}\n" for digest, path in zip(digests, files))
    return hashlib.sha256(lines.encode()).hexdigest(), how


def first_line(error: Exception) -> str:
    """Return the first line of an error of another library: our messages take one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _digest(path: Path, whole: bool) -> str:
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as file:
        if whole or size <= 2 * EDGE:
            while part := file.read(PART):
                digest.update(part)
        else:
            digest.update(str(size).encode() + file.read(EDGE))
            file.seek(-EDGE, 2)
            digest.update(file.read(EDGE))
    return digest.hexdigest()


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(f"{path} cannot be read: {first_line(error)}") from None
    if not isinstance(content, dict):
        raise SpecError(f"{path} must hold a JSON object, got {type(content).__name__}")
    return content


def _entries(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every key and value, those of configs inside the config too."""
    for key, value in config.items():
        yield key, value
        if isinstance(value, dict):
            yield from _entries(value)


def _refuse_unknown_model(folder: Path, model_type: Any, remote: bool) -> None:
    library = transformers()
    if isinstance(model_type, str) and model_type in library.CONFIG_MAPPING:
        return
    if remote:
        raise SpecError(
            f"{folder} needs its own Python code (auto_map; model_type {model_type!r}), which is never run: "
            "if you trust it, load it in Python with trust_remote_code=True and run it inside softmaxlab.probing.watch"
        )
    known = f"transformers {library.__version__} does not know"
    raise SpecError(f"{folder / CONFIG}: {known} model_type {model_type!r}; a newer version may")


def _no_weights(folder: Path) -> SpecError:
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles:
        return SpecError(
            f"{folder} has only pickled weights ({pickles[0]}), which can run code when read; if you trust them, "
            "convert once: from transformers import AutoModelForCausalLM as M, AutoTokenizer as T; "
            "M.from_pretrained(FOLDER).save_pretrained(NEW); T.from_pretrained(FOLDER).save_pretrained(NEW)"
        )
    if ggufs := sorted(path.name for path in folder.glob("*.gguf")):
        return SpecError(f"{folder} has no {SINGLE}; to use {ggufs[0]} give the path of the file")
    return SpecError(f"{folder} has no weights: expected {SINGLE} or {INDEX}")


def _check_header(path: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            file.keys()
    except (OSError, SafetensorError) as error:
        hint = " (a Git LFS pointer, not the file: git lfs pull)" if _is_pointer(path) else ""
        raise SpecError(f"{path} is not a whole safetensors file{hint}: {first_line(error)}") from None


def _is_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(20).startswith(b"version https://git")
