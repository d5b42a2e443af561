"""What to do about it: a report in three lines.

A head is dormant if its sink takes more than ε of its weight and most of its output: what it then gives is the first
token's value, the same for every query. An activation is massive above 100 and 1000 times the median of its layer
(Sun et al. 2024).
"""

from collections import Counter
from collections.abc import Callable, Iterable

import pandas

from softmaxlab.probing.probe import Findings

MASSIVE, MASSIVE_RATIO = 100.0, 1000.0
DORMANT = 0.5  # share of the output
OFTEN = 0.5  # a key is kept if it is a sink in this share of the sequences


def conclusions(found: Findings, token: Callable[[int], str] | None = None) -> list[str]:
    """Three sentences: what to keep in a cache, where activations are massive, which heads are dormant."""
    return [_keep(found, token), _massive(found.activations, token), _dormant(found.heads, found.eps)]


def kept_positions(sinks: pandas.DataFrame) -> dict[int, int]:
    """Positions that are a sink in most sequences, and of how many heads: for a cache's policy."""
    shares: Counter[tuple[int, int, int]] = Counter()
    for row in sinks.to_dict("records"):
        shares[row["position"], row["layer"], row["head"]] += row["share"]
    heads = Counter(position for (position, _, _), share in shares.items() if share > OFTEN)
    return dict(sorted(heads.items()))


def sink_tokens(sinks: pandas.DataFrame) -> list[int]:
    """Tokens that are sinks, the most frequent first."""
    shares: Counter[int] = Counter()
    for row in sinks.to_dict("records"):
        shares[row["token"]] += row["share"]
    return [token for token, _ in shares.most_common()]


def dormant(heads: pandas.DataFrame, eps: float) -> pandas.DataFrame:
    """Heads whose output is mostly their sink's value."""
    return heads.loc[(heads["sink"] > eps) & (heads["sink_output"] > DORMANT), ["layer", "head", "sink", "sink_output"]]


def massive(activations: pandas.DataFrame) -> pandas.DataFrame:
    """Layers after which some activation is massive."""
    return activations.loc[(activations["top"] > MASSIVE) & (activations["ratio"] > MASSIVE_RATIO), :]


def _keep(found: Findings, token: Callable[[int], str] | None) -> str:
    if found.profile.empty:
        return "KV cache: not known, the fast statistics leave out which keys are sinks."
    if found.sinks.empty:
        return f"KV cache: no key is a sink (mean weight > {found.eps:g}) of any head, so none must be kept."
    kept, later = kept_positions(found.sinks), found.sinks.query("position > 0")
    tokens = ", ".join(_named(id, token) for id in sink_tokens(later)[:4])
    rest = f"behind position 0 some sequences have sinks at {tokens}" if len(later) else "no other position is a sink"
    if not kept:
        return f"KV cache: no position is a sink in most sequences; {rest}."
    places = ", ".join(f"{position} ({heads} heads)" for position, heads in list(kept.items())[:4])
    return f"KV cache: keep position {places}; {rest}."


def _massive(activations: pandas.DataFrame, token: Callable[[int], str] | None) -> str:
    if activations.empty:
        return "Massive activations: not known, no layer was measured."
    found = massive(activations)
    if found.empty:
        top = activations.loc[activations["top"].idxmax()]
        where = f"largest |h| {top['top']:.4g}, {top['ratio']:.3g} times the median, after layer {top['layer']}"
        return f"Massive activations: none ({where})."
    top = found.loc[found["top"].idxmax()]
    where = f"position {top['position']} ({_named(int(top['token']), token)}), dimension {top['dimension']}"
    layers = f"after layers {_ranges(found['layer'])}"
    return f"Massive activations: {layers}, largest |h| {top['top']:,.0f} after layer {top['layer']} at {where}."


def _ranges(layers: Iterable[int]) -> str:
    """2, 11–28 for those layers."""
    runs: list[list[int]] = []
    for layer in sorted({int(layer) for layer in layers}):
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _dormant(heads: pandas.DataFrame, eps: float) -> str:
    found = dormant(heads, eps)
    if found.empty:
        return "Dormant heads: none whose output is mostly the first token's value."
    layers = [f"{layer}.{','.join(map(str, rows['head']))}" for layer, rows in found.groupby("layer")]
    shown = " ".join(layers[:12]) + (" …" if len(layers) > 12 else "")
    return f"Dormant heads: {len(found)} of {len(heads)} give mostly the first token's value (layer.heads): {shown}."


def _named(id: int, token: Callable[[int], str] | None) -> str:
    return f"{token(id)!r}" if token is not None and id >= 0 else f"#{id}"
