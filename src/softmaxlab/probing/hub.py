"""A checkpoint folder from the Hugging Face Hub: the local cache first, the network only when it is not there.

Only data files are fetched (never Python files or pickles), and the config is looked at before the weights.
"""

import re
from pathlib import Path

from softmaxlab.errors import SpecError
from softmaxlab.probing.checkpoint import check_config, first_line, weight_files
from softmaxlab.probing.extra import transformers

ID = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*", re.ASCII)
SMALL = ["*.json", "*.txt", "*.model", "*.jinja"]
WEIGHTS = ["model.safetensors", "model-*.safetensors"]


def cached(name: str, revision: str | None) -> Path | None:
    """The folder of a Hub id in the local cache, if its weights are there."""
    transformers()  # so that its absence is said in our words
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
        weight_files(folder)
    except (LocalEntryNotFoundError, SpecError):
        return None
    return folder


def fetched(name: str, revision: str | None) -> Path:
    """The folder of a Hub id after asking the Hub for what the cache lacks."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=SMALL))
        check_config(folder)
        return Path(snapshot_download(name, revision=revision, allow_patterns=SMALL + WEIGHTS))
    except SpecError:
        raise
    except Exception as error:  # the client lets errors of its HTTP library through, whichever it is
        at = f" at revision {revision!r}" if revision else ""
        raise SpecError(
            f"no folder {name!r}; as a Hub id{at} it is not in the local cache "
            f"and cannot be fetched: {first_line(error)}"
        ) from None
