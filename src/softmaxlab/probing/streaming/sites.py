"""The places where a transformer attends: attention modules, the models that own them, and the blocks they sit in.

A site is a module that calls the attention registry of transformers. Its layer is the number that the model's own list
of layers gives it, so that in a model that attends in some layers only, `model.layers.3` is 3. Where there are several
lists, those of the language model come first, and each goes on where the one before ended: decoder layers behind
encoder layers. Cross-attention is numbered apart. Several sites in a layer, and sites outside of any list, are counted.
`layer_idx` would not do: it collides in encoder–decoders and is None in vision models.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError

_REGISTRY = "ALL_ATTENTION_FUNCTIONS"
_HEADS = ("num_heads", "num_attention_heads", "n_heads")  # what modules call their number of query heads
_OUTPUT_INSIDE = ("o_proj", "out_proj", "c_proj", "dense", "o", "wo")  # in the site itself
_OUTPUT_BESIDE = ("output.dense",)  # next to it: BERT, ViT
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
    reads_text: bool = True  # False in the vision or audio part of a model that also reads text

    @property
    def kind(self) -> str:
        return "cross" if self.cross else "self"

    @property
    def heads(self) -> int:
        """Number of query heads, from the module if it has it: a config gives the encoder's, which may differ."""
        config = self.owners[0].config.get_text_config()
        counts = [getattr(self.module, name, None) for name in _HEADS] + [getattr(config, "num_attention_heads", None)]
        if not (known := [n for n in counts if n is not None]):
            raise SpecError(
                f"neither {type(self.module).__name__} nor {type(config).__name__} says how many heads it has"
            )
        return known[0]


def root(model: nn.Module) -> Any:
    """The Hugging Face model inside `model`, which may be compiled, parallel or wrapped by PEFT."""
    from softmaxlab.probing.extra import transformers

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
    attending = [(name, module) for name, module in top.named_modules() if attends(module)]
    language = _language_part(top)
    is_text = {name: name.startswith(language) for name, _ in attending}
    if not any(is_text.values()):
        is_text = dict.fromkeys(is_text, True)
    attending.sort(key=lambda pair: not is_text[pair[0]])  # stable
    layers: dict[str, int] = {}
    for cross in (False, True):
        layers |= _layer_numbers(top, [name for name, module in attending if _is_cross(name, module) == cross])
    return [
        Site(name, module, layers[name], _is_cross(name, module), _block(name), _owners(top, name), is_text[name])
        for name, module in attending
    ]


def text_sites(sites: list[Site]) -> list[Site]:
    """The sites of self-attention that read text."""
    return [site for site in sites if site.reads_text and not site.cross]


def blocks(model: nn.Module) -> dict[str, nn.Module]:
    """The layers of the model that hold a self-attention site, in order."""
    top = root(model)
    return {site.block: top.get_submodule(site.block) for site in sites(model) if not site.cross}


def all_blocks(top: Any, sites: list[Site]) -> list[Site]:
    """Every layer of the lists that hold a self-attention site, as if it were a site itself; some may not attend."""
    places: dict[str, Site] = {}
    for site in sites:
        if site.cross:
            continue
        prefix, number = _list_of(site.block)
        if number is None or not _is_own_number(site, sites):
            places.setdefault(site.block, replace(site, name=site.block))
            continue
        for i in range(len(top.get_submodule(prefix))):
            name = f"{prefix}.{i}"
            block = Site(
                name, top.get_submodule(name), site.layer - number + i, False, name, site.owners, site.reads_text
            )
            places.setdefault(name, block)
    return sorted(places.values(), key=lambda block: block.layer)


def _layer_numbers(top: Any, names: list[str]) -> dict[str, int]:
    """Name of a site → layer."""
    lists: dict[str, list[tuple[str, int | None]]] = {}
    for name in names:
        prefix, number = _list_of(_block(name))
        lists.setdefault(prefix, []).append((name, number))
    layers, start = {}, 0
    for prefix, members in lists.items():
        numbers = [number for _, number in members if number is not None]
        if len(set(numbers)) == len(members):
            layers |= {name: start + number for name, number in members if number is not None}
            start += len(top.get_submodule(prefix))
        else:
            layers |= {name: start + i for i, (name, _) in enumerate(members)}
            start += len(members)
    return layers


def _is_own_number(site: Site, sites: list[Site]) -> bool:
    """Whether a site is the only one of its layer, whose number it then has."""
    return sum(other.block == site.block and not other.cross for other in sites) == 1


def _list_of(block: str) -> tuple[str, int | None]:
    """The list that a block is an entry of, and its number there; no number for a block that is in no list."""
    prefix, _, number = block.rpartition(".")
    return (prefix, int(number)) if number.isdigit() else (prefix, None)


def _language_part(top: Any) -> str:
    """The path of the language model, if the model also sees or hears; empty for all others."""
    parts = getattr(top.config, "sub_configs", {})
    if top.config.is_encoder_decoder or len(parts) < 2:
        return ""
    try:
        decoder = top.get_decoder()
    except (AttributeError, NotImplementedError, RecursionError):
        return ""
    return next((name for name, module in top.named_modules() if module is decoder), "")


def output_map(model: nn.Module, site: Site) -> nn.Module:
    """W_O of a site, by the names that transformers uses: it is not part of the registry's call."""
    around = root(model).get_submodule(site.name.rpartition(".")[0])
    for parent, names in ((site.module, _OUTPUT_INSIDE), (around, _OUTPUT_BESIDE)):
        for name in names:
            try:
                return parent.get_submodule(name)
            except AttributeError:
                continue
    raise SpecError(
        f"the output projection of {site.name} is not found: it is none of {', '.join(_OUTPUT_INSIDE + _OUTPUT_BESIDE)}"
    )


def output_matrix(map: nn.Module, width: int, like: Tensor) -> Tensor:
    """W_O as a matrix [width, d] in float32, by calling it: it may be quantised, offloaded or adapted."""
    points = torch.eye(width, dtype=like.dtype, device=like.device)[None]
    origin = torch.zeros_like(points[:, :1])
    return (map(points)[0].float() - map(origin)[0].float()).detach()


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
    from softmaxlab.probing.extra import transformers

    return isinstance(module, transformers().PreTrainedModel)
