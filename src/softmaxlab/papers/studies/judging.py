"""Claims of our studies are judged on their tables, and the control is a change of the table."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from softmaxlab.papers.claim import Claim, Finding, Verdict

if TYPE_CHECKING:
    import pandas

    Change = Callable[[pandas.DataFrame], pandas.DataFrame]
    Judge = Callable[[Change], Finding]


def whole(table: "pandas.DataFrame") -> "pandas.DataFrame":
    """As it is."""
    return table


def study_claim(
    study: str, name: str, statement: str, judge: "Judge", control: "Change", told: str, *, tolerance: str,
    expected: Verdict = Verdict.HOLDS,
) -> Claim:  # fmt: skip
    return Claim(
        id=f"studies/{name}",
        source="softmaxlab",
        place=f"Study {study}",
        statement=statement,
        tolerance=tolerance,
        judge=judge,
        subject=whole,
        control=control,
        control_is=told,
        expected=expected,
    )


def holds_if(met: bool, measured: str) -> Finding:
    return Finding(Verdict.HOLDS if met else Verdict.FAILS, measured)
