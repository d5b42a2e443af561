"""Measure a model through the weights that its own attention modules return.

For models that compute attention themselves (BLOOM, GPT-J, GPT-Neo) instead of through the registry of transformers.
The weights of one layer are in memory at a time, [B, H, Tq, Tk]; values are not known, so `sink_value` and
`sink_output` are NaN. A model that could be switched is switched to "eager" until the block ends.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.attach import changed
from softmaxlab.probing.streaming.sites import Site, numbered, root, sites

OnWeights = Callable[[Site, Tensor], None]  # called with a site and its weights [B, H, Tq, Tk]


def eager_sites(model: nn.Module) -> list[Site]:
    """Return the sites of the registry, or else the innermost modules that are called attention."""
    top = root(model)
    modules = sites(model) or numbered(top, _attends)
    if not modules:
        raise SpecError(f"model {type(top).__name__} has no module that is called attention, so none can be measured")
    return modules


@contextmanager
def capture_weights(model: nn.Module, sites: list[Site], on_weights: OnWeights) -> Iterator[None]:
    """Call `on_weights` with the weights of every site, in every forward pass until the block ends."""
    with ExitStack() as stack:
        stack.enter_context(_eager(root(model)))
        for site in sites:
            if "output_attentions" in inspect.signature(type(site.module).forward).parameters:
                stack.callback(site.module.register_forward_pre_hook(_request_weights, with_kwargs=True).remove)
            stack.callback(site.module.register_forward_hook(_hook(site, on_weights)).remove)
        yield


@contextmanager
def _eager(top: Any) -> Iterator[None]:
    if changed(top):
        raise SpecError("eager=True measures the model's own softmax, but another map is swapped in: leave it out")
    configs = {id(module.config): module.config for module in top.modules() if hasattr(module, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    try:
        if top._can_set_attn_implementation():
            top.set_attn_implementation("eager")
        else:  # Falcon makes no causal mask under sdpa, and then computes its weights without one
            for config in configs.values():
                config._attn_implementation_internal = "eager"
        yield
    finally:
        for config, name in before:
            config._attn_implementation_internal = name


def _request_weights(_: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    return args, kwargs | {"output_attentions": True}


def _hook(site: Site, on_weights: OnWeights) -> Callable[[nn.Module, tuple, Any], None]:
    def after(_: nn.Module, args: tuple, output: Any) -> None:
        parts = output if isinstance(output, tuple) else (output,)
        weights = [part for part in parts if isinstance(part, Tensor) and part.dim() == 4]
        if not weights:
            raise SpecError(f"{site.name} ({type(site.module).__name__}) does not return its attention weights")
        with torch.no_grad():
            on_weights(site, weights[-1].detach())

    return after


def _attends(module: nn.Module) -> bool:
    return _is_named(module) and not any(_is_named(part) for part in module.modules() if part is not module)


def _is_named(module: nn.Module) -> bool:
    return "Attention" in type(module).__name__
