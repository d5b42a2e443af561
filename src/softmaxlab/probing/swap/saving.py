"""A model saved together with its map, so that nobody reads it back as a softmax model.

A folder of `save_swapped`, and of `save_pretrained` inside a `swapped` block (so of a `Trainer` that works there), is a
checkpoint of transformers with two more files, see map_file.py. Its config.json asks for implementations of attention
and of experts that transformers does not have, so `from_pretrained` raises, whatever `attn_implementation` it is given.
"""

from pathlib import Path
from typing import Any

from torch import nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.checkpoint import CONFIG, check_config, weight_files
from softmaxlab.probing.extra import transformers
from softmaxlab.probing.streaming.sites import root
from softmaxlab.probing.swap.map_file import MAP, SavedMap, read_map
from softmaxlab.probing.swap.swapped import GUARDED, is_guard, swapped

_KEPT = "_softmaxlab_kept"  # attribute of a model: the swap that stays


def save_swapped(model: nn.Module, folder: str | Path, map: str, bias: Any = None) -> None:
    """Save a model that is to be used with `map`; `bias` as in `swapped`, for instance the `bias` of one."""
    swap = swapped(model, map, bias)
    if any(type(module).__module__.startswith("peft.") for module in model.modules()):
        raise SpecError("a PEFT model cannot be saved with its map: merge it first (merge_and_unload)")
    with swap:
        root(model).save_pretrained(folder)


def saved_map(folder: str | Path) -> SavedMap | None:
    """The map that a folder's model is to be used with; None for a model with its own attention."""
    saved = read_map(Path(folder))
    if saved is None and is_guard(check_config(Path(folder)).get(GUARDED)):
        raise SpecError(f"{folder} was saved while another map was swapped in, but without it: use save_swapped")
    return saved


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
    own = {"attn_implementation": None, "experts_implementation": None}  # in place of the sentences that stop others
    arguments = own | {"use_safetensors": True, "local_files_only": True} | options
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
