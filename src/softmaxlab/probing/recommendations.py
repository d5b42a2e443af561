"""Three recommendations from the tables of a model: what to keep in a cache, where to expect trouble, what to remove.

A head is dormant if its sink takes more than ε of its weight and most of its output: what it then gives is the first
token's value, the same for every query. An activation is massive above 100 and 1000 times the median of its layer
(Sun et al. 2024). All thresholds are in measure/thresholds.py.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pandas

from softmaxlab.measure.thresholds import DORMANT_OUTPUT, MASSIVE, MASSIVE_RATIO, SINK_FREQUENCY
from softmaxlab.probing.heads import HeadTables

SHOWN_TOKENS, SHOWN_POSITIONS, SHOWN_LAYERS = 4, 4, 12  # how many of each a sentence names
TokenText = Callable[[int], str]  # token id → its text


def recommendations(tables: HeadTables, token_text: TokenText | None = None) -> list[str]:
    """Return three sentences: what to keep in a cache, where activations are massive, which heads are dormant."""
    return [
        _cache_sentence(tables, token_text),
        _massive_sentence(tables.activations, token_text),
        _dormant_sentence(tables.heads, tables.eps),
    ]


def kept_positions(sinks: pandas.DataFrame) -> dict[int, int]:
    """Positions that are a sink in most sequences → how many heads: for a cache's policy."""
    shares: Counter[tuple[int, int, int]] = Counter()
    for row in sinks.to_dict("records"):
        shares[row["position"], row["layer"], row["head"]] += row["share"]
    heads = Counter(position for (position, _, _), share in shares.items() if share > SINK_FREQUENCY)
    return dict(sorted(heads.items()))


def sink_tokens(sinks: pandas.DataFrame) -> list[int]:
    """Return the tokens that are sinks, the most frequent first."""
    shares: Counter[int] = Counter()
    for row in sinks.to_dict("records"):
        shares[row["token"]] += row["share"]
    return [token for token, _ in shares.most_common()]


def is_dormant(heads: Any, eps: float) -> pandas.Series:
    """Whether each head is dormant: its output is mostly its sink's value."""
    return (heads["sink"] > eps) & (heads["sink_output"] > DORMANT_OUTPUT)


def dormant(heads: pandas.DataFrame, eps: float) -> pandas.DataFrame:
    """Return the dormant heads: layer, head, sink, sink_output."""
    return heads.loc[is_dormant(heads, eps), ["layer", "head", "sink", "sink_output"]]


def massive_threshold(median: Any) -> Any:
    """The |h| above which an activation is massive, from the median |h| of its layer."""
    return (MASSIVE_RATIO * median).clip(lower=MASSIVE)


def massive(activations: pandas.DataFrame) -> pandas.DataFrame:
    """Return the layers after which some activation is massive."""
    return activations.loc[(activations["top"] > MASSIVE) & (activations["ratio"] > MASSIVE_RATIO), :]


def _cache_sentence(tables: HeadTables, token_text: TokenText | None) -> str:
    if tables.profile.empty:
        return "KV cache: not known, because the fast statistics leave out which keys are sinks."
    if tables.sinks.empty:
        return f"KV cache: no key is a sink (mean weight > {tables.eps:g}) of any head, so no key must be kept."
    kept, later = kept_positions(tables.sinks), tables.sinks.query("position > 0")
    tokens = ", ".join(_name(id, token_text) for id in sink_tokens(later)[:SHOWN_TOKENS])
    rest = f"behind position 0 some sequences have sinks at {tokens}" if len(later) else "no other position is a sink"
    if not kept:
        return f"KV cache: no position is a sink in most sequences; {rest}."
    positions = ", ".join(f"{position} ({heads} heads)" for position, heads in list(kept.items())[:SHOWN_POSITIONS])
    return f"KV cache: keep position {positions}; {rest}."


def _massive_sentence(activations: pandas.DataFrame, token_text: TokenText | None) -> str:
    if activations.empty:
        return "Massive activations: not known, because no layer was measured."
    layers = massive(activations)
    unseen = activations.attrs.get("unseen", [])
    if layers.empty and unseen:
        return (
            f"Massive activations: not known, {len(unseen)} layers were not seen ({ranges(unseen)}); none after others."
        )
    if layers.empty:
        top = activations.loc[activations["top"].idxmax()]
        where = f"largest |h| {top['top']:.4g}, {top['ratio']:.3g} times the median, after layer {top['layer']}"
        return f"Massive activations: none ({where})."
    top = layers.loc[layers["top"].idxmax()]
    where = f"position {top['position']} ({_name(int(top['token']), token_text)}), dimension {top['dimension']}"
    after = f"after layers {ranges(layers['layer'])}"
    return f"Massive activations: {after}, largest |h| {top['top']:,.0f} after layer {top['layer']} at {where}."


def ranges(layers: Iterable[int]) -> str:
    """Write layers 2, 11, 12, …, 28 as "2, 11–28"."""
    runs: list[list[int]] = []
    for layer in sorted({int(layer) for layer in layers}):
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _dormant_sentence(heads: pandas.DataFrame, eps: float) -> str:
    chosen, known = dormant(heads, eps), heads["sink_output"].notna() if "sink_output" in heads else []
    if not any(known):
        return "Dormant heads: not known, because the outputs of the heads were not measured."
    if chosen.empty:
        rest = "" if all(known) else f"; not known for {len(known) - sum(known)} of {len(known)} heads"
        return f"Dormant heads: none whose output is mostly the first token's value{rest}."
    layers = [f"{layer}.{','.join(map(str, rows['head']))}" for layer, rows in chosen.groupby("layer")]
    shown = " ".join(layers[:SHOWN_LAYERS]) + (" …" if len(layers) > SHOWN_LAYERS else "")
    return f"Dormant heads: {len(chosen)} of {len(heads)} give mostly the first token's value (layer.heads): {shown}."


def _name(id: int, token_text: TokenText | None) -> str:
    return f"{token_text(id)!r}" if token_text is not None and id >= 0 else f"#{id}"
