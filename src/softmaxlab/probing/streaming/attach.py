"""One attention function, registered once, that computes at each site as the state of the site says.

`attached(model)` switches the model to it, or joins those who have; the model's own implementation is put back when
the last one leaves, also after an exception. A site computes with softmax or with a swapped map, then calls its
observers.

Some models do something else when their attention is not called "sdpa": they hand over the keys of a sparse
index in place of a mask, for instance. For those the name stays "sdpa", and our function takes the place of torch's for
as long as it is needed; modules of other models are passed on to torch's.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming import call as calls
from softmaxlab.probing.streaming.call import AttentionCall
from softmaxlab.probing.streaming.output_check import OutputCheck, is_muted
from softmaxlab.probing.streaming.sites import Site, root, sites

NAME, DISGUISE = "softmaxlab", "sdpa"
_COMPARES_NAME = re.compile(r"""\b_attn_implementation\s*(==|!=|in|not in)[^\n]*["']sdpa["']""")
_STATE, _ATTACHED = "_softmaxlab_site", "_softmaxlab_attached"  # attributes of a site's module and of the model

WeightFunction = Callable[[AttentionCall, slice, int], Tensor]  # the weights [B, H, rows, keys] of a tile, in float32


@dataclass(eq=False)
class SiteState:
    """The state of one site: how it computes, and who observes it."""

    site: Site
    weigh: WeightFunction | None = None  # None: softmax
    leaks_weight: bool = False  # what a row's weights lack to 1 lies on no key, as in softmax-1
    is_softmax: bool = True  # `weigh` must leave the model's output as it is
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
    check: OutputCheck | None = None  # of the block's first pass; None if that is switched off


@contextmanager
def attached(model: nn.Module, compare_logits: bool = True) -> Iterator[list[SiteState]]:
    """Yield the states of a model's sites, which compute with our function until the block ends.

    The outputs of the first pass are compared with those of the model's own attention, unless `compare_logits` is
    switched off by the first who attaches.
    """
    top = root(model)
    attachment = top.__dict__.get(_ATTACHED) or _attach(top, compare_logits)
    attachment.users += 1
    try:
        yield attachment.states
    finally:
        attachment.users -= 1
        if attachment.users == 0:
            attachment.restore()


def check_of(model: nn.Module) -> OutputCheck | None:
    """The comparison of outputs of a model that is attached."""
    attachment = root(model).__dict__.get(_ATTACHED)
    return None if attachment is None else attachment.check


def changed(top: Any) -> bool:
    """Whether a map is swapped in, or a head pruned, somewhere in a model."""
    attachment = top.__dict__.get(_ATTACHED)
    states = [] if attachment is None else attachment.states
    return any(state.weigh is not None or state.gain is not None for state in states)


def refuse_unswitchable(top: Any, modules: list[Site]) -> None:
    """Refuse a model that computes attention itself; transformers would only log a warning and go on."""
    if not any("Attention" in type(module).__name__ for module in top.modules()):
        raise SpecError(
            f"model {type(top).__name__} has no attention (no module of it is called so), so it has no heads to measure"
        )
    if not modules or not top._can_set_attn_implementation():
        raise SpecError(
            f"model {type(top).__name__} does not use the attention registry of transformers, so its attention cannot "
            "be replaced; to measure it, more slowly and with the weights of a layer in memory, use --eager "
            "(in Python eager=True)"
        )


def _attach(top: Any, compare_logits: bool) -> Attachment:
    modules = sites(top)
    refuse_unswitchable(top, modules)
    _register()
    configs = {id(module.config): module.config for module in top.modules() if hasattr(module, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    states = [SiteState(site) for site in modules]
    name = _switch(top, modules)

    def name_back() -> None:
        for config, own in before:
            config._attn_implementation_internal = own

    def restore() -> None:
        if attachment.check is not None:
            attachment.check.close()
        name_back()
        if name == DISGUISE:
            _leave_disguise()
        for site in modules:
            site.module.__dict__.pop(_STATE, None)
        top.__dict__.pop(_ATTACHED, None)

    attachment = Attachment(states, restore)
    for state in states:
        state.site.module.__dict__[_STATE] = state
    if name == DISGUISE:
        _enter_disguise()
    stuck = [site.name for site in modules if site.owners[0].config._attn_implementation != name]
    if stuck:
        restore()
        raise SpecError(f"model {type(top).__name__} kept its own attention at {stuck[0]}")
    if compare_logits:
        attachment.check = _output_check(top, states, name, name_back)
    top.__dict__[_ATTACHED] = attachment
    return attachment


def _switch(top: Any, modules: list[Site]) -> str:
    """Switch a model to our function, under our own name or, for a model that looks at the name, in disguise."""
    configs = {id(module.config): module.config for module in top.modules() if hasattr(module, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    names = (DISGUISE, NAME) if any(_compares_name(site.module) for site in modules) else (NAME,)
    for name in names:
        try:
            top.set_attn_implementation(name)
            return name
        except ValueError:  # the model's own attention is eager alone
            for config, own in before:
                config._attn_implementation_internal = own
    raise SpecError(f"model {type(top).__name__} does not let its attention be replaced")


def _compares_name(module: nn.Module) -> bool:
    source = sys.modules.get(type(module).__module__)
    try:
        return source is not None and _COMPARES_NAME.search(inspect.getsource(source)) is not None
    except (OSError, TypeError):
        return False


def _output_check(top: Any, states: list[SiteState], name: str, name_back: Callable[[], None]) -> OutputCheck:
    @contextmanager
    def without() -> Iterator[None]:
        for state in states:
            state.site.module.__dict__.pop(_STATE, None)
        names = {id(module.config): module.config for module in top.modules() if hasattr(module, "config")}
        ours = [(config, config._attn_implementation) for config in names.values()]
        name_back()
        try:
            yield
        finally:
            for config, implementation in ours:
                config._attn_implementation_internal = implementation
            for state in states:
                state.site.module.__dict__[_STATE] = state

    @contextmanager
    def unchanged() -> Iterator[None]:
        before = [(state, state.weigh, state.gain) for state in states]
        for state in states:
            state.weigh, state.gain = state.weigh if state.is_softmax else None, None
        try:
            yield
        finally:
            for state, weigh, gain in before:
                state.weigh, state.gain = weigh, gain

    def is_changed() -> bool:
        return any(state.gain is not None or not state.is_softmax for state in states)

    return OutputCheck(top, without, unchanged, is_changed, "; --eager (eager=True) may measure it")


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)  # without this the mask would silently be None


_disguised = 0  # models for which our function takes the place of torch's


def _enter_disguise() -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    global _disguised
    _disguised += 1
    ALL_ATTENTION_FUNCTIONS[DISGUISE] = _attend_as_sdpa


def _leave_disguise() -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    global _disguised
    _disguised -= 1
    if _disguised == 0:
        del ALL_ATTENTION_FUNCTIONS[DISGUISE]


def _attend_as_sdpa(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Our function under the name of torch's, which takes no notice of arguments that it does not know."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if _STATE not in module.__dict__:
        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return out, None
    known = {name: value for name, value in options.items() if name in calls.ARGUMENTS or name in calls.HARMLESS}
    return _attend(module, query, key, value, attention_mask, **known)


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
    if state is not None and state.observers and not is_muted():
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
