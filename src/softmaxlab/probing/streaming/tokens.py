"""The tokens of each sequence that are sinks, or have massive activations, layer by layer."""

from typing import Literal

import numpy as np
import pandas

from softmaxlab.errors import unknown

TokenKind = Literal["sink", "massive", "any"]
KEY = ["layer", "sequence", "position", "token"]
COLUMNS = [*KEY, "sink_heads", "sink_weight", "activation"]


def tokens_table(sinks: pandas.DataFrame, massive: pandas.DataFrame) -> pandas.DataFrame:
    """One row per token and layer in which it is a sink of some head, or massive.

    `sink_heads` counts the heads whose mean weight on the token is above ε and `sink_weight` is the largest of those
    means; `activation` is the largest |h| after the layer if it is massive, else NaN. `sequence` counts from 0 in the
    order in which sequences were measured, `position` from a sequence's first token that is not padding.
    """
    if sinks.empty and massive.empty:
        return pandas.DataFrame(columns=COLUMNS)
    parts = [part for part in (sinks, massive) if len(part)]
    table = parts[0] if len(parts) == 1 else sinks.merge(massive, on=KEY, how="outer")
    table = table.reindex(columns=COLUMNS).sort_values(KEY, ignore_index=True)
    return table.assign(sink_heads=table["sink_heads"].fillna(0).astype(int))


def token_mask(
    tokens: pandas.DataFrame, sequences: int, length: int, kind: TokenKind = "any", layer: int | None = None
) -> np.ndarray:
    """Mask [sequence, position] of the tokens of a table, True for those of a kind, in one layer or in any."""
    if kind not in ("sink", "massive", "any"):
        raise unknown("kind", kind, ("sink", "massive", "any"))
    chosen = {"sink": tokens["sink_heads"] > 0, "massive": tokens["activation"].notna()}
    rows = tokens if kind == "any" else tokens.loc[chosen[kind]]
    rows = rows if layer is None else rows.loc[rows["layer"] == layer]
    mask = np.zeros((sequences, length), dtype=bool)
    mask[rows["sequence"].to_numpy(int), rows["position"].to_numpy(int)] = True
    return mask
