"""Tallies as tables."""

from collections.abc import Sequence

import numpy as np
import pandas
import torch

from softmaxlab.probing.definitions import DEFINITIONS, ERROR, FAST, FULL, SAMPLING
from softmaxlab.probing.streaming.call import HIDDEN
from softmaxlab.probing.streaming.tally import Tally

Measured = Sequence[tuple[int, str, Tally]]  # layer, name of its attention module, what was measured there


def heads_table(measured: Measured, statistics: str = "full") -> pandas.DataFrame:
    """One row per layer and head: every statistic with its standard error, and how many sequences it comes from."""
    names = FULL if statistics == "full" else FAST
    tables = [_layer_table(layer, module, tally, names) for layer, module, tally in measured if tally.ratios]
    columns = ["layer", "head", *(c for name in names for c in (name, f"{name}_se"))]
    if any(tally.variance for _, _, tally in measured):
        columns += [f"{name}{SAMPLING}" for name in names if any(name in tally.variance for _, _, tally in measured)]
    columns += [*(("max_logit",) if statistics == "full" else ()), "queries", "sequences", "module"]
    table = pandas.concat(tables, ignore_index=True) if tables else pandas.DataFrame(columns=columns)
    table = table.reindex(columns=columns)
    table.attrs["definitions"] = {
        name: text for name, text in DEFINITIONS.items() if name in (*columns, ERROR, f"…{SAMPLING}")
    }
    return table


def _layer_table(layer: int, module: str, tally: Tally, names: Sequence[str]) -> pandas.DataFrame:
    columns: dict = {}
    for name in names:
        ratio = tally.ratios.get(name)  # none of what needs values, where there are only weights
        columns[name] = np.nan if ratio is None else ratio.mean().cpu().numpy()
        columns[f"{name}_se"] = np.nan if ratio is None else ratio.error(tally.sequences).cpu().numpy()
        if (error := tally.sampling_error(name)) is not None:
            columns[f"{name}{SAMPLING}"] = error.cpu().numpy()
    heads = np.arange(len(columns["total"]))
    queries = tally.ratios["total"].n.cpu().numpy().astype(int)
    columns["max_logit"] = _largest(tally.max_logit)
    counts = {"queries": queries, "sequences": tally.sequences, "module": module}
    return pandas.DataFrame({"layer": layer, "head": heads, **columns, **counts})


def _largest(max_logit: torch.Tensor | None) -> np.ndarray | float:
    """The largest logit of each head; NaN where only weights are known, or no query saw a key."""
    if max_logit is None:
        return np.nan
    return torch.where(max_logit > HIDDEN / 2, max_logit, torch.nan).cpu().numpy()


def profile_table(measured: Measured) -> pandas.DataFrame:
    """Mean over sequences of α_k for every position k from the first token."""
    tables = [_layer_profile(layer, tally) for layer, _, tally in measured if tally.profile is not None]
    columns = ["layer", "head", "position", "weight"]
    return pandas.concat(tables, ignore_index=True) if tables else pandas.DataFrame(columns=columns)


def _layer_profile(layer: int, tally: Tally) -> pandas.DataFrame:
    mean = torch.as_tensor(tally.profile).div(torch.as_tensor(tally.profiled)).cpu().numpy()
    heads, positions = mean.shape
    head, position = np.divmod(np.arange(heads * positions), positions)
    table = {"layer": layer, "head": head, "position": position, "weight": mean.ravel()}
    return pandas.DataFrame(table).dropna()


def sinks_table(measured: Measured) -> pandas.DataFrame:
    """Keys that are sinks, the most frequent first, and from which layer to which their token is one."""
    rows = [
        {"layer": layer, "head": head, "position": position, "token": token, "share": count / tally.sequences}
        for layer, _, tally in measured
        for (head, position, token), count in tally.sinks.items()
    ]
    columns = ["layer", "head", "position", "token", "share"]
    order = ["share", "layer", "head", "position"]
    table = pandas.DataFrame(rows, columns=columns)
    layers = table.groupby(["position", "token"])["layer"]
    table["first_layer"], table["last_layer"] = layers.transform("min"), layers.transform("max")
    return table.sort_values(order, ascending=[False, True, True, True], ignore_index=True)
