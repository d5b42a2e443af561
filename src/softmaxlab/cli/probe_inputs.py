"""The texts of a probe as inputs of one model.

A causal model reads sequences of exactly T tokens, without padding. A model that sees both sides reads separate texts,
those of a JSONL file or else paragraphs, cut at T tokens and padded. An encoder–decoder reads the first half of a
sequence and predicts the second.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from softmaxlab.core.random import generator
from softmaxlab.errors import SpecError
from softmaxlab.probing.models import corpora
from softmaxlab.probing.models.corpora import Bos, Corpus
from softmaxlab.probing.models.load import Loaded
from softmaxlab.probing.streaming.eager import eager_sites
from softmaxlab.probing.streaming.sites import root

LENGTH = 512  # tokens, unless asked otherwise or the model takes fewer
BEGINNING = 64  # tokens
PROSE = 20  # words that make a paragraph worth reading


@dataclass(frozen=True)
class Wanted:
    """How much text, and how it is cut."""

    length: int | None
    samples: int
    bos: Bos
    seed: int
    batch_size: int
    calibration: bool  # as many sequences again that do not overlap, to fit what is then measured


@dataclass(frozen=True)
class Inputs:
    """Batches of model inputs; `lengths` of their sequences, padding not counted."""

    batches: list[dict[str, Tensor]]
    calibration: list[dict[str, Tensor]]
    first: dict[str, Tensor]  # the first sequence, without padding
    beginning: dict[str, Tensor]  # a batch of the first BEGINNING tokens of the first sequences
    length: int
    lengths: list[int]
    token_0: str
    uniform: dict[str, float]  # kind of layer → sink score of uniform attention

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    @property
    def amount(self) -> str:
        """How much text, in words."""
        if set(self.lengths) == {self.length}:
            return f"{len(self.lengths)} × {self.length} tokens"
        return f"{len(self.lengths)} texts of at most {self.length} tokens, {self.tokens} in all,"


def inputs(loaded: Loaded, corpus: Corpus, wanted: Wanted) -> Inputs:
    """Cut the text for a model; refuses what it cannot read."""
    main = root(loaded.model).main_input_name
    if loaded.tokenizer is None or main != "input_ids":
        raise SpecError(f"model {loaded.name!r} reads {main}, not text: run it inside softmaxlab.probing.watch(model)")
    causal = _causal(loaded)
    length, count = _length(loaded.model, wanted.length), wanted.samples * (2 if wanted.calibration else 1)
    if not any(causal) and wanted.bos != "auto":
        raise SpecError(
            f"bos={wanted.bos!r} is for causal models; {loaded.name!r} reads texts as its tokenizer has them"
        )
    rows = _rows(loaded, corpus, length, count, wanted, all(causal))
    order = generator(wanted.seed, "calibration").permutation(count) if wanted.calibration else range(count)
    chosen = [rows[int(i)] for i in order]
    measured, spare = chosen[: wanted.samples], chosen[wanted.samples :]
    lengths = [int(row.get("attention_mask", row["input_ids"]).shape[-1]) for row in measured]
    said = corpora.token_0(loaded.tokenizer, wanted.bos)
    short = [{name: value[:BEGINNING] for name, value in row.items()} for row in measured]
    parts = [_batched(loaded, rows, wanted.batch_size) for rows in (measured, spare, measured[:1], short)]
    batches, calibration, first, beginning = parts
    uniform = _uniform(causal, lengths)
    return Inputs(batches, calibration, first[0], beginning[0], length, lengths, said, uniform)


def longest(model: nn.Module) -> int | None:
    """How many tokens a model can run; None if nothing in it says so."""
    top = root(model)
    limit = getattr(top.config.get_text_config(), "max_position_embeddings", None)
    for name, module in top.named_modules():  # RoBERTa counts positions from behind its padding index
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            limit = module.num_embeddings - module.padding_idx - 1
    return limit


def _length(model: nn.Module, asked: int | None) -> int:
    limit = longest(model)
    if asked is None:
        return LENGTH if limit is None else min(LENGTH, limit)
    if limit is not None and asked > limit:
        raise SpecError(f"length {asked} is more than the model can run: it has {limit} positions")
    return asked


def _causal(loaded: Loaded) -> list[bool]:
    """Of each layer whether its queries see only what came before."""
    sites = [site for site in eager_sites(loaded.model) if not site.cross]
    return [bool(getattr(site.module, "is_causal", loaded.kind == "causal")) for site in sites]


def _rows(
    loaded: Loaded, corpus: Corpus, length: int, count: int, wanted: Wanted, causal: bool
) -> list[dict[str, Tensor]]:
    """`count` sequences, each as inputs of a batch of one."""
    if loaded.kind == "seq2seq":
        found = corpora.sequences(loaded.tokenizer, corpus, 2 * length, count, wanted.bos, wanted.seed)
        return [{"input_ids": ids[:length], "labels": ids[length:]} for ids in found]
    if causal:
        found = corpora.sequences(loaded.tokenizer, corpus, length, count, wanted.bos, wanted.seed)
        return [{"input_ids": ids} for ids in found]
    texts = _texts(corpus)
    if len(texts) < count:
        raise SpecError(f"text {corpus.name!r} has {len(texts)} paragraphs of {PROSE} words, expected {count} or more")
    places = generator(wanted.seed, "paragraphs").choice(len(texts), count, replace=False)
    batches = corpora.batches(loaded.tokenizer, [texts[int(i)] for i in places], length, 1)
    return [{name: value[0] for name, value in batch.items()} for batch in batches]


def _texts(corpus: Corpus) -> list[str]:
    parts = corpus.texts if len(corpus.texts) > 1 else corpus.paragraphs()
    return [part for part in parts if len(part.split()) >= PROSE]


def _batched(loaded: Loaded, rows: list[dict[str, Tensor]], size: int) -> list[dict[str, Tensor]]:
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


def _uniform(causal: list[bool], lengths: list[int]) -> dict[str, float]:
    """Mean weight on the first token if all visible keys had the same: H_T/T = (1/T) Σ 1/i; seeing both sides, 1/T."""
    harmonic = sum(sum(1 / i for i in range(1, length + 1)) for length in lengths)
    scores = {"causal": harmonic / sum(lengths), "both sides": len(lengths) / sum(lengths)}
    return {name: score for name, score in scores.items() if (name == "causal") in causal}
