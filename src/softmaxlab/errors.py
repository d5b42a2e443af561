"""Everything softmaxlab raises on purpose, and the near-miss sentence shared by all unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches

LISTED = 40  # a sentence that names more than this is not read


class SoftmaxlabError(Exception):
    """Base of all errors raised on purpose: one line, meant for the user."""


class SpecError(SoftmaxlabError, ValueError):
    """A value the user gave is not acceptable; the message names the field, the value and what was expected."""


class MissingExtra(SpecError):
    """An optional dependency is needed and not installed; the message says how to install it."""


class UserCodeError(SpecError):
    """A plugin, spec or benchmark of the user's raised, or gave what it may not; the message names the place."""


class StoreError(SoftmaxlabError):
    """A stored result cannot be trusted or written."""


class DamagedError(StoreError):
    """A stored result is there but not whole; it may be computed again."""


def unknown(kind: str, name: object, known: Iterable[str]) -> SpecError:
    """The error for a name that is not in a list of known ones, with the nearest miss if there is one."""
    known = sorted(known)
    near = get_close_matches(str(name), known, n=1)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif len(known) > LISTED:
        hint = f"and none of the {len(known)} known ones is like it"
    else:
        hint = f"known: {', '.join(known)}" if known else "none is known"
    return SpecError(f"unknown {kind} {str(name)!r}, {hint}")
