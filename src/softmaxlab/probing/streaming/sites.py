"""Where a transformer attends: its attention modules, the models that own them, and the blocks they sit in.

A site is a module that calls the attention registry of transformers. Sites are numbered in the order of
`named_modules`, which is the order of depth; cross-attention is counted apart. `layer_idx` would not do: it collides
in encoder–decoders and is None in vision models.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from softmaxlab.errors import SpecError

_REGISTRY = "ALL_ATTENTION_FUNCTIONS"
_HEADS = ("num_heads", "num_attention_heads", "n_heads")  # what modules call their number of query heads
_CROSS = ("cross", "encoder_attn", "EncDecAttention")


@dataclass(frozen=True, eq=False)
class Site:
    """One attention module."""

    name: str
    module: nn.Module
    layer: int
    cross: bool
    block: str  # the layer of the model it is part of, for instance "model.layers.3"
    owners: tuple[Any, ...]  # the models around it, from the innermost out

    @property
    def kind(self) -> str:
        return "cross" if self.cross else "self"

    @property
    def heads(self) -> int:
        """By the module if it says so: the decoder's number may differ from the encoder's, which a config gives."""
        told = (getattr(self.module, name, None) for name in _HEADS)
        return next((n for n in told if n is not None), self.owners[0].config.get_text_config().num_attention_heads)


def root(model: nn.Module) -> Any:
    """The Hugging Face model inside `model`, which may be compiled, parallel or wrapped by PEFT."""
    from softmaxlab.probing.models.extra import transformers

    pretrained = transformers().PreTrainedModel
    for module in model.modules():
        if isinstance(module, pretrained):
            return module
    raise SpecError(f"model must be a transformers model, got {type(model).__name__}: see from_weights for others")


def sites(model: nn.Module) -> list[Site]:
    """All sites of a model, those of self-attention numbered first to last, and those of cross-attention."""
    return numbered(root(model), _calls_registry)


def numbered(top: Any, attends: Callable[[nn.Module], bool]) -> list[Site]:
    """The modules of a model that attend, as sites."""
    found, count = [], {True: 0, False: 0}
    for name, module in top.named_modules():
        if not attends(module):
            continue
        cross = _is_cross(name, module)
        found.append(Site(name, module, count[cross], cross, _block(name), _owners(top, name)))
        count[cross] += 1
    return found


def blocks(model: nn.Module) -> dict[str, nn.Module]:
    """The layers of the model that hold a self-attention site, in order."""
    top = root(model)
    return {site.block: top.get_submodule(site.block) for site in sites(model) if not site.cross}


def _calls_registry(module: nn.Module) -> bool:
    # the class's own forward: accelerate replaces the one of the instance
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and _REGISTRY in code.co_names


def _is_cross(name: str, module: nn.Module) -> bool:
    return bool(getattr(module, "is_cross_attention", False)) or any(part in name for part in _CROSS)


def _block(name: str) -> str:
    """The path up to the outermost number: an entry of the list of layers."""
    parts = name.split(".")
    numbers = [i for i, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[0] + 1]) if numbers else name


def _owners(top: Any, name: str) -> tuple[Any, ...]:
    parts = name.split(".")
    around = [top, *(top.get_submodule(".".join(parts[:i])) for i in range(1, len(parts)))]
    return tuple(module for module in reversed(around) if hasattr(module, "config") and _is_model(module))


def _is_model(module: nn.Module) -> bool:
    from softmaxlab.probing.models.extra import transformers

    return isinstance(module, transformers().PreTrainedModel)
