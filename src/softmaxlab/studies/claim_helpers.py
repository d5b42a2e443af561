"""Build the claims of our studies: judged on a table, with a change of that table as the control."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from softmaxlab.errors import SpecError
from softmaxlab.papers.claim import Claim, Finding, Verdict

if TYPE_CHECKING:
    import pandas

    Table = pandas.DataFrame
    Change = Callable[[Table], Table]
    Judge = Callable[[Change], Finding]


def whole(table: "Table") -> "Table":
    """The table as it is."""
    return table


def needed(rows: "Table", what: str) -> "Table":
    """The rows, of which a claim needs at least one."""
    if not len(rows):
        raise SpecError(f"this claim is about {what}, of which these rows have none")
    return rows


def study_claim(
    study: str, name: str, statement: str, judge: "Judge", control: "Change", control_is: str, *, tolerance: str,
    expected: Verdict = Verdict.HOLDS, figures: tuple[str, ...] = (),
) -> Claim:  # fmt: skip
    """Make a claim of a study; `figures` are names, "forecast"."""
    return Claim(
        id=f"studies/{name}",
        source="softmaxlab",
        place=f"Study {study}",
        statement=statement,
        tolerance=tolerance,
        judge=judge,
        subject=whole,
        control=control,
        control_is=control_is,
        expected=expected,
        figures=tuple(f"studies/{figure}" for figure in figures),
    )


def holds_if(met: bool, measured: str) -> Finding:
    return Finding(Verdict.HOLDS if met else Verdict.FAILS, measured)
