"""Measure a model through the weights that its own attention modules return.

For models that compute attention themselves (BLOOM, GPT-J, GPT-Neo) instead of through the registry of transformers.
The weights of one layer are in memory at a time, [B, H, Tq, Tk]; values are not known, so `sink_value` and
`sink_output` are NaN. A model that could be switched is switched to "eager" until the block ends.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.attach import changed, refuse_unswitchable
from softmaxlab.probing.streaming.output_check import OutputCheck, is_muted
from softmaxlab.probing.streaming.sites import Site, numbered, root, sites

ROUNDING = 0.02  # of a row's total, in half precision
OnWeights = Callable[[Site, Tensor], None]  # called with a site and its weights [B, H, Tq, Tk]


def eager_sites(model: nn.Module) -> list[Site]:
    """Return the sites of the registry, or else the innermost modules that are called attention."""
    top = root(model)
    modules = sites(model) or numbered(top, _attends)
    if not modules:
        refuse_unswitchable(top, modules)
    return modules


@contextmanager
def capture_weights(
    model: nn.Module, sites: list[Site], on_weights: OnWeights, compare_logits: bool = True
) -> Iterator[OutputCheck | None]:
    """Call `on_weights` with the weights of every site, in every forward pass until the block ends.

    The outputs of the first pass are compared with those of the model as it is, unless that is switched off.
    """
    top = root(model)
    with ExitStack() as stack:
        own = stack.enter_context(eager_attention(top))
        for site in sites:
            names = list(inspect.signature(type(site.module).forward).parameters)[1:]
            if "output_attentions" in names:
                request = _requesting(names.index("output_attentions"))
                stack.callback(site.module.register_forward_pre_hook(request, with_kwargs=True).remove)
            stack.callback(site.module.register_forward_hook(_hook(site, on_weights)).remove)
        if not compare_logits:
            yield None
            return
        check = OutputCheck(top, own)
        stack.callback(check.close)
        yield check


@contextmanager
def eager_attention(top: Any) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Compute with eager attention; yield what puts the model's own back for a while."""
    if changed(top):
        raise SpecError("eager=True measures the model's own softmax, but another map is swapped in: leave it out")
    configs = {id(module.config): module.config for module in top.modules() if hasattr(module, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]

    @contextmanager
    def own() -> Iterator[None]:
        eager = [(config, config._attn_implementation) for config in configs.values()]
        _set_names(before)
        try:
            yield
        finally:
            _set_names(eager)

    try:
        if top._can_set_attn_implementation():
            top.set_attn_implementation("eager")
        else:  # Falcon makes no causal mask under sdpa, and then computes its weights without one
            _set_names([(config, "eager") for config, _ in before])
        yield own
    finally:
        _set_names(before)


def _set_names(names: list[tuple[Any, str]]) -> None:
    for config, name in names:
        config._attn_implementation_internal = name


def _requesting(place: int) -> Callable[[nn.Module, tuple, dict[str, Any]], tuple[tuple, dict[str, Any]] | None]:
    """A hook that asks a module for its weights; `place` is that of output_attentions among its arguments."""

    def before(_: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
        if is_muted():
            return None
        if len(args) > place:
            return (*args[:place], True, *args[place + 1 :]), kwargs
        return args, kwargs | {"output_attentions": True}

    return before


def _hook(site: Site, on_weights: OnWeights) -> Callable[[nn.Module, tuple, Any], None]:
    def after(_: nn.Module, args: tuple, output: Any) -> None:
        if is_muted():
            return
        parts = output if isinstance(output, tuple) else (output,)
        weights = [part for part in parts if isinstance(part, Tensor) and part.dim() == 4]
        if not weights:
            raise SpecError(f"{site.name} ({type(site.module).__name__}) does not return its attention weights")
        with torch.no_grad():
            on_weights(site, weights[-1].detach())

    return after


def with_known_axes(site: Site, weights: Tensor, batch: tuple[int, int] | None) -> Tensor:
    """Weights as [B, H, Tq, Tk], from modules that keep them so or as [Tq, Tk, B, H] (XLNet); others are refused.

    `batch` [B, Tq] is the shape of what the model around the site reads, None if that is not known.
    """
    for axes in ((0, 1, 2, 3), (2, 3, 0, 1)):
        w = weights.permute(axes)
        fits = w.shape[1] == site.heads and (batch is None or (w.shape[0], w.shape[2]) == batch)
        if fits and w.min() >= 0 and w.sum(dim=-1).max() <= 1 + ROUNDING:
            return w
    shape = "" if batch is None else f" for {batch[0]} sequences of {batch[1]} tokens and {site.heads} heads"
    raise SpecError(
        f"{site.name} ({type(site.module).__name__}) returns weights of shape {list(weights.shape)}{shape}: they are "
        "not the weights of every query on every key, so they cannot be measured"
    )


def lacks_learned_sink(module: nn.Module, weights: Tensor) -> bool:
    """Whether a module has a learned sink, but its weights sum to one: it lowers its output afterwards (GraniteSWA)."""
    if getattr(module, "sinks", None) is None:
        return False
    return (1 - weights.sum(dim=-1, dtype=torch.float64)).max().item() < 16 * torch.finfo(weights.dtype).eps


def _attends(module: nn.Module) -> bool:
    return _is_named(module) and not any(_is_named(part) for part in module.modules() if part is not module)


def _is_named(module: nn.Module) -> bool:
    return "Attention" in type(module).__name__
