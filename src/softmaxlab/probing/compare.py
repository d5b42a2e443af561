"""Two models, or one model before and after a change, side by side.

Layer means are over the heads of a layer. Heads are measured on the same sequences, so their errors are not
independent: the standard error of a layer's mean is taken as the mean of its heads' errors, which it cannot exceed, and
that of a difference as √(se² + se²), which pairing the sequences could only lower in most cases.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
import torch
from torch import nn

from softmaxlab.errors import SpecError
from softmaxlab.measure.thresholds import SINK, SINK_EPS
from softmaxlab.probing.definitions import FULL
from softmaxlab.probing.inference import as_batches, evaluating, forward
from softmaxlab.probing.next_token_loss import Change, Loss, change, lacks_loss, loss
from softmaxlab.probing.watch import watch


@dataclass(frozen=True, eq=False)
class Comparison:
    """`layers`: layer, statistic, a, b, difference, se. `summary`: the same over all heads; sink heads' shares."""

    layers: pandas.DataFrame
    summary: pandas.DataFrame
    losses: tuple[Loss, Loss] | None = None

    @property
    def change(self) -> Change | None:
        """Δloss from a to b; None without losses, or if the two were given different tokens."""
        if self.losses is None or not np.array_equal(self.losses[0].n, self.losses[1].n):
            return None
        return change(*self.losses)


def compare(a: nn.Module, b: nn.Module, batches: Iterable[Any], others: Iterable[Any] | None = None) -> Comparison:
    """Both models on the same tokens. `others`: b's own batches, if its tokenizer is another; then no Δloss."""
    inputs = as_batches(batches)
    table_a, loss_a = _measured(a, inputs)
    table_b, loss_b = _measured(b, inputs if others is None else as_batches(others))
    both = None if others is not None or loss_a is None or loss_b is None else (loss_a, loss_b)
    return compare_tables(table_a, table_b, both)


def compare_tables(a: pandas.DataFrame, b: pandas.DataFrame, losses: tuple[Loss, Loss] | None = None) -> Comparison:
    """Two tables of heads, as `watch` and `probe` give them; a layer that only one has is NaN for the other."""
    names = [name for name in FULL if name in a.columns and name in b.columns]
    if not names or "layer" not in a.columns or "layer" not in b.columns:
        raise SpecError(f"tables must have one row per layer and head and share a statistic, such as {FULL[0]!r}")
    layers = pandas.concat([_sides(_means(a, name, True), _means(b, name, True), name) for name in names])
    everything = pandas.concat([_sides(_means(a, name, False), _means(b, name, False), name) for name in names])
    summary = pandas.concat([everything.drop(columns="layer"), _shares(a, b)], ignore_index=True)
    return Comparison(layers.sort_values(["layer", "statistic"], kind="stable", ignore_index=True), summary, losses)


def _means(table: pandas.DataFrame, name: str, by_layer: bool) -> pandas.DataFrame:
    layer = table["layer"] if by_layer else pandas.Series(-1, index=table.index, name="layer")
    error = table[f"{name}_se"] if f"{name}_se" in table else pandas.Series(np.nan, index=table.index)
    return pandas.DataFrame({"mean": table[name].groupby(layer).mean(), "se": error.groupby(layer).mean()})


def _sides(a: pandas.DataFrame, b: pandas.DataFrame, name: str) -> pandas.DataFrame:
    both = a.add_suffix("_a").join(b.add_suffix("_b"), how="outer")
    sides = {
        "layer": both.index,
        "statistic": name,
        "a": both["mean_a"],
        "b": both["mean_b"],
        "difference": both["mean_b"] - both["mean_a"],
        "se": np.hypot(both["se_a"], both["se_b"]),
    }
    return pandas.DataFrame(sides).reset_index(drop=True)


def _shares(a: pandas.DataFrame, b: pandas.DataFrame) -> pandas.DataFrame:
    """Shares of heads whose sink score is above ε: counts of heads, no samples, so without standard error."""
    rows = []
    for eps in (SINK_EPS, SINK):
        share = [(table["sink"] > eps).mean() if "sink" in table else np.nan for table in (a, b)]
        row = {"statistic": f"share of heads with sink > {eps}", "a": share[0], "b": share[1]}
        rows.append({**row, "difference": share[1] - share[0], "se": np.nan})
    return pandas.DataFrame(rows)


def _measured(model: nn.Module, inputs: Sequence[Any]) -> tuple[pandas.DataFrame, Loss | None]:
    """The table of heads, and the loss of the same passes if the model has one."""
    measured = None
    with watch(model) as watcher, evaluating(model), torch.no_grad():
        if lacks_loss(model):
            for batch in inputs:
                forward(model, batch)
        else:
            measured = loss(model, inputs)
    return watcher.report(), measured
