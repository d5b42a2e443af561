"""Where the text of a probe is cut, for one kind of model.

A causal model reads sequences of exactly T tokens, without padding. A model that sees both sides reads separate texts,
those of a JSONL file or else paragraphs, cut at T tokens and padded. An encoder–decoder reads the first half of a
sequence and predicts the second.

What is measured does not depend on whether something is also fitted: text to fit on is cut from what is left over.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from softmaxlab.core.random import generator
from softmaxlab.errors import SpecError
from softmaxlab.probing.models import corpora
from softmaxlab.probing.models.corpora import BLANK, Bos, Corpus
from softmaxlab.probing.models.load import Loaded

PROSE = 20  # words that make a paragraph worth reading
Row = dict[str, Tensor]  # model inputs of one sequence [T], or of a batch [B, T]


@dataclass(frozen=True)
class Wanted:
    """How much text, and how it is cut."""

    length: int | None
    samples: int
    bos: Bos
    seed: int
    batch_size: int
    calibration: bool  # as many sequences again, if there are, that do not overlap with what is measured


def cut(loaded: Loaded, corpus: Corpus, length: int, wanted: Wanted, causal: bool) -> tuple[list[Row], list[Row]]:
    """Sequences to measure, and others to fit on; each as inputs without a batch axis."""
    if loaded.kind == "seq2seq":
        parts = _pieces(loaded, corpus, 2 * length, wanted)
        measured, spare = ([{"input_ids": ids[:length], "labels": ids[length:]} for ids in part] for part in parts)
    elif causal:
        measured, spare = ([{"input_ids": ids} for ids in part] for part in _pieces(loaded, corpus, length, wanted))
    else:
        measured, spare = _paragraphs(loaded, corpus, length, wanted)
    if wanted.calibration and not spare:
        raise SpecError(
            f"text {corpus.name!r} has no room for a sequence to fit on beside {wanted.samples} to measure: "
            "give more text, or ask for fewer or shorter sequences"
        )
    return measured, spare


def _pieces(loaded: Loaded, corpus: Corpus, length: int, wanted: Wanted) -> tuple[list[Tensor], list[Tensor]]:
    measured = corpora.sequences(loaded.tokenizer, corpus, length, wanted.samples, wanted.bos, wanted.seed)
    if not wanted.calibration:
        return measured, []
    before, after = (torch.tensor(ids, dtype=torch.long) for ids in corpora.around(loaded.special, wanted.bos))
    ids = torch.tensor(loaded.tokenizer(BLANK.join(corpus), add_special_tokens=False, verbose=False).input_ids)
    body = length - len(before) - len(after)
    starts = _between(corpora.starts(len(ids), body, wanted.samples, wanted.seed), body, len(ids))
    order = generator(wanted.seed, "calibration").permutation(len(starts))[: wanted.samples]
    return measured, [torch.cat([before, ids[starts[i] : starts[i] + body], after]) for i in order]


def _between(taken: list[int], body: int, end: int) -> list[int]:
    """Where pieces of `body` tokens fit before, between and behind those that are taken."""
    gaps = zip([0, *(start + body for start in taken)], [*taken, end])
    return [start for begin, stop in gaps for start in range(begin, stop - body + 1, body)]


def _paragraphs(loaded: Loaded, corpus: Corpus, length: int, wanted: Wanted) -> tuple[list[Row], list[Row]]:
    parts = corpus.texts if len(corpus.texts) > 1 else corpus.paragraphs()
    texts = [part for part in parts if len(part.split()) >= PROSE]
    count = wanted.samples
    if len(texts) < count:
        raise SpecError(f"text {corpus.name!r} has {len(texts)} paragraphs of {PROSE} words, expected {count} or more")
    places = generator(wanted.seed, "paragraphs").permutation(len(texts))[: 2 * count if wanted.calibration else count]
    batches = corpora.batches(loaded.tokenizer, [texts[int(i)] for i in places], length, 1)
    rows = [{name: value[0] for name, value in batch.items()} for batch in batches]
    return rows[:count], rows[count:]
