"""Summaries of the tables of one model: by head, by layer, in one row, and as the curves that pictures show."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from softmaxlab.measure.thresholds import DORMANT_OUTPUT, SINK
from softmaxlab.probing.definitions import DEFINITIONS
from softmaxlab.probing.heads import HeadTables
from softmaxlab.probing.next_token_loss import Change, Loss
from softmaxlab.probing.recommendations import is_dormant

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
MEANS = ("sink", "sparsity", "entropy", "total")


@dataclass(frozen=True)
class Subject:
    """A model, or a changed model, as it was measured; `change` is that of its loss against the first subject."""

    label: str
    tables: HeadTables
    change: Change | None = None

    @property
    def loss(self) -> Loss | None:
        return self.tables.loss


def sink_thresholds(eps: float) -> dict[str, float]:
    """The columns that count sink heads: above ε, and above the polarization paper's threshold."""
    return {f"sink>{bound:g}": bound for bound in (eps, SINK)}


def sink_counts(tables: HeadTables, eps: float) -> dict[float, int]:
    """Threshold → how many heads have a sink score above it."""
    sink: Any = tables.heads["sink"]
    return {bound: int((sink > bound).sum()) for bound in sink_thresholds(eps).values()}


def heads_table(tables: HeadTables) -> pandas.DataFrame:
    """Every head, and whether it is dormant; None where its output is not known."""
    heads: Any = tables.heads
    known = is_dormant(heads, tables.eps).astype(object).where(heads["sink_output"].notna(), None)
    table = heads.copy()
    table.insert(list(heads.columns).index("queries") if "queries" in heads else len(heads.columns), "dormant", known)
    return table


def layers_table(tables: HeadTables, eps: float) -> pandas.DataFrame:
    """One row per layer: means over its heads, how many of them are sinks, and the largest activation after it."""
    heads: Any = tables.heads
    means = heads.drop(columns=["head", "module"]).groupby("layer").mean()
    sinks = heads.groupby("layer")["sink"]
    table = means.assign(heads=sinks.size())
    for name, bound in sink_thresholds(eps).items():
        table[name] = sinks.agg(lambda sink, bound=bound: int((sink > bound).sum()))
    table["top"] = tables.activations.set_index("layer")["top"].reindex(table.index)
    return table.reset_index()


def summary(subject: Subject, eps: float) -> dict[str, Any]:
    """A subject in one row: means over heads, shares of sink heads, quantiles, loss and what the change costs."""
    heads: Any = subject.tables.heads
    top = subject.tables.activations["top"]
    row: dict[str, Any] = {"subject": subject.label, "heads": len(heads)}
    row |= {name: heads[name].mean() for name in MEANS if name in heads}
    row |= {"share_above_eps": (heads["sink"] > eps).mean(), "share_above_0.9": (heads["sink"] > SINK).mean()}
    row |= {"sink_sequences": heads["sink_sequences"].mean(), "top": top.max() if len(top) else math.nan}
    row |= {"sink_quantiles": {f"{q:g}": heads["sink"].quantile(q) for q in QUANTILES}}
    loss, change = subject.loss, subject.change
    row["loss"] = None if loss is None else {"mean": loss.mean, "se": loss.se, "sequences": len(loss.n)}
    row["loss_change"] = None if change is None else {"mean": change.mean, "se": change.se, "said": str(change)}
    return row


def column_definitions(eps: float) -> dict[str, str]:
    """The meaning of the columns of all tables."""
    counts = {name: f"heads with a sink score above {bound:g}" for name, bound in sink_thresholds(eps).items()}
    own = {
        "ε": f"mean weight above which a key is called a sink, here {eps:g}",
        **counts,
        "dormant": (
            f"sink above ε and sink_output above {DORMANT_OUTPUT:g}: the head gives mostly the first token's value"
        ),
        "top": "largest |h| of the hidden state after the layer, at the given position and dimension",
        "loss": "−log p of the next token in nats, mean over tokens; its error takes sequences as independent",
        "Δloss": "loss of a change minus that of the model as it is, paired over the same sequences",
    }
    return {**DEFINITIONS, **own}


def entropy_range(tables: HeadTables) -> pandas.DataFrame:
    """Mean, min and max of the entropy over the heads of each layer."""
    entropy: Any = tables.heads.groupby("layer")["entropy"]
    return entropy.agg(["mean", "min", "max"])


def mean_profiles(tables: HeadTables, eps: float) -> tuple[pandas.Series | None, pandas.Series | None]:
    """Mean weight by position over the sink heads (above ε), and over the other heads; None where there are none."""
    profile: Any = tables.profile
    sink = tables.heads.set_index(["layer", "head"])["sink"]
    is_sink = sink.reindex(list(zip(profile["layer"], profile["head"]))).to_numpy() > eps
    groups = (profile[chosen] for chosen in (is_sink, ~is_sink))
    sinks, others = (part.groupby("position")["weight"].mean() if len(part) else None for part in groups)
    return sinks, others


def uniform_profile(T: int) -> tuple[np.ndarray, np.ndarray]:
    """α_k = (H_T − H_k)/(T − k) for k = 0 … T − 1: the mean of 1/i over the queries i > k that see key k."""
    inverse = 1 / np.arange(1, T + 1)
    tail = inverse[::-1].cumsum()[::-1]
    return np.arange(T), tail / np.arange(T, 0, -1)
