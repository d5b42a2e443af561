"""Citations by key: every figure, claim and map names its source in references.bib."""

import re
from collections.abc import Iterator
from importlib.resources import files

from softmaxlab.errors import unknown
from softmaxlab.papers.facts import claim_facts, figure_facts, map_facts

OURS = ("varre2026polarization", "sagitova2026specialization", "softmaxlab")  # what softmaxlab stands on, and itself


def bibliography() -> dict[str, str]:
    """BibTeX key → entry."""
    text = files("softmaxlab").joinpath("references.bib").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=@)", text.strip())
    return {re.match(r"@\w+\{([^,]+),", entry)[1]: entry.strip() for entry in entries}  # type: ignore[index]


def sources() -> dict[str, str]:
    """Everything that can be cited by name → its BibTeX key."""
    return {name: key for part in _parts() for name, key in part.items()}


def _parts() -> Iterator[dict[str, str]]:
    """Names with their keys, those that are read fastest first."""
    yield {key: key for key in bibliography()}
    yield {name: facts.source for name, facts in map_facts().items() if facts.source}
    yield {id: figure.source for id, figure in figure_facts().items()}
    yield {id: claim.source for id, claim in claim_facts().items()}


def citation(what: str) -> str:
    """The BibTeX entry behind a figure, claim, map or key."""
    for part in _parts():
        if what in part:
            return bibliography()[part[what]]
    raise unknown("figure, claim, map or key", what, sources())
