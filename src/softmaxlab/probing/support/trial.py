"""Try to measure one architecture, built tiny, and compare with the weights that its own eager attention returns.

A trial runs texts without padding, padded on the left and on the right. It works if every head's sparsity, sink score
and entropy are those of the eager weights, computed here by their definitions, and the logits are the same with and
without us. A model may be refused by name; it may not be silently different.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from softmaxlab.errors import SpecError
from softmaxlab.probing.streaming.eager import eager_attention, lacks_learned_sink
from softmaxlab.probing.support.tiny import first_sentence, tiny_models
from softmaxlab.probing.watch import watch

TOLERANCE = 1e-5  # of statistics, and of logits relative to the largest
SAME = 1e-3  # of logits relative to the largest: two ways to compute one attention agree far more closely
SEQUENCES, TOKENS, PADS = 2, 20, 6
DECODED = 11  # tokens of an encoder–decoder's decoder
PADDINGS = ("none", "right", "left")
COMPARED = ("sparsity", "sink", "entropy")
SHARES = COMPARED[:2]  # of a row's total: what weights without a learned sink still tell
WORKS, EAGER, REFUSED, NOT_BUILT = "works", "eager only", "refused", "not built"
WRONG, ERROR = "WRONG", "ERROR"


@dataclass
class Trial:
    """The outcome of trying an architecture; differences are the largest over heads, statistics and paddings."""

    kind: str
    model_type: str
    class_name: str
    verdict: str
    reason: str = ""
    statistics: float | None = None  # None: its own eager attention returns no weights to compare with
    logits: float | None = None

    @property
    def is_honest(self) -> bool:
        """Whether the model was measured right, or refused, or could not be tried."""
        return self.verdict in (WORKS, EAGER, REFUSED, NOT_BUILT)

    def row(self) -> dict[str, Any]:
        return asdict(self)


def try_architecture(kind: str, model_type: str, class_name: str) -> Trial:
    """Build a tiny model and measure it both ways."""
    trial = Trial(kind, model_type, class_name, NOT_BUILT)
    try:
        model = _runnable(model_type, class_name)
    except SpecError as error:
        trial.reason = first_sentence(error)
        return trial
    for eager in (False, True):
        try:
            trial.statistics, trial.logits, compared = _measure(model, eager)
        except SpecError as error:
            trial.reason = str(error)
            continue
        trial.verdict = EAGER if eager else WORKS
        worst = max(trial.statistics or 0.0, trial.logits)
        if not worst <= TOLERANCE:
            trial.verdict, trial.reason = WRONG, "differs from its own eager attention"
        elif trial.verdict == WORKS and not compared:
            trial.reason = "heads are not compared: eager attention does not return one set of weights for each module"
        elif compared == SHARES:
            trial.reason = "its eager weights lack its learned sink, so entropy is not compared"
        return trial
    trial.verdict = REFUSED
    return trial


def _runnable(model_type: str, class_name: str) -> Any:
    """The first tiny model that attends and reads a text, in float64 if it can; one without attention if none does.

    Eager attention often takes its softmax in float32, where the mask of float64 is −∞ and rows without a key are NaN,
    which spread to every later layer: such a model is tried in float32.
    """
    reason, without_attention = SpecError("no recipe"), None
    for model in tiny_models(model_type, class_name):
        for dtype in (torch.float64, torch.float32):
            try:
                model.to(dtype)
                finite = all(_is_finite(model, _inputs(model, padding)) for padding in PADDINGS)
            except Exception as error:  # any: sizes that do not fit show in many ways
                reason = error
                continue
            if finite and any("Attention" in type(module).__name__ for module in model.modules()):
                return model
            if finite:
                without_attention = without_attention or model
                break
            reason = SpecError("its own logits or eager weights are not finite")
    if without_attention is not None:
        return without_attention
    raise SpecError(f"does not run: {type(reason).__name__}: {first_sentence(reason)}")


def _is_finite(model: Any, batch: dict[str, Tensor]) -> bool:
    logits = _logits(model, batch)
    expected = _expected(model, batch, logits)
    return bool(logits.isfinite().all()) and (expected is None or bool(expected.isfinite().all()))


def _inputs(model: Any, padding: str) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 95, (SEQUENCES, TOKENS), generator=draw)
    batch = {"input_ids": ids}
    if padding != "none":
        mask = torch.ones_like(ids)
        mask[0, slice(-PADS, None) if padding == "right" else slice(0, PADS)] = 0
        batch["attention_mask"] = mask
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = torch.randint(5, 95, (SEQUENCES, DECODED), generator=draw)
    return batch


def _forward(model: Any, batch: dict[str, Tensor], **options: Any) -> Any:
    with torch.no_grad():
        return model(**batch, **options)


def _logits(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Logits [token, …] of the tokens that are not padding."""
    return _of_tokens(_forward(model, batch).logits, batch)


def _of_tokens(logits: Tensor, batch: dict[str, Tensor]) -> Tensor:
    mask = batch.get("attention_mask")
    if mask is not None and logits.shape[:2] == mask.shape:
        return logits[mask.bool()]
    return logits.flatten(0, 1)


def _measure(model: Any, eager: bool) -> tuple[float | None, float, tuple[str, ...]]:
    """Largest difference of statistics from eager weights, of logits from those without us, and which statistics."""
    statistics, moved, compared = 0.0, 0.0, ()
    for padding in PADDINGS:
        batch = _inputs(model, padding)
        plain = _logits(model, batch)
        watcher = watch(model, eager=eager)
        with watcher:
            logits = _logits(model, batch)
        if not torch.equal(_logits(model, batch), plain):
            raise AssertionError("the model was not put back")
        moved = max(moved, ((logits - plain).abs().max() / plain.abs().max()).item())
        expected, measured = _expected(model, batch, plain), watcher.report()
        if len(measured) == 0:
            raise SpecError("no attention was measured: the model called none of its attention modules")
        if expected is not None and len(expected) == len(measured):
            compared = COMPARED[: expected.shape[1]]
            table = torch.tensor(measured[list(compared)].to_numpy(float))
            difference = (table - expected).abs().max().item()
            statistics = max(statistics, math.inf if math.isnan(difference) else difference)
    return (statistics if compared else None), moved, compared


def _expected(model: Any, batch: dict[str, Tensor], logits: Tensor) -> Tensor | None:
    """Statistics [layer and head, COMPARED or SHARES] of the weights that eager attention returns; None without any.

    None also if the model's eager attention has other logits than the one it runs with (PaliGemma without a mask).
    """
    with eager_attention(model):
        try:
            output = _forward(model, batch, output_attentions=True)
        except (TypeError, ValueError, AttributeError):
            return None
    if (_of_tokens(output.logits, batch) - logits).abs().max() > SAME * logits.abs().max():
        return None
    mask = batch.get("attention_mask", torch.ones_like(batch["input_ids"])).bool()
    parts: list[Tensor] = []
    weights: list[Tensor] = []
    for name in ("encoder_attentions", "attentions", "decoder_attentions"):
        for w in getattr(output, name, None) or ():
            if not isinstance(w, Tensor) or w.dim() != 4:
                continue
            queries = mask if name != "decoder_attentions" else torch.ones(w.shape[0], w.shape[2], dtype=torch.bool)
            if queries.shape != (w.shape[0], w.shape[2]) or w.shape[2] != w.shape[3]:
                return None
            weights.append(w)
            parts.append(_statistics(w.double(), queries))
    if not parts:
        return None
    without_sink = any(all(lacks_learned_sink(module, w) for w in weights) for module in model.modules())
    return torch.cat(parts)[:, : len(SHARES) if without_sink else len(COMPARED)]


def _statistics(w: Tensor, queries: Tensor) -> Tensor:
    """Sparsity, sink score and entropy [head, 3] of weights [B, H, T, T], by their definitions."""
    total = w.sum(dim=-1)
    first = queries.int().argmax(dim=-1)  # a key is real if its query is
    sink = torch.stack([w[b, :, :, k] for b, k in enumerate(first)])
    sinks_weight = torch.special.entr((1 - total).clamp(min=0.0))  # a learned sink takes the rest
    rows = (w.amax(dim=-1) / total, sink / total, torch.special.entr(w).sum(dim=-1) + sinks_weight)
    counts = queries[:, None] & (total != 0)  # NaN counts, and is seen
    return torch.stack([torch.where(counts, row, 0).sum(dim=(0, 2)) / counts.sum(dim=(0, 2)) for row in rows], dim=-1)
