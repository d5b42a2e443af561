"""Follow the forward passes of a model: their padding, what a cache already holds, and the tokens.

Read by a hook before each model's forward. The innermost model around a site knows its own padding mask; a mask that
was prepared further out (by `generate`, for a static cache, or by the user) has four axes, and padding is read off it.
"""

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.call import is_hidden
from softmaxlab.probing.streaming.output_check import ONLY_READS, is_muted, is_static
from softmaxlab.probing.streaming.sites import Site

_NEW = ("decoder_input_ids", "decoder_inputs_embeds", "input_ids", "inputs_embeds")  # what a cache grows by


@dataclass(frozen=True, eq=False)
class ForwardInputs:
    """The arguments of one forward of one model."""

    mask: Any
    encoder_mask: Any
    past: int  # tokens in the cache before this pass
    end: int  # tokens in it afterwards
    ids: Tensor | None
    encodes: bool  # the model holds an encoder and a decoder, and `ids` are the encoder's
    shape: tuple[int, int] | None  # [B, T] of what the model reads; of the decoder's input, if it has one
    is_static: bool  # the cache has places for tokens that have not come yet


@dataclass(frozen=True, eq=False)
class SequenceLayout:
    """The places of the queries and keys of a call in their sequences."""

    counted: Tensor  # [B, Tq], queries that are not padding
    first: Tensor  # [B], index among the call's keys of the sequence's first token; negative if a window has left it
    real: Tensor  # [B, Tk], keys that are filled and not padding
    new: Tensor  # [B, Tk], those of them that earlier calls of the same sequences did not have
    offset: int  # position of the call's first key
    start: int  # position of the call's first query
    ids: Tensor | None  # tokens of the call's new keys [B, new]
    is_self: bool = True

    @property
    def origin(self) -> Tensor:
        """Position [B] of the sequence's first token."""
        return self.first + self.offset


class ForwardTracker:
    """Hooks on every model that owns a site: `layout` tells where a call stands while a forward is running."""

    def __init__(self, sites: list[Site], every: int = 1) -> None:
        self.inputs: dict[int, ForwardInputs] = {}
        self.latest: dict[str, SequenceLayout] = {}  # of each site, by its name
        self._every, self._begun, self._measured, self._end = every, Counter(), False, 0
        owners = {id(owner): owner for site in sites for owner in site.owners}
        self._hooks = [self._hook(owner) for owner in owners.values()]

    def close(self) -> None:
        for remove in self._hooks:
            remove()

    def _hook(self, owner: Any) -> Callable[[], None]:
        names = list(inspect.signature(owner.forward).parameters)

        def before(_: Any, args: tuple, kwargs: dict) -> None:
            if is_muted():
                return
            inputs = _read_inputs({**dict(zip(names, args)), **kwargs}, "decoder_input_ids" in names)
            if not self.inputs:
                self._begin(id(owner), inputs)
            self.inputs[id(owner)] = inputs

        def after(*_: Any) -> None:
            if not is_muted():
                self.inputs.pop(id(owner), None)

        setattr(before, ONLY_READS, True)
        handles = (
            owner.register_forward_pre_hook(before, with_kwargs=True),
            owner.register_forward_hook(after, always_call=True),
        )

        def remove() -> None:
            for handle in handles:
                handle.remove()

        return remove

    def _begin(self, outermost: int, inputs: ForwardInputs) -> None:
        """Whether to measure the pass of the outermost model; one that goes on with a cache is as the one before."""
        if inputs.past == 0 or inputs.past != self._end:
            self._begun[outermost] += 1
            self._measured = self._begun[outermost] % self._every == 0
        self._end = inputs.end

    def running(self, site: Site) -> bool:
        """Whether this pass is measured. No pass runs when checkpointed activations are computed again, backwards."""
        return id(site.owners[0]) in self.inputs and self._measured and not is_muted()

    def tokens(self, block: Site, B: int, T: int, device: torch.device) -> SequenceLayout | None:
        """The layout of the tokens that leave a block, also one that does not attend; None where they are others.

        Attention within windows has a batch of its own, for instance.
        """
        batch = self.inputs[id(block.owners[0])].shape
        if batch is not None and batch != (B, T):
            return None
        inside = [name for name in self.latest if name.startswith(f"{block.block}.") and self.latest[name].is_self]
        if inside and self.latest[inside[0]].counted.shape == (B, T):
            return self.latest[inside[0]]
        return None if batch is None else self._self_layout(block, B, T, T, None, device)

    def batch(self, site: Site) -> tuple[int, int] | None:
        """The shape [B, T] of what the innermost model around a site reads; None if that is not known."""
        inputs = self.inputs.get(id(site.owners[0]))
        return None if inputs is None or inputs.encodes else inputs.shape

    def layout(
        self, site: Site, shape: tuple[int, int, int, int], mask: Tensor | None, device: torch.device
    ) -> SequenceLayout:
        """The layout of a call whose weights have `shape` [B, H, Tq, Tk]; `mask` is the one that attention received."""
        B, _, rows, keys = shape
        if site.cross:
            layout = self._cross_layout(site, B, rows, keys, device)
        else:
            layout = self._self_layout(site, B, rows, keys, mask, device)
        self.latest[site.name] = layout
        return layout

    def _cross_layout(self, site: Site, B: int, rows: int, keys: int, device: torch.device) -> SequenceLayout:
        start = self.inputs[id(site.owners[0])].past
        queries = _window(self._padding(site, "mask"), B, start, rows, device)
        real = _window(self._padding(site, "encoder_mask"), B, 0, keys, device)
        new, ids = (real, self._ids(site, (B, keys))) if start == 0 else (torch.zeros_like(real), None)
        return SequenceLayout(queries, real.int().argmax(dim=-1), real, new, 0, start, ids, is_self=False)

    def _self_layout(
        self, site: Site, B: int, rows: int, keys: int, mask: Tensor | None, device: torch.device
    ) -> SequenceLayout:
        inputs = self.inputs[id(site.owners[0])]
        start = inputs.past
        offset, end = max(0, start + rows - keys), start + rows
        if keys > end and not inputs.is_static:
            _refuse_merged(site, keys, end)
        padding = self._padding(site, "mask")
        if padding is None and (prepared := self._prepared(site, mask)) is not None:
            padding = self._from_mask(site, prepared, B, start, end)
        whole = _window(padding, B, 0, end, device)
        position = torch.arange(offset, offset + keys, device=device)
        real = _window(whole, B, offset, keys, device)
        first, ids = whole.int().argmax(dim=-1) - offset, self._ids(site, (B, rows))
        return SequenceLayout(whole[:, start:], first, real, real & (position >= start), offset, start, ids)

    def _padding(self, site: Site, name: str) -> Tensor | None:
        """The 2-D mask [B, T] that applies to a site; None for no padding."""
        for owner in site.owners:
            inputs = self.inputs.get(id(owner))
            mask = None if inputs is None else getattr(inputs, name)
            if mask is None or (isinstance(mask, Tensor) and mask.dim() == 2):
                return mask
        return None

    def _prepared(self, site: Site, mask: Tensor | None) -> Tensor | None:
        """The mask that was prepared further out and given to the innermost model around a site; None if none was.

        The one that attention received, `mask`, may hide more: the keys that a sparse index left out.
        """
        given = self.inputs[id(site.owners[0])].mask
        parts = list(given.values()) if isinstance(given, dict) else [given]
        masks = [part for part in parts if isinstance(part, Tensor) and part.dim() == 4]
        if len(masks) == 1:
            return masks[0]
        return mask if masks else None

    def _from_mask(self, site: Site, mask: Tensor, B: int, start: int, end: int) -> Tensor:
        """Padding [B, end] read off a prepared mask [B, 1, Tq, Tk]: a token that is real is seen by some query.

        Later calls may no longer see the first tokens, so what the sequences' first call showed is kept.
        """
        if start == 0:
            return (~is_hidden(mask)).any(dim=-2)[:, 0, :end].expand(B, -1)
        before, padding = self.latest.get(site.name), torch.ones(B, end, dtype=torch.bool, device=mask.device)
        if before is None or len(before.first) != B:
            return padding
        return padding & (torch.arange(end, device=mask.device) >= before.origin[:, None].to(mask.device))

    def _ids(self, site: Site, shape: tuple[int, int]) -> Tensor | None:
        """The tokens that the nearest model around a site reads; for cross-attention, the one with the encoder."""
        around = (self.inputs[id(owner)] for owner in site.owners if id(owner) in self.inputs)
        tokens = (inputs.ids for inputs in around if inputs.ids is not None and inputs.encodes == site.cross)
        return next((ids for ids in tokens if ids.shape == shape), None)


def _read_inputs(arguments: dict[str, Any], encodes: bool) -> ForwardInputs:
    cache: Any = arguments.get("past_key_values")
    past = int(cache.get_seq_length()) if hasattr(cache, "get_seq_length") else 0
    ids = arguments.get("input_ids")
    ids = ids if isinstance(ids, Tensor) else None
    _refuse_packed(arguments.get("position_ids"), arguments.get("attention_mask"))
    new = next((arguments[name] for name in _NEW if isinstance(arguments.get(name), Tensor)), None)
    end = past if new is None else past + new.shape[1]
    shape = None if new is None else (new.shape[0], new.shape[1])
    return ForwardInputs(
        arguments.get("attention_mask"),
        arguments.get("encoder_attention_mask"),
        past,
        end,
        ids,
        encodes,
        shape,
        is_static=is_static(cache),
    )


def _refuse_merged(site: Site, keys: int, tokens: int) -> None:
    """Refuse attention that reads the encoder's tokens beside its own, in one softmax: their padding differs."""
    if "encoder_hidden_states" in inspect.signature(site.module.forward).parameters:
        raise SpecError(
            f"{type(site.module).__name__} attends to {keys} keys in a sequence of {tokens} tokens: it reads those of "
            "the encoder in the same softmax, which is not measured"
        )


def _refuse_packed(position: Any, mask: Any) -> None:
    packed = packed_rows(position, mask)
    if packed is not None and packed.any():
        raise SpecError("position_ids begin anew within a row: packed texts are not measured, give one text a row")


def packed_rows(position: Any, mask: Any) -> Tensor | None:
    """Return which rows [B] of a batch hold several texts, one after the other; None if nothing says so.

    They have several first tokens, and transformers hides them from each other by positions.
    """
    if not (isinstance(position, Tensor) and position.dim() == 2):
        return None
    restarts = position.diff(dim=-1) <= 0
    if mask is not None:
        if not (isinstance(mask, Tensor) and mask.dim() == 2):  # prepared further out: padding is not known here
            return None
        real = mask[:, -position.shape[1] :].bool()
        restarts = restarts & real[:, 1:] & real[:, :-1]
    return restarts.any(dim=-1)


def _window(mask: Tensor | None, B: int, start: int, size: int, device: torch.device) -> Tensor:
    """Columns start … start + size of a padding mask [B, T] as booleans; all True without one, False beyond its end."""
    if mask is None:
        return torch.ones(B, size, dtype=torch.bool, device=device)
    mask = mask.to(device).bool()[:, start : start + size]
    return torch.nn.functional.pad(mask, (0, size - mask.shape[1]))
