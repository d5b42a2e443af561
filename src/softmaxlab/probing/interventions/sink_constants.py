"""A sink made of two constants: in sink heads the first token's score becomes b_h, its value becomes v_h.

    w_ij ∝ e^{χ_ij} for j ≥ 1,   w_i0 ∝ e^{b_h},   output_i = w_i0 v_h + Σ_{j≥1} w_ij v_j

with b_h and v_h the means over calibration of χ_i0 (queries i ≥ 1) and of v_0. Sink heads are those whose mean weight
on the first token is above ε; the others are left alone. With v_h = 0 what is left is softmax-1 in those heads.

On SmolLM2 a constant score costs 2 % of the perplexity, a constant value nothing more, and no value at all 70 %.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError, unknown
from softmaxlab.measure.thresholds import SINK_EPS
from softmaxlab.probing.inference import Batch, evaluating, forward
from softmaxlab.probing.interventions.folded import Folded
from softmaxlab.probing.saving_guard import not_saved
from softmaxlab.probing.streaming.attach import SiteState, attached
from softmaxlab.probing.streaming.call import HIDDEN, AttentionCall
from softmaxlab.probing.streaming.sites import output_map, root
from softmaxlab.probing.streaming.tracker import ForwardTracker, SequenceLayout
from softmaxlab.probing.swap.map_weights import use_weights

VALUES = ("mean", "own", "none")


@dataclass(frozen=True, eq=False)
class Constant:
    """The constants in place of the sink at one site: b [H], v [H, D], and in which heads."""

    b: Tensor
    v: Tensor
    heads: Tensor

    def to(self, device: torch.device) -> "Constant":
        return Constant(self.b.to(device), self.v.to(device), self.heads.to(device))


class Constants(Folded):
    """Within `with constants:` sink heads compute with b_h and v_h; `value="own"` keeps v_0, "none" drops it."""

    method = "bias"

    def __init__(
        self,
        model: nn.Module,
        calibration: Sequence[Batch],
        eps: float = SINK_EPS,
        value: Literal["mean", "own", "none"] = "mean",
    ) -> None:
        if value not in VALUES:
            raise unknown("value", value, VALUES)
        super().__init__(model)
        self.value = value
        self.constants = calibrated(model, calibration, eps)

    def fold(self, undo: ExitStack) -> None:
        states = [state for state in undo.enter_context(attached(self.model)) if not state.site.cross]
        if taken := [state.site.name for state in states if state.weigh is not None]:
            raise SpecError(f"the sink of softmax cannot be folded while another map is swapped in at {taken[0]}")
        self._tracker = ForwardTracker([state.site for state in states])
        undo.callback(self._tracker.close)
        for state in states:
            if self.constants[state.site.name].heads.any():
                self._fold_site(state, undo)
        undo.enter_context(not_saved(root(self.model), "its sink folded away"))

    def save(self, folder: Any) -> None:
        """Refuse: no architecture of transformers has room for a value per head in place of the first token's."""
        raise SpecError(
            f"the method 'bias' cannot be saved for {type(root(self.model)).__name__}, which has no learned sinks to "
            "hold a bias per head: use method='prefix'"
        )

    def _fold_site(self, state: SiteState, undo: ExitStack) -> None:
        site = state.site
        missing: dict[int, Tensor] = {}  # first row of a tile → what the value's replacement adds to the output

        def weigh(call: AttentionCall, rows: slice, keys: int) -> Tensor:
            layout = self._tracker.layout(site, call.shape, call.mask, call.q.device)
            χ, constant = call.scores(rows, keys), self.constants[site.name].to(call.q.device)
            there = _first(layout, keys) & constant.heads[:, None, None] & (χ > HIDDEN / 2)
            w = _softmax(torch.where(there, constant.b[:, None, None], χ), call.sink)
            if self.value != "own":
                v = constant.v if self.value == "mean" else torch.zeros_like(constant.v)
                w_0 = (w * there).sum(dim=-1, keepdim=True)
                missing[rows.start] = w_0 * (v - _first_value(call, layout))[:, :, None]
            return w

        def replace(_: nn.Module, args: tuple) -> tuple:
            if not missing:
                return args
            parts = torch.cat([missing[start] for start in sorted(missing)], dim=2)
            missing.clear()
            if state.gain is not None:
                parts = parts * state.gain.to(parts)[:, None, None]
            x = args[0]
            return (x + parts.transpose(1, 2).reshape(x.shape).to(x), *args[1:])

        undo.enter_context(use_weights(state, weigh, state.leaks_weight))
        undo.callback(output_map(self.model, site).register_forward_pre_hook(replace).remove)


def calibrated(model: nn.Module, batches: Sequence[Batch], eps: float) -> dict[str, Constant]:
    """b_h, v_h and the sink heads of every site of self-attention, from forward passes over `batches`."""
    with ExitStack() as undo:
        states = [state for state in undo.enter_context(attached(model)) if not state.site.cross]
        tracker = ForwardTracker([state.site for state in states])
        undo.callback(tracker.close)
        means = {state.site.name: _Means() for state in states}

        def observe(state: SiteState, call: AttentionCall, _: Tensor) -> None:
            layout = tracker.layout(state.site, call.shape, call.mask, call.q.device)
            means[state.site.name].add(call, layout)

        for state in states:
            state.observers.append(observe)
            undo.callback(state.observers.remove, observe)
        undo.enter_context(evaluating(model))
        undo.enter_context(torch.no_grad())
        for batch in batches:
            forward(model, batch)
    return {name: mean.constant(eps) for name, mean in means.items()}


@dataclass
class _Means:
    """Sums of χ_i0, w_i0 and v_0."""

    scores: Any = 0.0
    weights: Any = 0.0
    queries: Any = 0.0
    values: Any = 0.0
    sequences: int = 0

    def add(self, call: AttentionCall, layout: SequenceLayout) -> None:
        for rows, keys in call.tiles():
            χ, first = call.scores(rows, keys), _first(layout, keys)
            later = torch.arange(rows.start, rows.stop, device=χ.device) > layout.first[:, None]
            there = first & (layout.counted[:, rows] & later)[:, None, :, None] & (χ > HIDDEN / 2)
            self.scores = self.scores + torch.where(there, χ, 0).sum(dim=(0, 2, 3))
            self.weights = self.weights + (_softmax(χ, call.sink) * there).sum(dim=(0, 2, 3))
            self.queries = self.queries + there.sum(dim=(0, 2, 3))
        self.values = self.values + _first_value(call, layout).sum(dim=0)
        self.sequences += len(call.q)

    def constant(self, eps: float) -> Constant:
        return Constant(self.scores / self.queries, self.values / self.sequences, self.weights / self.queries > eps)


def _first(layout: SequenceLayout, keys: int) -> Tensor:
    """Return a mask [B, 1, 1, keys] of each sequence's first key."""
    return (torch.arange(keys, device=layout.first.device) == layout.first[:, None])[:, None, None]


def _first_value(call: AttentionCall, layout: SequenceLayout) -> Tensor:
    """v_0 [B, H, D] in float32."""
    index = layout.first.clamp(min=0)[:, None, None, None].expand(-1, call.v.shape[1], 1, call.v.shape[-1])
    return call.v.gather(2, index)[:, :, 0].float().repeat_interleave(call.groups, dim=1)


def _softmax(χ: Tensor, sink: Tensor | None) -> Tensor:
    if sink is None:
        return χ.softmax(dim=-1)
    return torch.cat([χ, sink.to(χ)[:, None, None].expand(*χ.shape[:-1], 1)], dim=-1).softmax(dim=-1)[..., :-1]
