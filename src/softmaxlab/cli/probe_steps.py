"""What a probe may do beside measuring: look at patterns, check itself, fold the sink, prune."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmaxlab.cli.probe_asked import Asked
from softmaxlab.cli.probe_inputs import Inputs
from softmaxlab.probing.changes.constants import Constants
from softmaxlab.probing.changes.fold import fold_sink
from softmaxlab.probing.changes.loss import change, loss
from softmaxlab.probing.changes.prefix import Prefix
from softmaxlab.probing.changes.quantise import quantised
from softmaxlab.probing.definitions import EPS
from softmaxlab.probing.models.corpora import Corpus
from softmaxlab.probing.models.load import Loaded
from softmaxlab.probing.probe import Findings, examine
from softmaxlab.probing.running import evaluating, forward
from softmaxlab.probing.streaming.eager import eager_sites, told
from softmaxlab.probing.streaming.sites import Site, root
from softmaxlab.report.probe_record import Record

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4}  # sums of T terms in float32, twenty times the usual difference
HALF_TOLERANCE = 2e-2  # eager attention rounds weights to the model's own eight or eleven bits, ours are float32
COUNTS = ("keys_above", "sink_sequences")  # a weight next to its threshold may fall on either side: shown, not judged
DRAWN = 64  # tokens of a drawn pattern


def check(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs, record: Record) -> None:
    """Compare with the weights that eager attention returns."""
    ours, eager = (_examined(loaded.model, [given.beginning], asked.eps, eager=way) for way in (False, True))
    allowed = TOLERANCE.get(root(loaded.model).dtype, HALF_TOLERANCE)
    rows = _differences("self", ours.heads, eager.heads, allowed) + _differences(
        "cross", ours.cross, eager.cross, allowed
    )
    ok = all(row["ok"] for row in rows if row["ok"] is not None)
    record.parts["check"] = {"tokens": ours.tokens, "allowed": allowed, "ok": ok, "statistics": rows}


def _examined(model: Any, batches: list[dict[str, Tensor]], eps: float, eager: bool) -> Findings:
    found = examine(model, batches, "full", eps, eager)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def _differences(attention: str, ours: Any, eager: Any, allowed: float) -> list[dict[str, Any]]:
    """Of every statistic the largest difference over heads, over the largest value; none where eager does not tell."""
    rows = []
    for name in [name for name in ours.columns if f"{name}_se" in ours] if len(ours) else ():
        a, b = ours[name].to_numpy(float), eager[name].to_numpy(float)
        row = {"attention": attention, "statistic": name, "largest": math.nan, "relative": math.nan, "ok": None}
        if not np.isnan(b).all():
            row["largest"] = float(np.abs(a - b).max())
            row["relative"] = row["largest"] / max(float(np.abs(b).max()), 1e-12)
            row["ok"] = None if name in COUNTS else row["relative"] <= allowed
        rows.append(row)
    return rows


def mitigate(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs, record: Record) -> None:
    """What the sink costs in eight bits, and how much of it goes when the sink is folded away."""
    model, before = loaded.model, record.subjects[0].loss
    folded = fold_sink(model, asked.mitigate, given.calibration, loaded.tokenizer)
    if before is None:
        return
    rows: list[dict[str, Any]] = []

    def add(what: str, **more: Any) -> float:
        cost = change(before, loss(model, given.batches))
        rows.append({"what": what, "loss_change": cost.mean, "se": cost.se, "said": str(cost)} | more)
        return cost.mean

    with folded:
        add(f"float, {asked.mitigate}")
    with quantised(model):
        gap = add("int8 (W8A8, one scale per tensor)")
    with quantised(model), folded:
        left = add(f"int8, {asked.mitigate}")
    closed = (gap - left) / gap if gap > 0 else math.nan
    tokens = [record.token(token) for token in getattr(folded, "tokens", ())]
    told = {"method": asked.mitigate, "rows": rows, "gap_closed": closed, "tokens": tokens}
    record.parts["mitigation"] = told | {"nothing": _nothing(folded, gap)}


def _nothing(folded: Prefix | Constants, gap: float) -> str:
    """Why there is nothing to fold or to close; empty if there is."""
    if isinstance(folded, Constants) and not any(bool(part.heads.any()) for part in folded.constants.values()):
        return f"nothing to fold: no head has a sink score above {EPS:g} on the text fitted on"
    return "" if gap > 0 else "nothing to close: int8 costs this model nothing on this text"


def draw_patterns(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs, record: Record) -> None:
    """The weights of some heads on the first tokens of the first sequence."""
    found: dict[int, Tensor] = {}

    def keep(site: Site, weights: Tensor) -> None:
        if not site.cross:
            found[site.layer] = weights[0].float().cpu()

    batch = {name: value[:, :DRAWN] for name, value in given.first.items()}
    with evaluating(loaded.model), torch.no_grad(), told(loaded.model, eager_sites(loaded.model), keep):
        forward(loaded.model, batch)
    record.pattern_tokens = [record.token(int(id)) for id in batch["input_ids"][0]]
    record.patterns = {f"{layer}.{head}": found[layer][head].numpy() for layer, head in asked.attention}


def prune(asked: Asked, loaded: Loaded, corpus: Corpus, given: Inputs, record: Record) -> None:
    """How alike heads are, and the loss without the least needed; heads are chosen on text that does not judge."""
    from softmaxlab.probing.changes.prune import prune as prune_heads
    from softmaxlab.probing.changes.redundancy import redundancy

    alike: Any = redundancy(loaded.model, given.batches)
    means = {name: float(alike[name].mean()) for name in ("weights", "outputs")}
    record.parts["similarity"] = {"mean": means, "pairs": alike.to_dict("records")}
    curve: Any = prune_heads(loaded.model, given.calibration, asked.prune or 0, judging=given.batches)
    record.parts["pruning"] = curve.astype(object).where(curve.notna(), None).to_dict("records")
