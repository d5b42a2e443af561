"""A figure drawn from a table of earlier runs: the papers' figures of trainings, and our studies.

What it shows depends on what it reads, so the digest of that is part of its spec and of its content key. A spec that
was made for another table is refused.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import model_validator

from softmaxlab.errors import SpecError
from softmaxlab.papers.figure import FigureSpec

COMMITTED = "committed"  # the table that comes with softmaxlab


class TableFigure(FigureSpec):
    """`runs` says where the rows come from. A leaf gives `digest_now`, and calls `check_digest` where it reads them."""

    runs: str = COMMITTED
    digest: str = ""

    @classmethod
    def digest_now(cls, fields: Mapping[str, Any]) -> str:
        """Return the digest of what a spec with these fields would read; "" if it reads nothing, or is wrong."""
        raise NotImplementedError

    @model_validator(mode="before")
    @classmethod
    def _fill_digest(cls, fields: Any) -> Any:
        """Add the digest of what is there now, unless the spec says what it was made for."""
        if not isinstance(fields, dict) or fields.get("digest"):
            return fields
        defaults = {name: field.default for name, field in cls.model_fields.items()}
        return fields | ({"digest": now} if (now := cls.digest_now(defaults | fields)) else {})

    def replace(self, /, **changes: Any) -> Self:
        """Return a spec with changes; other runs have another digest."""
        return super().replace(**({"digest": ""} | changes if "runs" in changes else changes))

    def check_digest(self, now: str) -> None:
        """Refuse a table that is not the one that this spec was made for."""
        if now != self.digest:
            raise SpecError(
                f"runs {self.runs!r} of {self.id} have changed since this spec was made: leave its digest out"
            )
