"""A sink kept as keys and values in front of every sequence.

A model that parks attention on its first token makes that token's activations massive, in every sequence anew. The
token's keys and values do not depend on what follows, so they can be computed once, in float, and handed over as a
cache. Then no token of the sequence is first, none grows massive, and the sink is there all the same.

Positions count from the prefix on, so every token moves up by its length; padding masks are made longer. In layers
with a sliding window the prefix leaves the window like any token. With left padding the pads lie between the prefix and
the text: positions skip them, but windows cannot, so that is refused.
"""

import inspect
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.probing.inference import device_of, evaluating
from softmaxlab.probing.interventions.deployed import write_prefix
from softmaxlab.probing.interventions.folded import Folded
from softmaxlab.probing.next_token_loss import lacks_loss
from softmaxlab.probing.saving_guard import not_saved
from softmaxlab.probing.streaming.sites import root


class Prefix(Folded):
    """Within `with prefix:` every forward pass of the model, also those of `generate`, begins behind the prefix."""

    method = "prefix"

    def __init__(self, model: nn.Module, tokens: Sequence[int]) -> None:
        super().__init__(model)
        self.top, self.tokens = root(model), tuple(tokens)
        if (reason := lacks_loss(model)) or self.top.config.is_encoder_decoder:
            raise SpecError(f"a prefix needs a causal language model; {reason or 'this one is an encoder–decoder'}")
        if not self.tokens:
            raise SpecError("tokens of the prefix must hold at least one, got none")
        self._names = list(inspect.signature(self.top.forward).parameters)
        ids = torch.tensor([self.tokens], device=device_of(model))
        with evaluating(model), torch.no_grad():
            past = self.top(input_ids=ids, use_cache=True).past_key_values
        self._kept = [(layer.keys, layer.values) for layer in past.layers]  # [1, H_kv, prefix, D] of each layer
        self._filled: WeakSet = WeakSet()

    def fold(self, undo: ExitStack) -> None:
        undo.callback(self.top.register_forward_pre_hook(self._before, with_kwargs=True).remove)
        undo.enter_context(not_saved(self.top, "its sink folded away"))

    def save(self, folder: str | Path) -> list[Path]:
        """Write prefix.safetensors and a loader that needs transformers and safetensors alone; return the paths."""
        return write_prefix(type(self.top).__name__, torch.tensor(self.tokens), self._kept, folder)

    def _before(self, _: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        arguments = {**dict(zip(self._names, args)), **kwargs}
        inputs = arguments["inputs_embeds"] if arguments.get("input_ids") is None else arguments["input_ids"]
        shape = inputs.shape[:2]
        arguments["past_key_values"] = self._cache(arguments.get("past_key_values"), shape[0])
        mask = arguments.get("attention_mask")
        if mask is not None:
            mask = arguments["attention_mask"] = self._longer(mask)
        if arguments.get("position_ids") is not None:
            arguments["position_ids"] = arguments["position_ids"] + len(self.tokens)
        elif mask is not None and "position_ids" in self._names:  # the first token follows the prefix, pads apart
            arguments["position_ids"] = (mask.long().cumsum(dim=-1) - 1)[:, -shape[1] :]
        return (), arguments

    def _cache(self, cache: Any, B: int) -> Any:
        """A cache that begins with the prefix: a new one, an empty one filled, or one filled before."""
        if cache in self._filled:
            return cache
        if cache is None:
            from transformers import DynamicCache

            cache = DynamicCache()
        elif cache.get_seq_length() or cache.is_compileable:
            raise SpecError("a prefix needs a dynamic cache that is empty or was begun behind it; got another")
        for layer, (k, v) in enumerate(self._kept):
            cache.update(k.expand(B, -1, -1, -1).clone(), v.expand(B, -1, -1, -1).clone(), layer)
        self._filled.add(cache)
        return cache

    def _longer(self, mask: Any) -> Tensor:
        if not isinstance(mask, Tensor) or mask.dim() != 2:
            raise SpecError("behind a prefix attention_mask must be [sequence, token]")
        longer = torch.cat([mask.new_ones(len(mask), len(self.tokens)), mask], dim=1)
        window = getattr(self.top.config.get_text_config(), "sliding_window", None)
        if window is not None and window < longer.shape[1] and not mask[:, 0].all():
            raise SpecError(f"left padding pushes the prefix out of the model's window of {window}: pad on the right")
        return longer
