"""The text of a probe, cut into batches of one model's inputs.

A causal model reads sequences of exactly T tokens, without padding. A model that sees both sides reads separate texts,
those of a JSONL file or else paragraphs, cut at T tokens and padded. An encoder–decoder reads the first half of a
sequence and predicts the second.

What is measured does not depend on whether something is also fitted: text to fit on is cut from what is left over.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from softmaxlab.core.random import generator
from softmaxlab.errors import SpecError
from softmaxlab.probing import text as texts
from softmaxlab.probing.inference import longest
from softmaxlab.probing.load import Loaded
from softmaxlab.probing.streaming.eager import eager_sites
from softmaxlab.probing.streaming.sites import root, text_sites
from softmaxlab.probing.text import BLANK, Bos, Corpus

DEFAULT_LENGTH = 512  # tokens, unless the options or the model's positions say otherwise
PREFIX_LENGTH = 64  # tokens of each sequence on which the measurement is checked against eager attention
PARAGRAPH_WORDS = 20  # words that make a paragraph worth reading
Row = dict[str, Tensor]  # model inputs of one sequence [T], or of a batch [B, T]


@dataclass(frozen=True)
class SamplingOptions:
    """The amount of text that is read, and how it is cut."""

    length: int | None
    samples: int
    bos: Bos
    seed: int
    batch_size: int
    calibration: bool  # cut as many sequences again, if there are, that do not overlap with what is measured


@dataclass(frozen=True)
class ProbeInputs:
    """Batches of model inputs; `lengths` are those of their sequences, padding not counted."""

    batches: list[Row]
    calibration: list[Row]  # sequences that are not measured
    first: Row  # the first sequence, without padding
    prefix: Row  # a batch of the first PREFIX_LENGTH tokens of the first sequences
    length: int
    lengths: list[int]
    calibration_lengths: list[int]
    token_0: str  # a sentence on the first token of every sequence
    uniform_sink: dict[str, float]  # kind of layer → sink score of uniform attention

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    @property
    def amount(self) -> str:
        """Return in words how much text is measured."""
        return _amount(self.lengths, self.length)

    @property
    def calibration_amount(self) -> str:
        """Return in words how much text is fitted on."""
        return _amount(self.calibration_lengths, self.length)

    def has_same_tokens(self, other: "ProbeInputs") -> bool:
        """Whether two models read the same tokens, so that their losses compare."""
        pairs = zip(self.batches, other.batches)
        return all(torch.equal(one["input_ids"], two["input_ids"]) for one, two in pairs)


def sample_inputs(loaded: Loaded, corpus: Corpus, options: SamplingOptions) -> ProbeInputs:
    """Cut a text for a model; raise a SpecError if the model cannot read it."""
    main = root(loaded.model).main_input_name
    if loaded.tokenizer is None or main != "input_ids":
        raise SpecError(f"model {loaded.name!r} reads {main}, not text: run it inside softmaxlab.probing.watch(model)")
    if isinstance(getattr(root(loaded.model), "logit_scale", None), torch.nn.Parameter):  # CLIP, SigLIP
        raise SpecError(
            f"model {loaded.name!r} compares texts with images, and images are not read here: run it inside "
            "softmaxlab.probing.watch(model)"
        )
    causal = _is_causal(loaded)
    length = _length(loaded.model, options.length)
    _check_bos(loaded, options, any(causal))
    measured, spare = cut(loaded, corpus, length, options, all(causal))
    prefixes = [{name: value[:PREFIX_LENGTH] for name, value in row.items()} for row in measured]
    groups = (measured, spare, measured[:1], prefixes)
    batches, calibration, first, prefix = (_batches(loaded, rows, options.batch_size) for rows in groups)
    lengths, spare_lengths = (
        [int(row.get("attention_mask", row["input_ids"]).shape[-1]) for row in rows] for rows in (measured, spare)
    )
    return ProbeInputs(
        batches,
        calibration,
        first[0],
        prefix[0],
        length,
        lengths,
        spare_lengths,
        texts.token_0(loaded.tokenizer, options.bos),
        _uniform_sink(causal, lengths),
    )


def cut(
    loaded: Loaded, corpus: Corpus, length: int, options: SamplingOptions, causal: bool
) -> tuple[list[Row], list[Row]]:
    """Return sequences to measure, and others to fit on; each as inputs without a batch axis."""
    if loaded.kind == "seq2seq":
        parts = _pieces(loaded, corpus, 2 * length, options)
        measured, spare = ([{"input_ids": ids[:length], "labels": ids[length:]} for ids in part] for part in parts)
    elif causal:
        measured, spare = ([{"input_ids": ids} for ids in part] for part in _pieces(loaded, corpus, length, options))
    else:
        measured, spare = _paragraphs(loaded, corpus, length, options)
    if options.calibration and not spare:
        raise SpecError(
            f"text {corpus.name!r} has no room for a sequence to fit on beside {options.samples} to measure: "
            "give more text, or ask for fewer or shorter sequences"
        )
    return measured, spare


def _pieces(loaded: Loaded, corpus: Corpus, length: int, options: SamplingOptions) -> tuple[list[Tensor], list[Tensor]]:
    measured = texts.sequences(loaded.tokenizer, corpus, length, options.samples, options.bos, options.seed)
    if not options.calibration:
        return measured, []
    before, after = (torch.tensor(ids, dtype=torch.long) for ids in texts.around(loaded.special, options.bos))
    ids = torch.tensor(loaded.tokenizer(BLANK.join(corpus), add_special_tokens=False, verbose=False).input_ids)
    body = length - len(before) - len(after)
    starts = _free_starts(texts.starts(len(ids), body, options.samples, options.seed), body, len(ids))
    order = generator(options.seed, "calibration").permutation(len(starts))[: options.samples]
    return measured, [torch.cat([before, ids[starts[i] : starts[i] + body], after]) for i in order]


def _free_starts(taken: list[int], body: int, end: int) -> list[int]:
    """Return where pieces of `body` tokens fit before, between and behind those that are taken."""
    gaps = zip([0, *(start + body for start in taken)], [*taken, end])
    return [start for begin, stop in gaps for start in range(begin, stop - body + 1, body)]


def _paragraphs(loaded: Loaded, corpus: Corpus, length: int, options: SamplingOptions) -> tuple[list[Row], list[Row]]:
    parts = corpus.texts if len(corpus.texts) > 1 else corpus.paragraphs()
    long = [part for part in parts if len(part.split()) >= PARAGRAPH_WORDS]
    count = options.samples
    if len(long) < count:
        raise SpecError(
            f"text {corpus.name!r} has {len(long)} paragraphs of {PARAGRAPH_WORDS} words, expected {count} or more"
        )
    order = generator(options.seed, "paragraphs").permutation(len(long))[: 2 * count if options.calibration else count]
    batches = texts.batches(loaded.tokenizer, [long[int(i)] for i in order], length, 1)
    rows = [{name: value[0] for name, value in batch.items()} for batch in batches]
    return rows[:count], rows[count:]


def _amount(lengths: list[int], length: int) -> str:
    if set(lengths) == {length}:
        return f"{len(lengths)} × {length} tokens"
    return f"{len(lengths)} texts of at most {length} tokens, {sum(lengths)} in all,"


def _check_bos(loaded: Loaded, options: SamplingOptions, causal: bool) -> None:
    if not causal and options.bos != "auto":
        raise SpecError(
            f"--bos {options.bos} is for causal models; {loaded.name!r} reads texts as its tokenizer has them"
        )
    if options.bos == "yes" and not loaded.special.before and loaded.special.bos_id is None:
        raise SpecError(f"--bos yes: the tokenizer of {loaded.name!r} has no BOS token, expected --bos auto or no")


def _length(model: nn.Module, length: int | None) -> int:
    limit = longest(model)
    if length is None:
        return DEFAULT_LENGTH if limit is None else min(DEFAULT_LENGTH, limit)
    if limit is not None and length > limit:
        raise SpecError(f"--length {length} is more than the model can run: it has {limit} positions")
    return length


def _is_causal(loaded: Loaded) -> list[bool]:
    """Whether the queries of each layer see only what came before."""
    is_decoder = loaded.kind in ("causal", "multimodal")
    return [bool(getattr(site.module, "is_causal", is_decoder)) for site in text_sites(eager_sites(loaded.model))]


def _batches(loaded: Loaded, rows: list[Row], size: int) -> list[Row]:
    groups = [rows[i : i + size] for i in range(0, len(rows), size)]
    fill = {"input_ids": loaded.tokenizer.pad_token_id or 0}
    left = loaded.tokenizer.padding_side == "left"
    return [
        {name: _padded([row[name] for row in group], fill.get(name, 0), left) for name in group[0]} for group in groups
    ]


def _padded(rows: list[Tensor], fill: int, left: bool) -> Tensor:
    width = max(map(len, rows))
    pads = ((width - len(row), 0) if left else (0, width - len(row)) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, pad, value=fill) for row, pad in zip(rows, pads)])


def _uniform_sink(causal: list[bool], lengths: list[int]) -> dict[str, float]:
    """Mean weight on the first token if all visible keys had the same: H_T/T = (1/T) Σ 1/i; seeing both sides, 1/T."""
    harmonic = sum(sum(1 / i for i in range(1, length + 1)) for length in lengths)
    scores = {"causal": harmonic / sum(lengths), "both sides": len(lengths) / sum(lengths)}
    return {name: score for name, score in scores.items() if (name == "causal") in causal}
