"""Massive activations: the largest entries of the hidden state h [token, dimension] after each layer.

Hooks on the layers themselves: the last hidden state that a model returns has gone through its final norm.
"""

from typing import Any

import pandas
import torch
from torch import Tensor, nn

from softmaxlab.measure.thresholds import MASSIVE, MASSIVE_RATIO
from softmaxlab.probing.streaming.sites import Site, all_blocks
from softmaxlab.probing.streaming.tracker import ForwardTracker, SequenceLayout

SAMPLED = 1 << 16  # entries, evenly spaced, that the median of a pass is taken from
COLUMNS = ("layer", "top", "median", "ratio", "position", "token", "dimension", "kurtosis", "module")


class Activations:
    """The largest |h| of each layer over all tokens that are not padding."""

    def __init__(self, top: nn.Module, sites: list[Site], tracker: ForwardTracker) -> None:
        self._layers = {block.block: block for block in all_blocks(top, sites)}
        self._tracker = tracker
        self.massive: list[tuple[int, int, int, int, float]] | None = None  # of tokens; None if not asked for
        self._sequences: dict[str, int] = {}
        self._records: dict[str, dict[str, Any]] = {}
        self._hooks = [top.get_submodule(name).register_forward_hook(self._hook(name)) for name in self._layers]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def reset(self) -> None:
        self._records.clear()
        self._sequences.clear()
        self.massive = None if self.massive is None else []

    def table(self) -> pandas.DataFrame:
        """One row per layer; `position` counts from the first token that is not padding.

        `.attrs["unseen"]` lists the layers of the language model whose hidden states were not seen.
        """
        seen = [block for name, block in self._layers.items() if name in self._records]
        table = pandas.DataFrame([self._row(block.layer, block.block) for block in seen], columns=list(COLUMNS))
        missing = (block for name, block in self._layers.items() if name not in self._records)
        table.attrs["unseen"] = [block.layer for block in missing if block.reads_text]
        return table

    def _row(self, layer: int, name: str) -> dict[str, Any]:
        record = self._records[name]
        median, moments = record["median"] / record["passes"], record["moments"] / record["count"]
        largest = {key: record[key] for key in ("top", "position", "token", "dimension")}
        kurtosis = float(moments[1] / moments[0] ** 2)
        return {
            "layer": layer,
            **largest,
            "median": median,
            "ratio": record["top"] / median,
            "kurtosis": kurtosis,
            "module": name,
        }

    def _hook(self, name: str):
        def after(_: nn.Module, args: tuple, output: Any) -> None:
            h = output[0] if isinstance(output, tuple) else output
            block = self._layers[name]
            if not (self._tracker.running(block) and isinstance(h, Tensor) and h.dim() == 3):
                return
            layout = self._tracker.tokens(block, h.shape[0], h.shape[1], h.device)
            if layout is not None:
                with torch.no_grad():
                    self._add(name, h.detach().float(), layout)

        return after

    def _add(self, name: str, h: Tensor, layout: SequenceLayout) -> None:
        real = h[layout.counted]  # [tokens, dimension]
        if real.numel() == 0:
            return
        size = real.abs().flatten()
        top, index = size.max(dim=0)
        row, dimension = divmod(int(index), h.shape[-1])
        sample, token = layout.counted.nonzero()[row].tolist()
        median = size[:: size.numel() // SAMPLED | 1].median().item()  # an odd step meets all dimensions
        if self.massive is not None:
            self._add_massive(name, real.abs().amax(dim=-1), median, layout)
        square = real.square()
        moments = torch.stack([x.sum(dtype=torch.float64) for x in (square, square.square())])
        new = {"passes": 0, "median": 0.0, "count": 0, "moments": torch.zeros(2, dtype=torch.float64), "top": -1.0}
        record = self._records.setdefault(name, new)
        record["passes"] += 1
        record["median"] += median
        record["count"] += real.numel()
        record["moments"] += moments.cpu()
        if not top.item() <= record["top"]:  # also if it is NaN, which is then reported
            position, id = _place(layout, sample, token)
            record.update(top=top.item(), position=position, token=id, dimension=dimension)

    def _add_massive(self, name: str, largest: Tensor, median: float, layout: SequenceLayout) -> None:
        """Keep the tokens of a pass whose largest |h| is massive, and count its sequences."""
        filled = layout.counted.any(dim=-1)
        if layout.start == 0:
            self._sequences[name] = self._sequences.get(name, 0) + int(filled.sum())
        first = self._sequences.get(name, 0) - int(filled.sum())
        layer, rank = self._layers[name].layer, filled.cumsum(dim=0) - 1
        places = layout.counted.nonzero()
        for row in ((largest > MASSIVE) & (largest > MASSIVE_RATIO * median)).nonzero()[:, 0].tolist():
            sample, token = places[row].tolist()
            position, id = _place(layout, sample, token)
            assert self.massive is not None
            self.massive.append((layer, first + int(rank[sample]), position, id, float(largest[row])))


def _place(layout: SequenceLayout, sample: int, token: int) -> tuple[int, int]:
    """Position from the sequence's first token, and token id (−1 if not known), of a query of a pass."""
    ids = layout.ids
    id = -1 if ids is None or ids.shape[1] <= token else int(ids[sample, token])
    return layout.start + token - int(layout.origin[sample]), id
