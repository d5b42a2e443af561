"""One attention function, registered once, that does at each site what is asked there.

`attached(model)` switches the model to it, or joins those who have; the model's own implementation is put back when
the last one leaves, also after an exception. A site computes with softmax or with a swapped map, then tells its
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
from softmaxlab.probing.streaming.call import Call
from softmaxlab.probing.streaming.sites import Site, root, sites

NAME = "softmaxlab"
_DESK, _ATTACHED = "_softmaxlab_desk", "_softmaxlab_attached"  # attributes of a site's module and of the model

Weigh = Callable[[Call, slice, int], Tensor]  # the weights [B, H, rows, keys] of a tile, in float32


@dataclass(eq=False)
class Desk:
    """What is asked of a site."""

    site: Site
    weigh: Weigh | None = None  # None: softmax
    nowhere: bool = False  # the weights' rest to 1 lies on no key, as in softmax-1
    gain: Tensor | None = None  # [H]: what each head's output is multiplied by, 0 for a pruned head
    observers: list[Callable[["Desk", Call, Tensor], None]] = field(default_factory=list)

    def __deepcopy__(self, memo: dict) -> "Desk":
        raise SpecError("a model that is watched or swapped cannot be copied: copy it before or after the block")


@dataclass(eq=False)
class Attachment:
    """A model that computes with our function: its desks, how many use it, and what puts it back."""

    desks: list[Desk]
    restore: Callable[[], None]
    users: int = 0


@contextmanager
def attached(model: nn.Module) -> Iterator[list[Desk]]:
    """The desks of a model's sites, which compute with our function until the block ends."""
    top = root(model)
    attachment = top.__dict__.get(_ATTACHED) or _attach(top)
    attachment.users += 1
    try:
        yield attachment.desks
    finally:
        attachment.users -= 1
        if attachment.users == 0:
            attachment.restore()


def changed(top: Any) -> bool:
    """Whether a map is swapped in, or a head pruned, somewhere in a model."""
    attachment = top.__dict__.get(_ATTACHED)
    desks = [] if attachment is None else attachment.desks
    return any(desk.weigh is not None or desk.gain is not None for desk in desks)


def refuse_unswitchable(top: Any, found: list[Site]) -> None:
    """Some models compute attention themselves; transformers would only log a warning and go on."""
    if not found or not top._can_set_attn_implementation():
        raise SpecError(
            f"model {type(top).__name__} does not use the attention registry of transformers, so its attention cannot "
            "be replaced; to measure it, more slowly and with the weights of a layer in memory, ask for --eager "
            "(in Python eager=True)"
        )


def _attach(top: Any) -> Attachment:
    found = sites(top)
    refuse_unswitchable(top, found)
    _register()
    configs = {id(module.config): module.config for module in top.modules() if hasattr(module, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    desks = [Desk(site) for site in found]

    def restore() -> None:
        for config, name in before:
            config._attn_implementation_internal = name
        for site in found:
            site.module.__dict__.pop(_DESK, None)
        top.__dict__.pop(_ATTACHED, None)

    for desk in desks:
        desk.site.module.__dict__[_DESK] = desk
    try:
        top.set_attn_implementation(NAME)
        stuck = [site.name for site in found if site.owners[0].config._attn_implementation != NAME]
        if stuck:
            raise SpecError(f"model {type(top).__name__} kept its own attention at {stuck[0]}")
    except BaseException:
        restore()
        raise
    top.__dict__[_ATTACHED] = attachment = Attachment(desks, restore)
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
    desk = module.__dict__.get(_DESK)
    weigh = _softmax if desk is None or desk.weigh is None else desk.weigh
    if weigh is _softmax and call.cap is None and call.sink is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    else:
        out = _output(call, weigh)
    if desk is not None and desk.observers:
        _observe(desk, call, out)
    if desk is not None and desk.gain is not None:
        out = out * desk.gain.to(out)[:, None]
    return out, None


@torch.compiler.disable()
def _observe(desk: Desk, call: Call, out: Tensor) -> None:
    with torch.no_grad():
        for observer in desk.observers:
            observer(desk, call.detached(), out.detach())


def _output(call: Call, weigh: Weigh) -> Tensor:
    parts = []
    for rows, keys in call.tiles():
        weights = weigh(call, rows, keys)
        if call.dropout:
            weights = torch.nn.functional.dropout(weights, call.dropout)
        parts.append(call.weigh(weights))
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous()


def _softmax(call: Call, rows: slice, keys: int) -> Tensor:
    χ = call.scores(rows, keys)
    if call.sink is None:
        return χ.softmax(dim=-1)
    nowhere = call.sink.to(χ.dtype)[:, None, None].expand(*χ.shape[:-1], 1)
    return torch.cat([χ, nowhere], dim=-1).softmax(dim=-1)[..., :-1]
