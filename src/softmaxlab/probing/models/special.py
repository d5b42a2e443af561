"""What a tokenizer puts around a text: without its BOS a model may show no sink at all, so it is always said."""

from dataclasses import dataclass
from typing import Any

from softmaxlab.errors import SpecError

WORDS = ("the", "A", "1")  # one of which is in the vocabulary of any language, protein or music


@dataclass(frozen=True)
class Special:
    """The tokens put before and after a text, and the BOS the tokenizer has, used or not."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    first: str | None = None  # the token of before[0]
    bos: str | None = None
    bos_id: int | None = None


def special_tokens(tokenizer: Any) -> Special:
    """Found by trying: attributes such as add_bos_token are not kept up by every tokenizer."""
    if not callable(getattr(tokenizer, "convert_ids_to_tokens", None)):
        return Special()
    before, after = _around(tokenizer)
    first = tokenizer.convert_ids_to_tokens(before[0]) if before else None
    return Special(before, after, first, tokenizer.bos_token, tokenizer.bos_token_id)


def _around(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    for word in WORDS:
        bare, full = list(tokenizer(word, add_special_tokens=False).input_ids), list(tokenizer(word).input_ids)
        for start in range(len(full) - len(bare) + 1) if bare else ():
            if full[start : start + len(bare)] == bare:
                return tuple(full[:start]), tuple(full[start + len(bare) :])
    raise SpecError(f"the tokenizer has no tokens for any of {', '.join(WORDS)}: what it adds to a text cannot be told")
