"""Measure how alike the heads of a layer are, in what they look at and in what they write.

    weights  cos(w_h, w_h')   over all weights w_ij of queries i that are not padding
    outputs  cos(o_h, o_h')   over the heads' parts o_h = W_O^h Σ_j w_ij v_j of the hidden state, same queries

pooled over all sequences. Both come from Gram matrices Σ w_h·w_h' [head, head], summed tile by tile, so no pattern is
ever held whole. Outputs are compared behind W_O: before it each head speaks a basis of its own. Maps with signed
weights are taken as they are. NaN for a head that gives no key any weight.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from types import TracebackType
from typing import Any, Self

import pandas
import torch
from torch import Tensor, nn

from softmaxlab.core.progress import Progress
from softmaxlab.probing.inference import as_batches, evaluating, forward
from softmaxlab.probing.streaming.attach import SiteState, WeightFunction, attached
from softmaxlab.probing.streaming.call import TILE, AttentionCall
from softmaxlab.probing.streaming.sites import output_map, output_matrix
from softmaxlab.probing.streaming.tracker import ForwardTracker
from softmaxlab.probing.swap.map_weights import weights_of


def redundancy(model: nn.Module, batches: Iterable[Any]) -> pandas.DataFrame:
    """Similarities of all pairs of heads of each self-attention layer: layer, head, other, weights, outputs."""
    inputs = as_batches(batches)
    with (
        similarity(model) as similarities,
        evaluating(model),
        torch.no_grad(),
        Progress(len(inputs), "redundancy") as progress,
    ):
        for batch in inputs:
            forward(model, batch)
            progress.advance()
    return similarities.table()


class similarity:
    """`with similarity(model) as s: model(**batch)`, then `s.table()` or `s.weights()[layer]` [head, head]."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._grams: dict[str, dict[str, Tensor]] = {"weights": {}, "outputs": {}}

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._states = [state for state in undo.enter_context(attached(self.model)) if not state.site.cross]
            self._maps = {state.site.name: output_map(self.model, state.site) for state in self._states}
            self._tracker = ForwardTracker([state.site for state in self._states])
            undo.callback(self._tracker.close)
            for state in self._states:
                state.observers.append(self._observe)
                undo.callback(state.observers.remove, self._observe)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def weights(self) -> dict[int, Tensor]:
        """Layer → similarities of the heads' weights [head, head]."""
        return self._cosines("weights")

    def outputs(self) -> dict[int, Tensor]:
        """Layer → similarities of the heads' outputs [head, head]."""
        return self._cosines("outputs")

    def table(self) -> pandas.DataFrame:
        """One row per pair of different heads, each pair once."""
        weights, outputs = self.weights(), self.outputs()
        rows = [
            {"layer": layer, "head": h, "other": k, "weights": w[h, k].item(), "outputs": outputs[layer][h, k].item()}
            for layer, w in weights.items()
            for h in range(len(w))
            for k in range(h + 1, len(w))
        ]
        return pandas.DataFrame(rows, columns=["layer", "head", "other", "weights", "outputs"])

    def _cosines(self, name: str) -> dict[int, Tensor]:
        grams = self._grams[name]
        return {state.site.layer: _cosine(grams[state.site.name]) for state in self._states if state.site.name in grams}

    def _observe(self, state: SiteState, call: AttentionCall, out: Tensor) -> None:
        if not self._tracker.running(state.site):
            return
        counted = self._tracker.layout(state.site, call.shape, call.mask, call.q.device).counted
        weigh = state.weigh or _softmax()
        for rows, keys in call.tiles():
            w = weigh(call, rows, keys) * counted[:, None, rows, None]
            self._add("weights", state, w.transpose(0, 1).flatten(1))
        matrix = output_matrix(self._maps[state.site.name], out.shape[2] * out.shape[3], out)
        matrix = matrix.view(out.shape[2], out.shape[3], -1)  # [H, D, d]
        parts = out[counted].float().split(max(1, TILE // (len(matrix) * matrix.shape[-1])))
        for z in parts:
            self._add("outputs", state, torch.einsum("thc,hcd->htd", z, matrix).flatten(1))

    def _add(self, name: str, state: SiteState, flat: Tensor) -> None:
        """Add Σ x_h·x_h' of flat [head, entries]."""
        gram = (flat @ flat.T).double()
        known = self._grams[name].get(state.site.name)
        self._grams[name][state.site.name] = gram if known is None else known + gram


def _cosine(gram: Tensor) -> Tensor:
    size = gram.diagonal().sqrt()
    return gram / (size[:, None] * size)


@cache
def _softmax() -> WeightFunction:
    """Return softmax's weights. A map is looked up when it is needed: the first look-up imports the user's plugins."""
    return weights_of("softmax")
