"""The texts of a probe as batches of one model's inputs."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from softmaxlab.cli.probe_cut import Row, Wanted, cut
from softmaxlab.errors import SpecError
from softmaxlab.probing.models import corpora
from softmaxlab.probing.models.corpora import Corpus
from softmaxlab.probing.models.load import Loaded
from softmaxlab.probing.running import longest
from softmaxlab.probing.streaming.eager import eager_sites
from softmaxlab.probing.streaming.sites import root

LENGTH = 512  # tokens, unless asked otherwise or the model takes fewer
BEGINNING = 64  # tokens


@dataclass(frozen=True)
class Inputs:
    """Batches of model inputs; `lengths` of their sequences, padding not counted."""

    batches: list[Row]
    calibration: list[Row]  # of sequences that are not measured
    first: Row  # the first sequence, without padding
    beginning: Row  # a batch of the first BEGINNING tokens of the first sequences
    length: int
    lengths: list[int]
    calibration_lengths: list[int]
    token_0: str
    uniform: dict[str, float]  # kind of layer → sink score of uniform attention

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    @property
    def amount(self) -> str:
        """How much text is measured, in words."""
        return _amount(self.lengths, self.length)

    @property
    def calibration_amount(self) -> str:
        """How much text is fitted on, in words."""
        return _amount(self.calibration_lengths, self.length)


def inputs(loaded: Loaded, corpus: Corpus, wanted: Wanted) -> Inputs:
    """Cut the text for a model; refuses what it cannot read."""
    main = root(loaded.model).main_input_name
    if loaded.tokenizer is None or main != "input_ids":
        raise SpecError(f"model {loaded.name!r} reads {main}, not text: run it inside softmaxlab.probing.watch(model)")
    causal = _causal(loaded)
    length = _length(loaded.model, wanted.length)
    _check_bos(loaded, wanted, any(causal))
    measured, spare = cut(loaded, corpus, length, wanted, all(causal))
    short = [{name: value[:BEGINNING] for name, value in row.items()} for row in measured]
    parts = [_batched(loaded, rows, wanted.batch_size) for rows in (measured, spare, measured[:1], short)]
    batches, calibration, first, beginning = parts
    lengths, others = (
        [int(row.get("attention_mask", row["input_ids"]).shape[-1]) for row in rows] for rows in (measured, spare)
    )
    said = corpora.token_0(loaded.tokenizer, wanted.bos)
    uniform = _uniform(causal, lengths)
    return Inputs(batches, calibration, first[0], beginning[0], length, lengths, others, said, uniform)


def _amount(lengths: list[int], length: int) -> str:
    if set(lengths) == {length}:
        return f"{len(lengths)} × {length} tokens"
    return f"{len(lengths)} texts of at most {length} tokens, {sum(lengths)} in all,"


def _check_bos(loaded: Loaded, wanted: Wanted, causal: bool) -> None:
    if not causal and wanted.bos != "auto":
        raise SpecError(
            f"--bos {wanted.bos} is for causal models; {loaded.name!r} reads texts as its tokenizer has them"
        )
    if wanted.bos == "yes" and not loaded.special.before and loaded.special.bos_id is None:
        raise SpecError(f"--bos yes: the tokenizer of {loaded.name!r} has no BOS token, expected --bos auto or no")


def _length(model: nn.Module, asked: int | None) -> int:
    limit = longest(model)
    if asked is None:
        return LENGTH if limit is None else min(LENGTH, limit)
    if limit is not None and asked > limit:
        raise SpecError(f"--length {asked} is more than the model can run: it has {limit} positions")
    return asked


def _causal(loaded: Loaded) -> list[bool]:
    """Of each layer whether its queries see only what came before."""
    sites = [site for site in eager_sites(loaded.model) if not site.cross]
    return [bool(getattr(site.module, "is_causal", loaded.kind == "causal")) for site in sites]


def _batched(loaded: Loaded, rows: list[Row], size: int) -> list[Row]:
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
