"""The two files beside a checkpoint that say which map its model is used with.

softmaxlab_map.json names the map, softmaxlab_bias.safetensors holds b [head] by module name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from torch import Tensor

from softmaxlab.attention import MAPS
from softmaxlab.core.files import atomic
from softmaxlab.errors import SpecError
from softmaxlab.probing.checkpoint import first_line

MAP, BIAS = "softmaxlab_map.json", "softmaxlab_bias.safetensors"
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class SavedMap:
    """The map that a folder names for its model's attention."""

    map: str
    bias: dict[str, Tensor] | str | None


def write_map(folder: Path, map: str, bias: Mapping[str, Tensor] | str | None) -> None:
    """Write both files; the bias goes into its own only if it is one number per head."""
    (folder / BIAS).unlink(missing_ok=True)
    named = bias if bias is None or isinstance(bias, str) else BIAS
    if bias is not None and not isinstance(bias, str):
        from safetensors.torch import save_file

        with atomic(folder / BIAS) as draft:
            save_file({name: b.detach().cpu().float().clone() for name, b in bias.items()}, draft)
    entry = {"schema": SCHEMA, "map": map, "bias": named, "softmaxlab": version("softmaxlab")}
    with atomic(folder / MAP) as draft:
        draft.write_text(json.dumps(entry, indent=2) + "\n", "utf-8")


def read_map(folder: Path) -> SavedMap | None:
    """The map that a folder's model is to be used with; None if the folder names none."""
    path = folder / MAP
    if not path.is_file():
        return None
    try:
        entry = json.loads(path.read_text("utf-8"))
        schema, map, bias = entry["schema"], entry["map"], entry["bias"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecError(f"{path} cannot be read: {first_line(error)}") from None
    if schema != SCHEMA:
        raise SpecError(f"{path} has schema {schema!r}, and this version of softmaxlab reads {SCHEMA}")
    MAPS[map]
    return SavedMap(map, _biases(folder / BIAS) if bias == BIAS else bias)


def _biases(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise SpecError(f"{path} cannot be read: {first_line(error)}") from None
