"""Tiny random models of any type that transformers knows, from the configuration class alone.

Every size that a configuration names is made small by its name; what depends on other sizes is tried in a few ways
(`RECIPES`), and the first model that can be built and run is taken. Weights are drawn anew, so that heads are far from
uniform attention and a lost mask would show.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.extra import transformers

VOCABULARY = 99
IMAGE_TOKEN = 98  # placeholders of images and sound, which the trial's texts do not contain
SPREAD = 1.5  # standard deviation of W x for x of size one: scores of a few units, far from uniform attention
KINDS = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "masked": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "encoder–decoder": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "image and text": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
}


@dataclass(frozen=True)
class Recipe:
    """Sizes of a tiny model."""

    layers: int = 2
    heads: int = 4
    key_heads: int = 2
    head_width: int = 8
    ratio: int = 0  # divide sizes by this instead of naming them
    fills: bool = False  # give sizes that the configuration leaves open, and layers that attend if it has none

    @property
    def width(self) -> int:
        return self.heads * self.head_width


RECIPES = (
    Recipe(),
    Recipe(fills=True),
    Recipe(layers=4),
    Recipe(layers=4, key_heads=4, fills=True),
    Recipe(layers=8),
    Recipe(key_heads=4),
    Recipe(layers=4, key_heads=4),
    Recipe(head_width=16),
    Recipe(layers=4, head_width=16),
    Recipe(head_width=64),
    Recipe(ratio=16),
    Recipe(ratio=8),
    Recipe(layers=4, ratio=8),
    Recipe(ratio=4),
)

_SIZES: tuple[tuple[str, str], ...] = (  # the name of a size, as a whole → what it is
    (r"vocab_size|.*_vocab_size|n_vocab|vocabulary_size|vocab_size_per_layer_input", "vocabulary"),
    (r"(num|n|encoder|decoder|text|num_encoder|num_decoder|num_hidden|n_encoder|n_decoder)_?(hidden_)?(layers?|blocks?)"
     r"|num_hidden_layers|depth|num_blocks|encoder_n_layers|decoder_n_layers|num_recurrent_layers", "layers"),
    (r"(num|n|encoder|decoder|num_attention|encoder_attention|decoder_attention|num_encoder_attention|"
     r"num_decoder_attention)_heads?|num_attention_heads|n_head|num_self_attention_heads|num_cross_attention_heads"
     r"|encoder_num_attention_heads|decoder_num_attention_heads|index_n_heads|swa_num_attention_heads"
     r"|linear_num_heads", "heads"),
    (r".*num_key_value_heads|num_kv_heads|n_kv_heads?|n_head_kv|kv_n_heads", "key heads"),
    (r"head_dim|d_kv|qk_nope_head_dim|qk_rope_head_dim|v_head_dim|attention_head_dim|kv_channels|global_head_dim"
     r"|attention_head_size|head_size|swa_head_dim|rotary_dim|index_head_dim|swa_v_head_dim|linear_head_dim"
     r"|hidden_size_per_layer_input", "head"),
    (r"qk_head_dim", "two heads"),
    (r"hidden_size|d_model|n_embd|dim|embed_dim|emb_dim|embedding_size|d_embed|model_dim|hidden_dim|word_embed_proj_dim"
     r"|encoder_hidden_size|decoder_hidden_size|projection_dim|out_hidden_size|cross_attention_hidden_size"
     r"|lru_width|output_hidden_size|text_embed_dim|proj_dim|mm_hidden_size|cross_hidden_size|audio_hidden_size"
     r"|projector_hidden_size|d_latents|mamba_d_ssm", "width"),
    (r".*intermediate_size|.*ffn_dim|d_ff|d_inner|inner_dim|ffn_hidden_size|n_inner|mlp_dim|.*_intermediate_dim"
     r"|ffn_hidden_dim", "inner"),
    (r"kv_lora_rank|q_lora_rank|o_lora_rank", "rank"),
    (r"n_routed_experts|num_experts|num_local_experts|moe_num_experts|n_experts|moe_k_experts", "experts"),
    (r"num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|num_selected_experts|moe_top_k", "two"),
    (r"n_shared_experts|num_shared_experts|moe_num_shared_experts", "one"),
    (r"n_group|topk_group|num_expert_group|num_expert_groups|first_k_dense_replace|num_nextn_predict_layers"
     r"|num_kv_shared_layers", "one"),
    (r"sliding_window|sliding_window_size|attention_chunk_size|index_topk|window_size|local_attention|block_size"
     r"|sliding_window_length|attention_window_size|chunk_size|mamba_chunk_size", "window"),
    (r"mamba_d_state|mamba_d_head|ssm_state_size|state_size|mamba_headdim|mamba_head_dim", "head"),
    (r"linear_num_key_heads|linear_num_value_heads|linear_key_head_num|mamba_num_heads|mamba_n_heads", "heads"),
    (r"linear_key_head_dim|linear_value_head_dim", "head"),
    (r"mamba_n_groups|mamba_ngroups|mamba_expand", "one"),
    (r"image_size|img_size", "image"),
    (r"patch_size", "patch"),
)  # fmt: skip
_SIZE_OF = tuple((re.compile(pattern), what) for pattern, what in _SIZES)
_TOKEN = re.compile(r".*_token_(id|index)$|.*_token_ids?$|image_token_index")
_PLACEHOLDER = re.compile(r".*(image|video|audio|vision|speech|boi|eoi|boa|eoa|mask).*")
_SCALED = 32  # with a ratio, sizes below this are left as they are


def model_types(kind: str) -> dict[str, str]:
    """Model type → class, of one kind."""
    table = getattr(transformers().models.auto.modeling_auto, KINDS[kind])
    return {name: names if isinstance(names, str) else names[0] for name, names in table.items()}


def tiny_models(model_type: str, class_name: str) -> Iterator[Any]:
    """Yield the tiny models that the recipes build; the last error is raised if none can be built."""
    model_class = getattr(transformers(), class_name)
    config_class = _config_class(model_type, model_class)
    error: Exception | None = None
    built = False
    for recipe in RECIPES:
        try:
            model = _model(config_class, model_class, recipe)
        except Exception as reason:  # any: transformers and torch refuse sizes that do not fit in many ways
            error = reason
            continue
        built = True
        yield model
    if not built:
        raise SpecError(f"no tiny model: {type(error).__name__}: {first_sentence(error)}")


def first_sentence(error: BaseException | None) -> str:
    """The first line of an error, at most 120 characters."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:120]


def _config_class(model_type: str, model_class: Any) -> Any:
    own = getattr(model_class, "config_class", None)
    return own or transformers().CONFIG_MAPPING[model_type]


def _model(config_class: Any, model_class: Any, recipe: Recipe) -> Any:
    torch.manual_seed(0)
    config = config_class(**_sizes(config_class, recipe))
    for part in _parts(config):
        _mend(part, recipe)
    if getattr(config, "num_hidden_layers", 0) > 100:
        raise SpecError("the configuration keeps its own number of layers")
    with torch.device("meta"):
        weights = sum(parameter.numel() for parameter in model_class(config).parameters())
    if weights > MOST_WEIGHTS:
        raise SpecError(f"the smallest model has {weights:,} weights")
    model = model_class(config).float().eval()
    _draw(model)
    return model


MOST_WEIGHTS = 40_000_000


def _sizes(config_class: Any, recipe: Recipe) -> dict[str, Any]:
    default = config_class()
    values = {name: value for name, value in vars(default).items() if not name.startswith("_")}
    attributes = {name: name for name in values}
    sizes: dict[str, Any] = {}
    for name in attributes:
        value = values[name]
        if recipe.fills and (filled := _filled(name, value, recipe)) is not None:
            sizes[name] = filled
        elif name in getattr(default, "sub_configs", {}) and value is not None:
            sizes[name] = _sizes(type(value), recipe) | {"model_type": value.model_type}
        elif isinstance(value, bool) or value is None:
            continue
        elif isinstance(value, int) and _TOKEN.fullmatch(name):
            sizes[name] = IMAGE_TOKEN if _PLACEHOLDER.fullmatch(name) else value if 0 <= value < 3 else 0
        elif isinstance(value, int):
            small = _small(name, value, recipe)
            if small is not None:
                sizes[name] = small
    return sizes


def _filled(name: str, value: Any, recipe: Recipe) -> Any:
    """A size that a configuration leaves open, or a layer that attends where it has none; None to leave it so."""
    if name == "attn_layer_indices":
        return [recipe.layers - 1]
    if name == "layer_types" and "full_attention" not in (value or ())[: recipe.layers]:
        return [*(value or ["full_attention"] * recipe.layers)[: recipe.layers - 1], "full_attention"]
    return _small(name, _SCALED, recipe) if value is None else None


def _small(name: str, value: int, recipe: Recipe) -> int | None:
    what = next((what for pattern, what in _SIZE_OF if pattern.fullmatch(name)), None)
    if what is None:
        return None
    if what == "vocabulary":
        return VOCABULARY
    if what == "layers":
        return recipe.layers
    if value <= 1 and what not in ("window",):
        return None
    if recipe.ratio:
        if what in ("width", "inner", "rank"):
            return max(_SCALED, value // recipe.ratio) if value > _SCALED else None
        if what == "experts":
            return 4
        return 8 if what == "window" else None
    return {
        "heads": recipe.heads,
        "key heads": recipe.key_heads if value > 1 else 1,
        "head": recipe.head_width,
        "two heads": 2 * recipe.head_width,
        "width": recipe.width,
        "inner": 2 * recipe.width,
        "rank": recipe.width // 2,
        "experts": 4,
        "two": 2,
        "one": 1,
        "window": 8,
        "image": 16,
        "patch": 4,
    }[what]


def _parts(config: Any) -> Iterator[Any]:
    yield config
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if part is not None:
            yield from _parts(part)


def _mend(config: Any, recipe: Recipe) -> None:
    """Token numbers inside the small vocabulary, rotary sections that fit the head, and a language to speak."""
    for name, value in list(vars(config).items()):
        if _TOKEN.fullmatch(name) and isinstance(value, int) and value >= VOCABULARY:
            setattr(config, name, 0)
    if getattr(config, "languages", None) and hasattr(config, "default_language"):
        config.default_language = config.languages[0]
    rope = getattr(config, "rope_parameters", None) or {}
    for part in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        if isinstance(part.get("mrope_section"), (list, tuple)):
            half = recipe.head_width // 2
            count = len(part["mrope_section"])
            part["mrope_section"] = [half // 4] * (count - 1) + [half - (count - 1) * (half // 4)]


def _draw(model: nn.Module) -> None:
    """Draw matrices with entries N(0, SPREAD²/width), and move vectors a little."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_floating_point():
                continue
            noise = torch.randn(parameter.shape, generator=draw)
            if parameter.dim() > 1:
                parameter.copy_(noise * SPREAD / math.sqrt(parameter.shape[-1]))
            else:
                parameter.add_(0.1 * noise)
