"""Check the streaming measurement against the weights that the model's own eager attention returns."""

import math
from typing import Any

import numpy as np
import pandas
import torch
from torch import nn

from softmaxlab.probing.heads import HeadTables, measure_heads
from softmaxlab.probing.inference import Batch
from softmaxlab.probing.streaming.sites import root

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4}  # sums of T terms in float32, twenty times the usual difference
HALF_TOLERANCE = 2e-2  # eager attention rounds weights to the model's own eight or eleven bits, ours are float32
COUNTS = ("keys_above", "sink_sequences")  # a weight next to its threshold may fall on either side: shown, not judged
MEMORY = 2 << 30  # bytes for the weights of one layer of one sequence
COPIES = 16  # bytes for each weight: scores, softmax, and what measuring makes of them, in float32
TINY = 1e-12  # keeps a statistic that is 0 in every head from dividing by 0


def check_against_eager(model: nn.Module, batches: list[Batch], eps: float) -> dict[str, Any]:
    """Measure batches both ways: tokens, allowed difference, whether all agree, and a row per statistic."""
    streaming, eager = (_measure(model, batches, eps, eager=way) for way in (False, True))
    allowed = TOLERANCE.get(root(model).dtype, HALF_TOLERANCE)
    rows = _differences("self", streaming.heads, eager.heads, allowed)
    rows += _differences("cross", streaming.cross, eager.cross, allowed)
    ok = all(row["ok"] for row in rows if row["ok"] is not None)
    return {"tokens": streaming.tokens, "allowed": allowed, "ok": ok, "statistics": rows}


def longest_checked(heads: int) -> int:
    """Return how many tokens of a sequence eager attention can take at once within MEMORY."""
    return int((MEMORY / (COPIES * heads)) ** 0.5)


def _measure(model: nn.Module, batches: list[Batch], eps: float, eager: bool) -> HeadTables:
    tables = measure_heads(model, batches, "full", eps, eager)
    if tables.interrupted:
        raise KeyboardInterrupt
    return tables


def _differences(
    attention: str, streaming: pandas.DataFrame, eager: pandas.DataFrame, allowed: float
) -> list[dict[str, Any]]:
    """The largest difference of each statistic over heads, relative to its largest value; NaN if eager lacks it."""
    rows = []
    for name in [name for name in streaming.columns if f"{name}_se" in streaming] if len(streaming) else ():
        ours, theirs = streaming[name].to_numpy(float), eager[name].to_numpy(float)
        row = {"attention": attention, "statistic": name, "largest": math.nan, "relative": math.nan, "ok": None}
        if not np.isnan(theirs).all():
            row["largest"] = float(np.abs(ours - theirs).max())
            row["relative"] = row["largest"] / max(float(np.abs(theirs).max()), TINY)
            row["ok"] = None if name in COUNTS else row["relative"] <= allowed
        rows.append(row)
    return rows
