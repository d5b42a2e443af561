"""One attention function, registered once, that computes at each site as the state of the site says.

`attached(model)` switches the model to it, or joins those who have; the model's own implementation is put back when
the last one leaves, also after an exception. A site computes with softmax or with a swapped map, then calls its
observers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming import call as calls
from softmaxlab.probing.streaming.call import AttentionCall
from softmaxlab.probing.streaming.sites import Site, root, sites

NAME = "softmaxlab"
_STATE, _ATTACHED = "_softmaxlab_site", "_softmaxlab_attached"  # attributes of a site's module and of the model

WeightFunction = Callable[[AttentionCall, slice, int], Tensor]  # the weights [B, H, rows, keys] of a tile, in float32


@dataclass(eq=False)
class SiteState:
    """How one site computes, and who observes it."""

    site: Site
    weigh: WeightFunction | None = None  # None: softmax
    leaks_weight: bool = False  # what a row's weights lack to 1 lies on no key, as in softmax-1
    gain: Tensor | None = None  # [H]: what each head's output is multiplied by, 0 for a pruned head
    observers: list[Callable[["SiteState", AttentionCall, Tensor], None]] = field(default_factory=list)

    def __deepcopy__(self, memo: dict) -> "SiteState":
        raise SpecError("a model that is watched or swapped cannot be copied: copy it before or after the block")


@dataclass(eq=False)
class Attachment:
    """A model that computes with our function: the states of its sites, how many use it, and what puts it back."""

    states: list[SiteState]
    restore: Callable[[], None]
    users: int = 0


@contextmanager
def attached(model: nn.Module) -> Iterator[list[SiteState]]:
    """Yield the states of a model's sites, which compute with our function until the block ends."""
    top = root(model)
    attachment = top.__dict__.get(_ATTACHED) or _attach(top)
    attachment.users += 1
    try:
        yield attachment.states
    finally:
        attachment.users -= 1
        if attachment.users == 0:
            attachment.restore()


def changed(top: Any) -> bool:
    """Whether a map is swapped in, or a head pruned, somewhere in a model."""
    attachment = top.__dict__.get(_ATTACHED)
    states = [] if attachment is None else attachment.states
    return any(state.weigh is not None or state.gain is not None for state in states)


def refuse_unswitchable(top: Any, modules: list[Site]) -> None:
    """Refuse a model that computes attention itself; transformers would only log a warning and go on."""
    if not modules or not top._can_set_attn_implementation():
        raise SpecError(
            f"model {type(top).__name__} does not use the attention registry of transformers, so its attention cannot "
            "be replaced; to measure it, more slowly and with the weights of a layer in memory, use --eager "
            "(in Python eager=True)"
        )


def _attach(top: Any) -> Attachment:
    modules = sites(top)
    refuse_unswitchable(top, modules)
    _register()
    configs = {id(module.config): module.config for module in top.modules() if hasattr(module, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    states = [SiteState(site) for site in modules]

    def restore() -> None:
        for config, name in before:
            config._attn_implementation_internal = name
        for site in modules:
            site.module.__dict__.pop(_STATE, None)
        top.__dict__.pop(_ATTACHED, None)

    for state in states:
        state.site.module.__dict__[_STATE] = state
    try:
        top.set_attn_implementation(NAME)
        stuck = [site.name for site in modules if site.owners[0].config._attn_implementation != NAME]
        if stuck:
            raise SpecError(f"model {type(top).__name__} kept its own attention at {stuck[0]}")
    except BaseException:
        restore()
        raise
    top.__dict__[_ATTACHED] = attachment = Attachment(states, restore)
    return attachment


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)  # without this the mask would silently be None


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """The function that transformers calls; output [B, Tq, H, D]."""
    call = calls.read(module, query, key, value, attention_mask, **options)
    state = module.__dict__.get(_STATE)
    weigh = _softmax if state is None or state.weigh is None else state.weigh
    if weigh is _softmax and call.cap is None and call.sink is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    else:
        out = _output(call, weigh)
    if state is not None and state.observers:
        _observe(state, call, out)
    if state is not None and state.gain is not None:
        out = out * state.gain.to(out)[:, None]
    return out, None


@torch.compiler.disable()
def _observe(state: SiteState, call: AttentionCall, out: Tensor) -> None:
    with torch.no_grad():
        for observer in state.observers:
            observer(state, call.detached(), out.detach())


def _output(call: AttentionCall, weigh: WeightFunction) -> Tensor:
    parts = []
    for rows, keys in call.tiles():
        weights = weigh(call, rows, keys)
        if call.dropout:
            weights = torch.nn.functional.dropout(weights, call.dropout)
        parts.append(call.weighted_values(weights))
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous()


def _softmax(call: AttentionCall, rows: slice, keys: int) -> Tensor:
    χ = call.scores(rows, keys)
    if call.sink is None:
        return χ.softmax(dim=-1)
    sink = call.sink.to(χ.dtype)[:, None, None].expand(*χ.shape[:-1], 1)
    return torch.cat([χ, sink], dim=-1).softmax(dim=-1)[..., :-1]
