"""A study is a figure with a table of results that comes with softmaxlab, and can be made again, whole or in part."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from softmaxlab.core.result import Result
from softmaxlab.core.spec import Seed as Seed
from softmaxlab.papers.table_figure import COMMITTED, TableFigure
from softmaxlab.studies.study_numbers import Number, compared, listed

if TYPE_CHECKING:
    import pandas

TABLES = Path(__file__).parent / "data"


class Study(TableFigure):
    """`runs="committed"` reads the table, whose digest is then part of the spec; "made" makes rows anew."""

    table: ClassVar[str]  # the file's name in `tables`
    intervals: ClassVar[str]  # what those of its numbers are
    alike: ClassVar[tuple[str, ...]] = ()  # settings in which rows must be as the committed ones to be compared

    runs: Literal["committed", "made"] = "committed"

    @classmethod
    def digest_now(cls, fields: Mapping[str, Any]) -> str:
        return cls._digest() if fields["runs"] == COMMITTED else ""

    @model_validator(mode="after")
    def _nothing_else_is_set(self) -> Self:
        own = {name: field for name, field in type(self).model_fields.items() if name not in ("runs", "digest")}
        changed = [name for name, field in own.items() if getattr(self, name) != field.default]
        if self.runs == "committed" and changed:
            said = f"{changed[0]} is a setting of rows that are made"
            raise ValueError(f'{said}: set runs to "made" too, or take the preset "committed" as it is')
        if self.runs == "made" and self.digest:
            raise ValueError(f"digest is of committed rows: those that are made have none, got {self.digest!r}")
        return self

    @model_validator(mode="after")
    def _nothing_is_made_twice(self) -> Self:
        for name in type(self).model_fields:
            values = getattr(self, name)
            if isinstance(values, tuple) and len(set(values)) < len(values):
                raise ValueError(f"{name} must not name anything twice, got {values}")
        return self

    @classmethod
    def _digest(cls) -> str:
        return hashlib.sha256((TABLES / cls.table).read_bytes()).hexdigest()[:16]

    @classmethod
    def read(cls) -> "pandas.DataFrame":
        """The committed table."""
        import pandas

        return pandas.read_csv(TABLES / cls.table)

    def made(self, device: str) -> "pandas.DataFrame":
        """The rows of this spec, computed now."""
        raise NotImplementedError

    @staticmethod
    def numbers(table: "pandas.DataFrame") -> list[Number]:
        """The numbers that the study reports of its rows."""
        raise NotImplementedError

    def reference(self) -> list[Number]:
        """The committed numbers that those of this spec's rows are to be compared with."""
        return self.numbers(self.read())

    @staticmethod
    def seen(result: Result) -> str:
        """The numbers; of rows that were made, beside the committed ones."""
        study = result.spec
        assert isinstance(study, Study)
        numbers = study.numbers(result.to_pandas())
        other = [name for name in study.alike if getattr(study, name) != type(study).model_fields[name].default]
        if study.runs == "committed":
            said = listed(numbers)
        elif other:
            why = f"Not compared with the committed numbers, which are of another {' and '.join(other)}."
            said = f"{listed(numbers)}\n{why}"
        else:
            said = compared(numbers, study.reference())
        return f"{said}\nIn brackets: {study.intervals}."

    def _run(self, device: str) -> Result:
        if self.runs == COMMITTED:
            self.check_digest(self._digest())
        rows = self.read() if self.runs == "committed" else self.made(device)
        arrays = {name: np.asarray(rows[name].tolist()) for name in rows}
        return Result(
            arrays, dict.fromkeys(arrays, ("row",)), notes={str(name): fact for name, fact in rows.attrs.items()}
        )
