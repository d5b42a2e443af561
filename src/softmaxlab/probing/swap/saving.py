"""A model saved together with its map, so that nobody reads it back as a softmax model.

A folder of `save_swapped` is a checkpoint of transformers with two more files: softmaxlab_map.json (which map) and
softmaxlab_bias.safetensors (b [head] by module name). Its config.json asks for an attention implementation that
transformers does not have, so a plain `from_pretrained` raises; only `attn_implementation="sdpa"`, written out, would
read it as softmax. A model that `save_pretrained` wrote inside a `swapped` block has the same entry in config.json.
"""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from softmaxlab.attention import MAPS
from softmaxlab.errors import SpecError
from softmaxlab.probing.checkpoint import CONFIG, check_config, first_line, weight_files
from softmaxlab.probing.extra import transformers
from softmaxlab.probing.streaming.sites import root
from softmaxlab.probing.swap.swapped import GUARDED, is_guard, swapped

MAP, BIAS = "softmaxlab_map.json", "softmaxlab_bias.safetensors"
SCHEMA = 1
_KEPT = "_softmaxlab_kept"  # attribute of a model: the swap that stays


@dataclass(frozen=True, eq=False)
class SavedMap:
    """What a folder says about its model's attention."""

    map: str
    bias: dict[str, Tensor] | str | None


def save_swapped(model: nn.Module, folder: str | Path, map: str, bias: Any = None) -> None:
    """Save a model that is to be used with `map`; `bias` as in `swapped`, for instance the `bias` of one."""
    swap = swapped(model, map, bias)
    if any(type(module).__module__.startswith("peft.") for module in model.modules()):
        raise SpecError("a PEFT model cannot be saved with its map: merge it first (merge_and_unload)")
    folder = Path(folder)
    with swap:
        root(model).save_pretrained(folder)
    (folder / BIAS).unlink(missing_ok=True)
    if isinstance(swap.bias, dict):
        from safetensors.torch import save_file

        save_file({name: b.detach().cpu().clone() for name, b in swap.bias.items()}, folder / BIAS)
    entry = {"schema": SCHEMA, "map": map, "bias": BIAS if isinstance(swap.bias, dict) else swap.bias}
    (folder / MAP).write_text(json.dumps(entry | {"softmaxlab": version("softmaxlab")}, indent=2) + "\n", "utf-8")


def saved_map(folder: str | Path) -> SavedMap | None:
    """The map that a folder's model is to be used with; None for a model with its own attention."""
    folder = Path(folder)
    path = folder / MAP
    if not path.is_file():
        if is_guard(check_config(folder).get(GUARDED)):
            raise SpecError(f"{folder} was saved while another map was swapped in, but without it: use save_swapped")
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


def load_swapped(folder: str | Path, *, learn: bool = False, **options: Any) -> Any:
    """The model that `save_swapped` wrote, computing with its map until `detach(model)`.

    `options` go to `from_pretrained`, for instance dtype; `learn=True` makes the biases parameters of `swap_of(model)`.
    """
    folder = Path(folder)
    architectures = check_config(folder).get("architectures") or [""]
    saved = saved_map(folder)
    if saved is None:
        raise SpecError(f"{folder} has no {MAP}: its model has its own attention, load it with load or from_pretrained")
    weight_files(folder)
    kind = getattr(transformers(), architectures[0], None)
    if kind is None:
        raise SpecError(f"{folder / CONFIG}: transformers has no model {architectures[0]!r}")
    arguments = {"attn_implementation": None, "use_safetensors": True, "local_files_only": True} | options
    return keep(kind.from_pretrained(folder, **arguments), saved, learn)


def keep(model: nn.Module, saved: SavedMap, learn: bool = False) -> nn.Module:
    """`model`, computing with a saved map until `detach(model)`."""
    swap = swapped(model, saved.map, saved.bias, learn=learn)
    root(model).__dict__[_KEPT] = swap.__enter__()
    return model


def swap_of(model: nn.Module) -> swapped:
    """The swap that stays on a loaded model: its map, its bias, its parameters."""
    swap = root(model).__dict__.get(_KEPT)
    if swap is None:
        raise SpecError("the model has no map that stays: load it with load_swapped")
    return swap


def detach(model: nn.Module) -> None:
    """Back to the model's own attention."""
    swap_of(model).__exit__(None, None, None)
    del root(model).__dict__[_KEPT]


def _biases(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise SpecError(f"{path} cannot be read: {first_line(error)}") from None
