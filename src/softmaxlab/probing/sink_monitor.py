"""Measure the heads of a model while it is trained, every N optimizer steps.

    with SinkMonitor(model, every=100) as monitor:
        for batch in data:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step()
    print(monitor.table())

The training batches of a step that is to be measured are kept, and run through the model once more when the step is
done: without gradients and dropout, and with the random generators put back. So training is left as it is, bit by bit,
with any implementation of attention, and steps that are not measured cost nothing. `SinkCallback` does the same inside
`transformers.Trainer`.
"""

import inspect
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, cast

import pandas
import torch
from torch import Tensor, nn

from softmaxlab.errors import SpecError
from softmaxlab.measure.thresholds import SINK_EPS
from softmaxlab.probing.inference import evaluating
from softmaxlab.probing.streaming.sites import root
from softmaxlab.probing.streaming.tracker import packed_rows
from softmaxlab.probing.watch import Statistics, watch

log = logging.getLogger(__name__)
MEANS = ("sink", "sparsity", "entropy", "effective_keys", "total", "sink_output")  # of the row of a step
_UNUSED = ("labels", "num_items_in_batch")  # the loss is not computed again


class SinkMonitor:
    """Rows of statistics, one for each N-th optimizer step; `steps` is how many there were so far.

    A row is of the batches of that step alone (all micro-batches of an accumulated one), on the weights after it.
    Forward passes in evaluation mode or without gradients are not looked at. Rows of a batch that hold several packed
    texts are left out with a warning; a step with nothing else has no row.
    """

    def __init__(
        self, model: nn.Module, every: int = 100, statistics: Statistics = "full", eps: float = SINK_EPS
    ) -> None:
        if not (isinstance(every, int) and not isinstance(every, bool) and every >= 1):
            raise SpecError(f"every must be a whole number of optimizer steps from 1, got {every!r}")
        with watch(model, statistics=statistics, eps=eps):
            pass  # a model that cannot be measured is refused here, not in the middle of a training
        self.model, self.every, self.eps = model, every, eps
        self.statistics: Statistics = statistics
        self.steps = 0
        self.rows: list[dict[str, float]] = []
        self.packed = 0  # rows of batches that were left out
        self._heads: list[pandas.DataFrame] = []
        self._batches: list[dict[str, Any]] = []
        self._hook: Any = None

    def open(self) -> None:
        """Begin to look at the model's batches, as a `with` block does."""
        if self._hook is not None:
            raise SpecError("this monitor is in use already")
        top = root(self.model)
        self._names = list(inspect.signature(top.forward).parameters)
        self._hook = top.register_forward_pre_hook(self._before, with_kwargs=True)

    def close(self) -> None:
        """Leave the model alone again; what was measured stays."""
        if self._hook is not None:
            self._hook.remove()
        self._hook = None
        self._batches.clear()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self) -> dict[str, float] | None:
        """Count an optimizer step that is done; return its row if it was measured."""
        self.steps += 1
        batches = [batch for batch in map(self._without_packed, self._batches) if batch is not None]
        self._batches.clear()
        if not batches:
            return None
        self.rows.append(self._measure(batches))
        return self.rows[-1]

    def table(self) -> pandas.DataFrame:
        """One row per measured step: means over all heads, shares of sink heads, extremes, and the sink's layers."""
        return pandas.DataFrame(self.rows)

    def heads(self) -> pandas.DataFrame:
        """One row per measured step, layer and head: the columns of `watch(model).report()` behind `step`."""
        return pandas.concat(self._heads, ignore_index=True) if self._heads else pandas.DataFrame()

    def _before(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        if (self.steps + 1) % self.every == 0 and module.training and torch.is_grad_enabled():
            inputs = {**dict(zip(self._names, args)), **kwargs}
            self._batches.append({name: value for name, value in inputs.items() if name not in self._left_out()})

    def _left_out(self) -> tuple[str, ...]:
        return () if root(self.model).config.is_encoder_decoder else _UNUSED

    def _without_packed(self, batch: dict[str, Any]) -> dict[str, Any] | None:
        packed = packed_rows(batch.get("position_ids"), batch.get("attention_mask"))
        if packed is None or not packed.any():
            return batch
        if not self.packed:
            log.warning("SinkMonitor: rows that hold several packed texts are left out: they have several first tokens")
        self.packed += int(packed.sum())
        rows = len(packed)
        whole = {
            name: isinstance(value, Tensor) and value.dim() > 0 and len(value) == rows for name, value in batch.items()
        }
        return None if packed.all() else {n: v[~packed] if whole[n] else v for n, v in batch.items()}

    def _measure(self, batches: list[dict[str, Any]]) -> dict[str, float]:
        top, device = root(self.model), next(self.model.parameters()).device
        options = {"use_cache": False, "logits_to_keep": 1}  # of the logits only one is computed
        options = {name: value for name, value in options.items() if name in self._names}
        devices = [device] if device.type == "cuda" else []
        first = not self._heads  # whose outputs are compared with and without measuring
        watched = watch(top, statistics=self.statistics, eps=self.eps, compare_logits=first)
        with torch.random.fork_rng(devices), evaluating(self.model), torch.no_grad(), watched:
            for batch in batches:
                top(**batch | options)
        heads = watched.report()
        self._heads.append(cast(pandas.DataFrame, heads.assign(step=self.steps)[["step", *heads.columns]]))
        return {"step": self.steps} | _summary(watched, heads, self.eps)


def _summary(watched: watch, heads: pandas.DataFrame, eps: float) -> dict[str, float]:
    row = {name: float(_column(heads, name).mean()) for name in MEANS if name in heads}
    row |= {"sink_heads": float((_column(heads, "sink") > eps).mean())}
    row["sequences"] = int(_column(heads, "sequences").max())
    if "max_logit" in heads:
        row["max_logit"] = float(_column(heads, "max_logit").max())
        sinks = watched.sinks()
        if len(sinks):  # of the most frequent sink token
            row |= {name: int(sinks[name].iloc[0]) for name in ("first_layer", "last_layer")}
    activations = watched.activations()
    return row | {"top_activation": float(_column(activations, "top").max())} if len(activations) else row


def _column(table: pandas.DataFrame, name: str) -> pandas.Series:
    return cast(pandas.Series, table[name])  # which by the types of pandas may be a table too


def as_log(row: Mapping[str, float]) -> dict[str, float]:
    """A row under the names that trackers show, `sinks/sink` and so on; the step is theirs to write."""
    return {f"sinks/{name}": value for name, value in row.items() if name != "step"}
